// A step of long-long-term memory for PyTorch: its gates in one kernel forward and one backward.
// gates [batch, 3 width] holds a, b and x side by side; a lets x into the cell, b lets it out as h.
//
//   lltm::step           the CUDA kernel of an operator that is defined elsewhere: gates, old cell
//                        [batch, width] -> h, cell
//   lltm_cuda::forward   the same with PyTorch's matrix product before it: input [batch, features],
//                        weights [3 width, width + features], bias [3 width], old h, old cell
//                        -> h, cell, and what the way back needs
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <cuda_runtime.h>

#include <tuple>

namespace {

using at::Tensor;
template <class T> using Matrix = at::PackedTensorAccessor32<T, 2, at::RestrictPtrTraits>;
template <class T> using Gates = at::PackedTensorAccessor32<T, 3, at::RestrictPtrTraits>;
constexpr int kThreads = 128;

template <class T> __device__ __forceinline__ T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T> __device__ __forceinline__ T elu(T x) { return x > T(0) ? x : expm1(x); }
template <class T> __device__ __forceinline__ T elu_slope(T x) { return x > T(0) ? T(1) : exp(x); }

// One thread per element of the cell; neighbours along a row read neighbouring gates.
template <class T>
__global__ void gates_forward(const Gates<T> gates, const Matrix<T> old_cell, Matrix<T> h,
                              Matrix<T> cell) {
    const int row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= old_cell.size(1)) return;
    const T a = gates[row][0][column], b = gates[row][1][column], x = gates[row][2][column];
    cell[row][column] = old_cell[row][column] + elu(x) * sigmoid(a);
    h[row][column] = tanh(cell[row][column]) * sigmoid(b);
}

template <class T>
__global__ void gates_backward(const Matrix<T> grad_h, const Matrix<T> grad_cell,
                               const Gates<T> gates, const Matrix<T> cell, Gates<T> d_gates,
                               Matrix<T> d_old_cell) {
    const int row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cell.size(1)) return;
    const T a = sigmoid(gates[row][0][column]), b = sigmoid(gates[row][1][column]);
    const T x = gates[row][2][column], t = tanh(cell[row][column]);
    const T through_h = grad_h[row][column] * b * (T(1) - t * t);
    const T d_cell = grad_cell[row][column] + through_h;
    d_old_cell[row][column] = d_cell;
    d_gates[row][0][column] = d_cell * elu(x) * a * (T(1) - a);
    d_gates[row][1][column] = grad_h[row][column] * t * b * (T(1) - b);
    d_gates[row][2][column] = d_cell * a * elu_slope(x);
}

dim3 blocks_for(const Tensor& cell) {
    return dim3((cell.size(1) + kThreads - 1) / kThreads, cell.size(0));
}

std::tuple<Tensor, Tensor> step(const Tensor& all_gates, const Tensor& old) {
    TORCH_CHECK(all_gates.is_cuda(), "gates must be a CUDA tensor");
    const Tensor old_cell = old.contiguous();
    const Tensor gates = all_gates.contiguous().view({old.size(0), 3, old.size(1)});
    const Tensor h = at::empty_like(old_cell), cell = at::empty_like(old_cell);
    if (cell.numel()) {
        AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), "lltm_step", [&] {
            gates_forward<scalar_t><<<blocks_for(cell), kThreads>>>(
                gates.packed_accessor32<scalar_t, 3, at::RestrictPtrTraits>(),
                old_cell.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(),
                h.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(),
                cell.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>());
        });
    }
    return {h, cell};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> forward(const Tensor& input, const Tensor& weights,
                                                   const Tensor& bias, const Tensor& old_h,
                                                   const Tensor& old_cell) {
    TORCH_CHECK(input.is_cuda(), "input must be a CUDA tensor");
    const Tensor joined = at::cat({old_h, input}, 1), gates = at::addmm(bias, joined, weights.t());
    const auto [h, cell] = step(gates, old_cell);
    return {h, cell, joined, gates};
}

std::tuple<Tensor, Tensor> backward(const Tensor& grad_h, const Tensor& grad_cell,
                                    const Tensor& all_gates, const Tensor& cell) {
    const Tensor gates = all_gates.view({cell.size(0), 3, cell.size(1)});
    const Tensor d_gates = at::zeros_like(gates), d_old_cell = at::zeros_like(cell);
    if (cell.numel()) {
        AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), "lltm_backward", [&] {
            gates_backward<scalar_t><<<blocks_for(cell), kThreads>>>(
                grad_h.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(),
                grad_cell.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(),
                gates.packed_accessor32<scalar_t, 3, at::RestrictPtrTraits>(),
                cell.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(),
                d_gates.packed_accessor32<scalar_t, 3, at::RestrictPtrTraits>(),
                d_old_cell.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>());
        });
    }
    return {d_gates.flatten(1), d_old_cell};
}

}  // namespace

TORCH_LIBRARY(lltm_cuda, m) {
    m.def("forward(Tensor input, Tensor weights, Tensor bias, Tensor old_h, Tensor old_cell)"
          " -> (Tensor, Tensor, Tensor, Tensor)");
    m.def("backward(Tensor grad_h, Tensor grad_cell, Tensor gates, Tensor cell) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(lltm, CUDA, m) {
    m.impl("step", &step);
}
TORCH_LIBRARY_IMPL(lltm_cuda, CUDA, m) {
    m.impl("forward", &forward);
    m.impl("backward", &backward);
}
