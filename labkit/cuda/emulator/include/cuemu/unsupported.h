// Names that must not compile. labkit/cuda/emulator/diagnose.py turns each identifier into a
// sentence with the learner's own file and line.
#pragma once
#define asm cuemu_unsupported_inline_PTX
#define __activemask cuemu_unsupported___activemask
#ifndef CUEMU_PROGRAM  // a kernel's file has no host code
#define tex1D cuemu_unsupported_textures
#define tex2D cuemu_unsupported_textures
#define tex3D cuemu_unsupported_textures
#define tex1Dfetch cuemu_unsupported_textures
#define cudaTextureObject_t cuemu_unsupported_textures
#define cudaSurfaceObject_t cuemu_unsupported_surfaces
#define surf2Dread cuemu_unsupported_surfaces
#define surf2Dwrite cuemu_unsupported_surfaces
#define cudaLaunchKernel cuemu_unsupported_dynamic_parallelism
#define cudaDeviceSynchronize cuemu_unsupported_dynamic_parallelism
#define cudaGetLastError cuemu_unsupported_dynamic_parallelism
#define cudaMalloc cuemu_unsupported_host_API
#define cudaMemcpy cuemu_unsupported_host_API
#define cudaFree cuemu_unsupported_host_API
#endif
#define alloca cuemu_unsupported_alloca
