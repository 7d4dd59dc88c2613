// expect: callback of stream 1: 10
// expect: the thread that waited saw 11
// expect: the device reached the end by itself: 1
// A callback on which host code waits without a word to CUDA, and memory that it watches.
#include <condition_variable>
#include <cstdio>
#include <mutex>

__global__ void add(int* x, int value) { *x += value; }

std::mutex mutex;
std::condition_variable changed;
bool finished = false;

void CUDART_CB on_finished(cudaStream_t, cudaError_t status, void* data) {
    const std::lock_guard<std::mutex> lock(mutex);
    std::printf("callback of stream %d: %d\n", status == cudaSuccess, *static_cast<int*>(data));
    ++*static_cast<int*>(data);
    finished = true;
    changed.notify_one();
}

int main() {
    int* x;
    cudaStream_t stream;
    cudaMallocManaged(&x, sizeof(int));
    *x = 0;
    cudaStreamCreate(&stream);
    add<<<1, 1, 0, stream>>>(x, 10);
    cudaStreamAddCallback(stream, on_finished, x, 0);
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [] { return finished; });
    }
    std::printf("the thread that waited saw %d\n", *x);
    add<<<1, 1, 0, stream>>>(x, 100);
    volatile int* watched = x;
    while (*watched < 111) {
    }
    std::printf("the device reached the end by itself: %d\n", *watched == 111);
    cudaStreamDestroy(stream);
    cudaFree(x);
}
