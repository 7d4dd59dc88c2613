// Forced in front of every file of an extension, before CUDA's words: PyTorch's headers as a host
// compiler reads them. Only the packed accessors know what nvcc is.
#pragma once
#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/complex.h>
#define __CUDACC__ 1
#define __host__
#define __device__
#include <ATen/core/TensorAccessor.h>
#undef __CUDACC__
#undef __host__
#undef __device__
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>
