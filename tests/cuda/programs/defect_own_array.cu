// expect: 0 of 6
// A thread's own histogram is one bin too short; rows of a shared tile may be read as one.
#include <cstdio>

template <int BINS>
__device__ int most(const int* values, int count) {
	int bins[BINS] = {};
	for (int i = 0; i < count; ++i) ++bins[values[i]];  // finds out_of_bounds
	int best = 0;
	for (int bin = 1; bin < BINS; ++bin) best = bins[bin] > bins[best] ? bin : best;
	return best;
}

__global__ void vote(const int* values, int count, int* winners) {
	__shared__ int tile[2][4];
	tile[threadIdx.x / 4][threadIdx.x % 4] = values[threadIdx.x];
	__syncthreads();
	if (threadIdx.x == 0) winners[0] = most<4>(tile[0], count);
	if (threadIdx.x == 1) winners[1] = tile[0][count];
}

int main() {
	int values[8] = {3, 1, 3, 2, 4, 6, 0, 0}, winners[2], *on_device, *won;
	cudaMalloc(&on_device, sizeof(values));
	cudaMalloc(&won, sizeof(winners));
	cudaMemset(won, 0, sizeof(winners));
	cudaMemcpy(on_device, values, sizeof(values), cudaMemcpyHostToDevice);
	vote<<<1, 8>>>(on_device, 5, won);
	cudaMemcpy(winners, won, sizeof(winners), cudaMemcpyDeviceToHost);
	std::printf("%d of %d\n", winners[0], winners[1]);
	cudaFree(on_device);
	cudaFree(won);
}
