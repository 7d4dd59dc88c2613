// Names of streams and events for a profiler, which nobody reads here.
#pragma once
#include "nvToolsExt.h"
inline void nvtxNameCudaStreamA(cudaStream_t, const char*) {}
inline void nvtxNameCudaEventA(cudaEvent_t, const char*) {}
