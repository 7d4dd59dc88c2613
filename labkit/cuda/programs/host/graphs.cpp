// Graphs: captured, built node by node, changed and launched.
#include <string.h>

#include "kernels.h"

#define CUEMU_QUIET inline
#include "../../emulator/include/cuemu/host/graphs.h"

using cuemu::ask;
using cuemu::noted;
using cuemu::number;
using cuemu::place;
using cuemu::tell;

namespace {

// A copy that labkit cannot do, since the program's own memory is part of it: the program does,
// when its turn comes. Graphs may be launched again, so these are never given back.
struct Copy {
    void* to;
    const void* from;
    size_t to_pitch, from_pitch, width, height;
};

void run_copy(void* data) {
    const Copy& copy = *static_cast<const Copy*>(data);
    char* const to = cuemu::window(copy.to) ? cuemu::window(copy.to) : static_cast<char*>(copy.to);
    const char* const from = cuemu::window(copy.from) ? cuemu::window(copy.from) : static_cast<const char*>(copy.from);
    for (size_t row = 0; row < copy.height; ++row) memmove(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.width);
}

cudaError_t made(const char* name, const void* site, void* handle, std::initializer_list<int64_t> numbers,
                 const void* data = nullptr, size_t size = 0) {
    const cuemu::Answer answer = ask(name, site, numbers, data, size);
    if (!answer.error && handle) *static_cast<int64_t*>(handle) = answer.values[0];
    return noted(answer.error);
}

// What a node comes after, in front of what else is told of it.
std::string behind(const cudaGraphNode_t* after, size_t count, const std::string& more = std::string()) {
    return std::string(reinterpret_cast<const char*>(after), count * sizeof(*after)) + more;
}

cudaError_t added(const char* name, const void* site, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                  size_t count, int64_t a = 0, int64_t b = 0, int64_t c = 0, const std::string& more = std::string()) {
    const std::string data = behind(after, count, more);
    return made(name, site, node, {number(graph), static_cast<int64_t>(count), a, b, c}, data.data(), data.size());
}

cudaError_t kernel_node(const char* name, const void* site, void* node, int64_t owner, const cudaGraphNode_t* after, size_t count,
                        const cudaKernelNodeParams& kernel) {
    const CuemuThunk* thunk = cuemu::thunk_of(kernel.func);
    if (!thunk) return noted(cudaErrorInvalidDeviceFunction);
    const cuemu::Config config = {kernel.gridDim, kernel.blockDim, kernel.sharedMemBytes, 0, "", "", 0, 0};
    const std::string data = behind(after, count, cuemu::launch_body(config, *thunk, kernel.kernelParams));
    return made(name, site, node,
                {owner, static_cast<int64_t>(count), place(kernel.func), place(thunk), static_cast<int64_t>(kernel.sharedMemBytes)},
                data.data(), data.size());
}

cudaError_t host_node(const void* site, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                      cudaHostFn_t function, void* data) {
    cuemu::expect_calls();
    return added("cudaGraphAddHostNode", site, node, graph, after, count, reinterpret_cast<int64_t>(function), number(data));
}

cudaError_t memset_node(const void* site, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                        const cudaMemsetParams& fill) {
    return added("cudaGraphAddMemsetNode", site, node, graph, after, count, 0, 0, 0,
                 std::string(reinterpret_cast<const char*>(&fill), sizeof(fill)));
}

cudaError_t alloc_node(const void* site, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                       cudaMemAllocNodeParams& memory) {
    const std::string data = behind(after, count);
    const cuemu::Answer answer = ask("cudaGraphAddMemAllocNode", site,
                                     {number(graph), static_cast<int64_t>(count), static_cast<int64_t>(memory.bytesize)},
                                     data.data(), data.size());
    if (answer.error) return noted(answer.error);
    memcpy(node, &answer.values[0], sizeof(*node));
    memory.dptr = reinterpret_cast<void*>(answer.values[1]);
    return cudaSuccess;
}

cudaError_t conditional_node(const void* site, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                             size_t count, cudaConditionalNodeParams& params) {
    const std::string data = behind(after, count);
    const cuemu::Answer answer =
        ask("cuemu_conditional_node", site,
            {number(graph), static_cast<int64_t>(count), static_cast<int64_t>(params.handle), params.type, params.size},
            data.data(), data.size());
    if (answer.error) return noted(answer.error);
    memcpy(node, &answer.values[0], sizeof(*node));
    params.phGraph_out = new cudaGraph_t[params.size];  // the graph's, which outlives its launches
    memcpy(params.phGraph_out, answer.data.data(), answer.data.size());
    return cudaSuccess;
}

}  // namespace

