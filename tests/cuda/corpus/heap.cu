// Memory that threads allocate for themselves, with malloc and new; objects with virtual functions.
#include <new>

struct Node { int value; Node* next; };

//: clean 2 64 z:128
extern "C" __global__ void a_list_of_its_own(int* y) {
    Node* first = nullptr;
    for (int k = 0; k < 3; ++k) first = new Node{k, first};
    int sum = 0;
    while (first) {
        sum += first->value;
        Node* next = first->next;
        delete first;
        first = next;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

//: clean 1 64 z:64
extern "C" __global__ void one_thread_allocates_for_the_block(int* y) {
    __shared__ volatile int* numbers;
    if (threadIdx.x == 0) numbers = (int*)malloc(64 * sizeof(int));
    __syncthreads();
    numbers[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = numbers[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free((int*)numbers);
}

//: race 1 64 z:64
extern "C" __global__ void allocated_for_the_block_and_read_too_soon(int* y) {
    __shared__ volatile int* numbers;
    if (threadIdx.x == 0) numbers = (int*)malloc(64 * sizeof(int));
    __syncthreads();
    numbers[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = numbers[63 - threadIdx.x];  // BUG
}

//: out_of_bounds 1 32 z:32
extern "C" __global__ void past_the_end_of_a_piece(int* y) {
    volatile int* numbers = new int[4];
    for (int k = 0; k < 4; ++k) numbers[k] = k;
    y[threadIdx.x] = numbers[4];  // BUG
    delete[] numbers;
}

//: out_of_bounds 1 32 z:32
extern "C" __global__ void read_after_free(int* y) {
    volatile int* numbers = (int*)malloc(16);
    numbers[0] = threadIdx.x;
    free((int*)numbers);
    y[threadIdx.x] = numbers[0];  // BUG
}

struct Shape {
    __device__ virtual int corners() const = 0;
};
struct Square : Shape {
    __device__ int corners() const override { return 4; }
};

//: clean 1 64 z:64
extern "C" __global__ void an_object_in_shared_memory(int* y) {
    __shared__ __align__(8) char place[sizeof(Square)];
    __shared__ Shape* shape;
    if (threadIdx.x == 0) shape = new (place) Square;
    __syncthreads();
    y[threadIdx.x] = shape->corners();
}

//: race 1 64 z:64
extern "C" __global__ void an_object_used_before_it_is_made(int* y) {
    __shared__ __align__(8) char place[sizeof(Square)];
    Shape* shape = (Square*)place;
    if (threadIdx.x == 0) new (place) Square;
    y[threadIdx.x] = ((volatile int*)place)[1];  // BUG
    if (shape == nullptr) y[0] = 0;
}
