
// The third part of the shim: what PyTorch's profiler asks of a device around each operator.
//
// Source   torch/csrc/profiler/stubs/cuda.cpp  CUDAMethods
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace {

struct Profiled final : torch::profiler::impl::ProfilerStubs {
    using Event = torch::profiler::impl::ProfilerVoidEventStub;

    void record(DeviceIndex* device, Event* event, int64_t* cpu_nanoseconds) const override {
        void* recorded = nullptr;
        Guard().record(&recorded, current_stream(-1), current_device,
                       c10::EventFlag::BACKEND_DEFAULT);
        *event = Event(recorded, [](void* gone) { release(true, gone); });
        if (device) *device = current_device;
        if (cpu_nanoseconds) *cpu_nanoseconds = c10::getTime();
    }
    float elapsed(const Event* start, const Event* end) const override {  // microseconds
        Guard().synchronizeEvent(start->get());
        Guard().synchronizeEvent(end->get());
        return float(ask(kProfiledNanoseconds, number(start->get()), number(end->get()))) * 1e-3f;
    }
    void onEachDevice(std::function<void(int)> visit) const override {
        const DeviceIndex before = current_device;
        for (int i = 0; i < devices; ++i) {
            exchange_device(DeviceIndex(i));
            visit(i);
        }
        exchange_device(before);
    }
    void synchronize() const override { ask(kSynchronizeDevice, current_device); }
    bool enabled() const override { return true; }
    void mark(const char*) const override {}
    void rangePush(const char*) const override {}
    void rangePop() const override {}
};

}  // namespace

// From now on the profiler has a column for the device.
extern "C" void lab_profile() {
    static Profiled profiled;
    torch::profiler::impl::registerPrivateUse1Methods(&profiled);
}
