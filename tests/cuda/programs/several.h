#pragma once
#include <stdio.h>

int doubled_and_squared(int value);

__host__ __device__ inline int twice(int value) { return 2 * value; }
static __global__ void say(int value) { printf("from a kernel: %d\n", value); }