namespace cuemu {
cudaError_t copy_later(const void* site, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                       size_t height, cudaStream_t stream) {
    expect_calls();
    auto* const copy = new Copy{to, from, to_pitch, from_pitch, width, height};
    return tell("cudaLaunchHostFunc", site, {number(stream), reinterpret_cast<int64_t>(run_copy), number(copy), 0});
}
}  // namespace cuemu

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    return tell("cudaStreamBeginCapture", CUEMU_SITE, {number(stream)});
}
cudaError_t cuemu_capture_into(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
    const std::string data = behind(after, count);
    return tell("cuemu_capture_into", CUEMU_SITE, {number(stream), number(graph)}, data.data(), data.size());
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    return made("cudaStreamEndCapture", CUEMU_SITE, graph, {number(stream)});
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    const cuemu::Answer answer = ask("cuemu_capture_info", CUEMU_SITE, {number(stream)});
    return *status = static_cast<cudaStreamCaptureStatus>(answer.values[0]), noted(answer.error);
}
cudaError_t cuemu_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                               const cudaGraphNode_t** after, size_t* count) {
    static thread_local std::string nodes;  // valid until this thread asks again
    const cuemu::Answer answer = ask("cuemu_capture_info", CUEMU_SITE, {number(stream)});
    *status = static_cast<cudaStreamCaptureStatus>(answer.values[0]);
    if (id) *id = static_cast<unsigned long long>(answer.values[1]);
    if (graph) memcpy(graph, &answer.values[1], sizeof(*graph));
    nodes = answer.data;
    if (after) *after = reinterpret_cast<const cudaGraphNode_t*>(nodes.data());
    if (count) *count = nodes.size() / sizeof(cudaGraphNode_t);
    return noted(answer.error);
}
cudaError_t cuemu_capture_after(cudaStream_t stream, const cudaGraphNode_t* after, size_t count, unsigned flags) {
    const std::string data = behind(after, count);
    return tell("cuemu_capture_after", CUEMU_SITE, {number(stream), flags}, data.data(), data.size());
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) { return made("cudaGraphCreate", CUEMU_SITE, graph, {}); }
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
    return made("cudaGraphClone", CUEMU_SITE, clone, {number(graph)});
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                   const cudaKernelNodeParams* kernel) {
    return kernel_node("cudaGraphAddKernelNode", CUEMU_SITE, node, number(graph), after, count, *kernel);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, const cudaKernelNodeParams* kernel) {
    return kernel_node("cudaGraphExecKernelNodeSetParams", CUEMU_SITE, nullptr, number(executable), &node, 1, *kernel);
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                   const cudaMemcpy3DParms* c) {
    if (c->srcArray || c->dstArray || c->extent.depth > 1) return noted(cudaErrorNotSupported);
    char* const to = static_cast<char*>(c->dstPtr.ptr) + c->dstPos.y * c->dstPtr.pitch + c->dstPos.x;
    const char* const from = static_cast<const char*>(c->srcPtr.ptr) + c->srcPos.y * c->srcPtr.pitch + c->srcPos.x;
    auto* const copy = new Copy{to, from, c->dstPtr.pitch, c->srcPtr.pitch, c->extent.width, c->extent.height};
    return host_node(CUEMU_SITE, node, graph, after, count, run_copy, copy);
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                     void* to, const void* from, size_t size, cudaMemcpyKind) {
    return host_node(CUEMU_SITE, node, graph, after, count, run_copy, new Copy{to, from, size, size, size, 1});
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                   const cudaMemsetParams* fill) {
    return memset_node(CUEMU_SITE, node, graph, after, count, *fill);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                 const cudaHostNodeParams* host) {
    return host_node(CUEMU_SITE, node, graph, after, count, host->fn, host->userData);
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
    return added("cudaGraphAddEmptyNode", CUEMU_SITE, node, graph, after, count);
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       cudaGraph_t child) {
    return added("cudaGraphAddChildGraphNode", CUEMU_SITE, node, graph, after, count, number(child));
}
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                     cudaMemAllocNodeParams* memory) {
    return alloc_node(CUEMU_SITE, node, graph, after, count, *memory);
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                    void* pointer) {
    return added("cudaGraphAddMemFreeNode", CUEMU_SITE, node, graph, after, count, number(pointer));
}
cudaError_t cuemu_add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                           cudaGraphNodeParams* params) {
    const void* const site = CUEMU_SITE;
    switch (params->type) {
        case cudaGraphNodeTypeKernel:
            return kernel_node("cudaGraphAddKernelNode", site, node, number(graph), after, count, params->kernel);
        case cudaGraphNodeTypeMemset: return memset_node(site, node, graph, after, count, params->memset);
        case cudaGraphNodeTypeHost: return host_node(site, node, graph, after, count, params->host.fn, params->host.userData);
        case cudaGraphNodeTypeEmpty: return added("cudaGraphAddEmptyNode", site, node, graph, after, count);
        case cudaGraphNodeTypeMemAlloc: return alloc_node(site, node, graph, after, count, params->alloc);
        case cudaGraphNodeTypeConditional: return conditional_node(site, node, graph, after, count, params->conditional);
        default: return tell("cudaGraphAddNode of this type", site, {});
    }
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
    const std::string data = behind(from, count, behind(to, count));
    return tell("cudaGraphAddDependencies", CUEMU_SITE, {number(graph), static_cast<int64_t>(count)}, data.data(), data.size());
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    const cuemu::Answer answer = ask("cudaGraphGetNodes", CUEMU_SITE, {number(graph)});
    const size_t known = answer.data.size() / sizeof(*nodes);
    if (nodes) memcpy(nodes, answer.data.data(), (known < *count ? known : *count) * sizeof(*nodes));
    return *count = known, noted(answer.error);
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned value, unsigned flags) {
    return made("cudaGraphConditionalHandleCreate", CUEMU_SITE, handle, {number(graph), value, flags});
}
cudaError_t cuemu_instantiate(cudaGraphExec_t* executable, cudaGraph_t graph) {
    return made("cudaGraphInstantiate", CUEMU_SITE, executable, {number(graph)});
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    return made("cudaGraphInstantiate", CUEMU_SITE, executable, {number(graph)});
}
cudaError_t cuemu_update(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResult* result) {
    const cuemu::Answer answer = ask("cudaGraphExecUpdate", CUEMU_SITE, {number(executable), number(graph)});
    *result = answer.error ? cudaGraphExecUpdateErrorTopologyChanged : cudaGraphExecUpdateSuccess;
    return noted(answer.error);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    return tell("cudaGraphUpload", CUEMU_SITE, {number(executable), number(stream)});
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    return tell("cudaGraphLaunch", CUEMU_SITE, {number(executable), number(stream)});
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return tell("cudaGraphDestroy", CUEMU_SITE, {number(graph)}); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return tell("cudaGraphExecDestroy", CUEMU_SITE, {number(executable)});
}
cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType attribute, void* value) {
    const cuemu::Answer answer = ask("cudaDeviceGetGraphMemAttribute", CUEMU_SITE, {attribute});
    memcpy(value, &answer.values[0], sizeof(uint64_t));
    return noted(answer.error);
}
cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) { return cudaSuccess; }
cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }

}
