// Forced behind PyTorch's headers and CUDA's words: what the extension calls CUDA is this device.
#pragma once
#define CUDA PrivateUse1
#define kCUDA kPrivateUse1
#define is_cuda is_privateuseone

#ifndef CUEMU_HOST  // the kernels' build registers nothing; what would be registered is compiled
#undef TORCH_LIBRARY
#undef TORCH_LIBRARY_FRAGMENT
#undef TORCH_LIBRARY_IMPL
#define LABKIT_UNREGISTERED __attribute__((used)) static void
#define TORCH_LIBRARY(ns, m) LABKIT_UNREGISTERED labkit_library_##ns(torch::Library& m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) LABKIT_UNREGISTERED labkit_fragment_##ns(torch::Library& m)
#define TORCH_LIBRARY_IMPL(ns, key, m) LABKIT_UNREGISTERED labkit_##ns##_##key(torch::Library& m)
#endif
