// expect: even
// expect: left 3
// expect: left 2
// expect: left 1
// expect: case 1
// expect: odd
// expect: left 3
// expect: left 2
// expect: left 1
// expect: case 0
// Conditions in graphs: if and else, a loop whose body was captured, and a choice of two.
#include <cstdio>

__global__ void choose(const int* number, cudaGraphConditionalHandle is_even, cudaGraphConditionalHandle which) {
    cudaGraphSetConditional(is_even, *number % 2 == 0);
    cudaGraphSetConditional(which, *number % 2 == 0 ? 1 : 0);
}
__global__ void say(const char* word) { printf("%s\n", word); }
__global__ void even() { printf("even\n"); }
__global__ void odd() { printf("odd\n"); }
__global__ void case_of(int number) { printf("case %d\n", number); }
__global__ void start(int* left) { *left = 3; }
__global__ void count_down(int* left, cudaGraphConditionalHandle again) {
    printf("left %d\n", *left);
    *left -= 1;
    cudaGraphSetConditional(again, *left > 0);
}

template <class... A> cudaGraphNode_t add(cudaGraph_t graph, void* kernel, const cudaGraphNode_t* after, A... given) {
    void* arguments[] = {&given..., nullptr};
    cudaGraphNodeParams params = {cudaGraphNodeTypeKernel};
    params.kernel.func = kernel;
    params.kernel.gridDim = dim3(1), params.kernel.blockDim = dim3(1);
    params.kernel.kernelParams = arguments;
    cudaGraphNode_t node;
    cudaGraphAddNode(&node, graph, after, after ? 1 : 0, &params);
    return node;
}

int main() {
    int *number, *left;
    cudaMalloc(&number, sizeof(int));
    cudaMalloc(&left, sizeof(int));
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaGraphConditionalHandle is_even, which, again;
    cudaGraphConditionalHandleCreate(&is_even, graph);
    cudaGraphConditionalHandleCreate(&which, graph);
    cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault);

    cudaGraphNode_t node = add(graph, (void*)choose, nullptr, number, is_even, which);
    cudaGraphNodeParams condition = {cudaGraphNodeTypeConditional};
    condition.conditional.handle = is_even;
    condition.conditional.type = cudaGraphCondTypeIf;
    condition.conditional.size = 2;
    cudaGraphAddNode(&node, graph, &node, 1, &condition);
    add(condition.conditional.phGraph_out[0], (void*)even, nullptr);
    add(condition.conditional.phGraph_out[1], (void*)odd, nullptr);

    node = add(graph, (void*)start, &node, left);
    condition.conditional.handle = again;
    condition.conditional.type = cudaGraphCondTypeWhile;
    condition.conditional.size = 1;
    cudaGraphAddNode(&node, graph, &node, 1, &condition);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamBeginCaptureToGraph(stream, condition.conditional.phGraph_out[0], nullptr, nullptr, 0, cudaStreamCaptureModeGlobal);
    count_down<<<1, 1, 0, stream>>>(left, again);
    cudaStreamEndCapture(stream, nullptr);

    condition.conditional.handle = which;
    condition.conditional.type = cudaGraphCondTypeSwitch;
    condition.conditional.size = 2;
    cudaGraphAddNode(&node, graph, &node, 1, &condition);
    for (int i = 0; i < 2; ++i) add(condition.conditional.phGraph_out[i], (void*)case_of, nullptr, i);

    cudaGraphExec_t ready;
    cudaGraphInstantiate(&ready, graph, 0);
    for (int given = 4; given <= 5; ++given) {
        cudaMemcpy(number, &given, sizeof(int), cudaMemcpyHostToDevice);
        cudaGraphLaunch(ready, 0);
        cudaDeviceSynchronize();
    }
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaFree(number);
    cudaFree(left);
    cudaStreamDestroy(stream);
}
