"""Ten code blocks of the low-level vision document, cut down to what a compiler has to judge.

Each keeps the names, types and calls of one block, in the document's order, and leaves the rest
out. `judge` puts them to the host's compiler, with every header they could ask for.
"""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from labkit.core.host_compiler import compiler

HEADERS = """
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>
#include <ATen/core/Tensor.h>
using at::Tensor;

// The CUDA runtime's declarations, as far as the sketches call it.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
struct cudaKernelNodeParams;
enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t = nullptr);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaGraphCreate(cudaGraph_t*, unsigned);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
struct Dim3 { unsigned x, y, z; };
extern const Dim3 threadIdx, blockIdx, blockDim;
#define __global__
#define __shared__ static
"""

SKETCHES = {
    "MemoryPool": """
struct MemoryPool {
    std::unordered_map<size_t, std::vector<void*>> free_chunks;
    std::mutex mutex;
    cudaStream_t stream;
    void* allocate(size_t size) {
        std::lock_guard<std::mutex> lock(mutex);
        void* ptr = nullptr;
        cudaMalloc(&ptr, size);
        return ptr;
    }
};""",
    "MemoryLayout": """
struct MemoryLayout {
    bool needs_reordering(const Tensor& tensor) {
        return tensor.stride(0) != strides[0];
    }
    void reorder_data(Tensor& tensor) {
        void* temp = cudaMalloc(tensor.nbytes());
    }
};""",
    "conv2d_kernel": """
__global__ void conv2d_kernel(const float* input, const float* weight, float* output,
                              int64_t N, int64_t C, int64_t H, int64_t W,
                              int64_t K, int64_t R, int64_t S) {
    int64_t n = blockIdx.x, k = blockIdx.y, h = threadIdx.x, w = threadIdx.y;
    float sum = 0.0f;
    for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++)
            sum += input[((n * C + c) * H + h + r) * W + w + s];
    output[((n * K + k) * out_h + h) * out_w + w] = sum;
}""",
    "CUDAStream": """
struct CUDAStream {
    cudaStream_t stream;
    std::mutex mutex;
    void execute(const std::function<void()>& func) {
        std::lock_guard<std::mutex> lock(mutex);
        cudaStreamSynchronize(stream);
        func();
        cudaStreamSynchronize(stream);
    }
};""",
    "OperatorFuser": """
struct OperatorFuser {
    std::unordered_map<std::string, std::vector<std::string>> fusion_rules;
    bool can_fuse(const std::vector<Node>& nodes) {
        return fusion_rules.count(nodes[0].op_type) > 0;
    }
};""",
    "InPlaceOptimizer": """
struct InPlaceOptimizer {
    bool can_do_inplace(const Node& node) {
        return node.consumers.size() == 1 && is_safe_for_inplace(node.op_type);
    }
};""",
    "ResidualBlock": """
struct ResidualBlock {
    void forward(const float* input, float* output) {
        conv1.forward(input, temp1);
        if (downsample) downsample.forward(input, skip);
        else skip = input;
        add.forward(temp1, skip, output);
    }
};""",
    "MBConv": """
struct MBConv {
    void optimize_memory() {
        size_t expanded_size = input.size() * expansion;
        memory_pool.allocate(expanded_size);
    }
    void forward(const float* input, float* output) { expand_conv.forward(input, expanded); }
};""",
    "MixedPrecision": """
struct MixedPrecision {
    void forward(const float* input, float* output) {
        float16* input_fp16 = convert_to_fp16(input);
    }
};""",
    "CUDACompiler": """
struct CUDACompiler {
    void compile(const Graph& graph) {
        cudaGraph_t graph;
        cudaGraphCreate(&graph, 0);
        for (const auto& node : graph.nodes) add_node_to_graph(graph, node);
        cudaGraphLaunch(graph, stream);
    }
};""",
}


@dataclass(frozen=True)
class Verdict:
    """What the compiler said of one sketch: (line, words) per error."""

    name: str
    code: str
    errors: tuple[tuple[int, str], ...]

    @property
    def accepted(self) -> bool:
        """True when there is nothing to say."""
        return not self.errors


def judge() -> list[Verdict]:
    """The compiler's errors on every sketch, each compiled as if the others were right.

    Raises   CompilerMissing   no C++ compiler
             RuntimeError      the compiler refuses the headers themselves
    """
    include = Path(torch.__file__).parent / "include"
    with tempfile.TemporaryDirectory(prefix="labkit-sketches-") as folder:
        unit = Path(folder) / "sketches.cpp"
        parts = [HEADERS, '#line 1 "headers"']
        for name, code in SKETCHES.items():
            parts += [f'#line 1 "{name}"', code.strip()]
        unit.write_text("\n".join(parts) + "\n", encoding="utf-8")
        done = subprocess.run(
            [compiler("c++"), "-std=c++20", "-fsyntax-only", "-fmax-errors=0", "-w",
             f"-I{include}", str(unit)],
            capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    found: dict[str, list[tuple[int, str]]] = {name: [] for name in SKETCHES}
    for file, line, words in re.findall(r"^(.+?):(\d+):(?:\d+:)? error: (.+)$", done.stderr, re.M):
        if file not in found:
            raise RuntimeError(f"the headers do not compile: {file}:{line}: {words}")
        said = words.partition("; did you mean")[0].partition(" (maybe you meant")[0]
        found[file].append((int(line), said))
    return [
        Verdict(name, code.strip(), tuple(dict.fromkeys(found[name])))
        for name, code in SKETCHES.items()
    ]
