// expect: 12 14 16 18
// expect: 24 28 32 36
// expect: update refused: 1
// expect: sum 100
// A graph built by hand: fill, kernels with other arguments later, copies to pageable memory, memory
// of its own; and one captured with an asynchronous allocation.
#include <cstdio>

__global__ void scale(int* out, const int* in, int by, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] = in[i] * by;
}
__global__ void add_to(int* total, const int* in, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += in[i];
    *total += sum;
}

int main() {
    const int n = 4;
    int in[n] = {6, 7, 8, 9}, out[n] = {}, by = 2, count = n;
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaMemAllocNodeParams room = {};
    room.bytesize = sizeof(in);
    cudaGraphNode_t first, second, copy_in, compute, copy_out, freed;
    cudaGraphAddMemAllocNode(&first, graph, nullptr, 0, &room);
    int* device_in = static_cast<int*>(room.dptr);
    cudaGraphAddMemAllocNode(&second, graph, nullptr, 0, &room);
    int* device_out = static_cast<int*>(room.dptr);
    cudaGraphAddMemcpyNode1D(&copy_in, graph, &first, 1, device_in, in, sizeof(in), cudaMemcpyHostToDevice);
    void* arguments[] = {&device_out, &device_in, &by, &count};
    cudaKernelNodeParams params = {};
    params.func = (void*)scale;
    params.gridDim = dim3(1), params.blockDim = dim3(32), params.kernelParams = arguments;
    const cudaGraphNode_t both[] = {second, copy_in};
    cudaGraphAddKernelNode(&compute, graph, both, 2, &params);
    cudaGraphAddMemcpyNode1D(&copy_out, graph, &compute, 1, out, device_out, sizeof(out), cudaMemcpyDeviceToHost);
    cudaGraphAddMemFreeNode(&freed, graph, &copy_out, 1, device_out);
    cudaGraphExec_t ready;
    cudaGraphInstantiate(&ready, graph, nullptr, nullptr, 0);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (by = 2; by <= 4; by += 2) {
        cudaGraphExecKernelNodeSetParams(ready, compute, &params);
        cudaGraphLaunch(ready, stream);
        cudaStreamSynchronize(stream);
        std::printf("%d %d %d %d\n", out[0], out[1], out[2], out[3]);
    }

    int *total, *kept;
    cudaMalloc(&kept, sizeof(int));
    cudaMemset(kept, 0, sizeof(int));
    cudaGraph_t captured;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    int* part;
    cudaMallocAsync(&part, sizeof(in), stream);
    cudaMemcpyAsync(part, in, sizeof(in), cudaMemcpyHostToDevice, stream);
    add_to<<<1, 1, 0, stream>>>(kept, part, n);
    cudaFreeAsync(part, stream);
    cudaStreamEndCapture(stream, &captured);
    total = kept;
    cudaGraphExecUpdateResultInfo info;
    std::printf("update refused: %d\n", cudaGraphExecUpdate(ready, captured, &info) == cudaErrorGraphExecUpdateFailure);  // finds api_error
    cudaGraphExec_t adding;
    cudaGraphInstantiate(&adding, captured, 0);
    cudaGraphLaunch(adding, stream);
    in[0] = 46;  // a graph reads the host's memory when it is launched
    cudaStreamSynchronize(stream);
    in[0] = 46;
    cudaGraphLaunch(adding, stream);
    int result = 0;
    cudaMemcpyAsync(&result, total, sizeof(int), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    std::printf("sum %d\n", result);
    cudaFree(kept);
    cudaGraphExecDestroy(ready);
    cudaGraphExecDestroy(adding);
    cudaGraphDestroy(graph);
    cudaGraphDestroy(captured);
    cudaStreamDestroy(stream);
}
