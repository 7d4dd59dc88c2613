// cuFFT: a plan is sizes and a stream, a transform is a message.
#include <vector>

#include "ask.h"

#include "../../emulator/include/cufft.h"

namespace {
struct Plan {
    bool open;
    CuemuFft fft;
    cudaStream_t stream;
};
std::vector<Plan>& plans() {
    static std::vector<Plan> all;
    return all;
}
Plan* plan_of(cufftHandle handle) {
    const size_t number = static_cast<size_t>(handle) - 1;
    return number < plans().size() && plans()[number].open ? &plans()[number] : nullptr;
}
}  // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle* handle) {
    plans().push_back({true, {}, nullptr});
    *handle = static_cast<cufftHandle>(plans().size());
    return CUFFT_SUCCESS;
}
cufftResult cufftDestroy(cufftHandle handle) {
    Plan* plan = plan_of(handle);
    if (!plan) return CUFFT_INVALID_PLAN;
    plan->open = false;
    return CUFFT_SUCCESS;
}
cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
    Plan* plan = plan_of(handle);
    if (!plan) return CUFFT_INVALID_PLAN;
    plan->stream = stream;
    return CUFFT_SUCCESS;
}
cufftResult cuemu_fft_plan(cufftHandle handle, int rank, const int* sizes, cufftType type, int batch) {
    Plan* plan = plan_of(handle);
    if (!plan) return CUFFT_INVALID_PLAN;
    if (rank < 1 || rank > 3) return CUFFT_INVALID_VALUE;
    plan->fft = {rank, {}, batch, type, 0, nullptr, nullptr};
    for (int i = 0; i < rank; ++i) {
        if (sizes[i] < 1 || batch < 1) return CUFFT_INVALID_SIZE;
        plan->fft.sizes[i] = sizes[i];
    }
    return CUFFT_SUCCESS;
}
cufftResult cuemu_fft(cufftHandle handle, cufftType type, const void* in, void* out, int direction) {
    const Plan* plan = plan_of(handle);
    if (!plan || plan->fft.rank == 0) return CUFFT_INVALID_PLAN;
    if (plan->fft.type != type) return CUFFT_INVALID_TYPE;
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
    CuemuFft fft = plan->fft;
    fft.direction = direction, fft.in = in, fft.out = out;
    const cuemu::Answer answer = cuemu::ask("cufftExec", CUEMU_SITE, {cuemu::number(plan->stream)}, &fft, sizeof(fft));
    return answer.error == cudaSuccess             ? CUFFT_SUCCESS
           : answer.error == cudaErrorInvalidValue ? CUFFT_INVALID_VALUE
                                                   : CUFFT_EXEC_FAILED;
}

}
