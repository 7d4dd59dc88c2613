// expect: sums so far 3 4 8 9 14, before each 0 3 4 8 9
// expect: largest so far 3 3 4 4 5
// expect: by key 1:10 1:30 3:0 4:20 5:40
// expect: a kernel doubled them: 2 2 6 8 10, their sum 28
// expect: one element: 7, squares 4 4 49 64 100
// expect: points: 0 0.5 0.75 0.25 then 0 0.5 0.25 0.75
// expect: a thread's own: 0.5000000001 0.7500000001
// Vectors on the device and what Thrust does with them, and points of Sobol's sequence.
#include <cstdio>
#include <curand.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
struct Square {
    __host__ __device__ int operator()(int x) const { return x * x; }
};
__global__ void points(curandDirectionVectors32_t* directions, double* out) {
    curandStateSobol32_t state;
    curand_init(directions[0], 1 + threadIdx.x, &state);
    out[threadIdx.x] = curand_uniform_double(&state);
}

int main() {
    const int given[5] = {3, 1, 4, 1, 5};
    thrust::device_vector<int> keys(given, given + 5), sums(5), before(5), most(5), values(5);
    thrust::inclusive_scan(keys.begin(), keys.end(), sums.begin());
    thrust::exclusive_scan(keys.begin(), keys.end(), before.begin());
    thrust::host_vector<int> s = sums, b = before;
    printf("sums so far %d %d %d %d %d, before each %d %d %d %d %d\n", s[0], s[1], s[2], s[3], s[4], b[0], b[1], b[2], b[3], b[4]);
    thrust::inclusive_scan(keys.begin(), keys.end(), most.begin(), thrust::maximum<int>());
    thrust::copy(most.begin(), most.end(), s.begin());
    printf("largest so far %d %d %d %d %d\n", s[0], s[1], s[2], s[3], s[4]);
    thrust::sequence(values.begin(), values.end());
    thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
    printf("by key");
    for (int i = 0; i < 5; ++i) printf(" %d:%d", (int)keys[i], 10 * values[i]);
    twice<<<1, 5>>>(thrust::raw_pointer_cast(&keys[0]));
    s = thrust::host_vector<int>(keys.begin(), keys.end());
    printf("\na kernel doubled them: %d %d %d %d %d, their sum %d\n", s[0], s[1], s[2], s[3], s[4], thrust::reduce(keys.begin(), keys.end()));
    keys[2] = 7;
    thrust::transform(keys.begin(), keys.end(), values.begin(), Square());
    s = values;
    printf("one element: %d, squares %d %d %d %d %d\n", (int)keys[2], s[0], s[1], s[2], s[3], s[4]);

    curandGenerator_t generator;
    thrust::device_vector<float> drawn(8);
    curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32);
    curandSetQuasiRandomGeneratorDimensions(generator, 2);
    curandSetGeneratorOrdering(generator, CURAND_ORDERING_QUASI_DEFAULT);
    curandGenerateUniform(generator, thrust::raw_pointer_cast(drawn.data()), 8);
    curandDestroyGenerator(generator);
    printf("points:");
    for (int i = 0; i < 8; ++i) printf("%s %.2g", i == 4 ? " then" : "", (float)drawn[i] < 1e-9f ? 0.0f : (float)drawn[i]);
    curandDirectionVectors32_t* directions;
    curandGetDirectionVectors32(&directions, CURAND_DIRECTION_VECTORS_32_JOEKUO6);
    thrust::device_vector<unsigned> on_device(directions[0], directions[0] + 32);
    thrust::device_vector<double> out(2);
    points<<<1, 2>>>((curandDirectionVectors32_t*)thrust::raw_pointer_cast(on_device.data()), thrust::raw_pointer_cast(out.data()));
    printf("\na thread's own: %.10f %.10f\n", (double)out[0], (double)out[1]);
}
