// The fourth part of the shim: a session of Kineto, the library behind torch.profiler. It knows which
// operator a thread is in, and hands on what the devices did meanwhile.
//
// Source   torch/csrc/profiler/standalone/privateuse1_profiler.h  PrivateUse1ProfilerRegistry
//          libkineto/include/IActivityProfiler.h
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)  // PyTorch 2.13 on
#define USE_KINETO
#define FMT_HEADER_ONLY  // its library is hidden in PyTorch's
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <libkineto.h>

namespace {

using libkineto::ActivityType;

struct Traced {
    std::string name;
    ActivityType type;
    int64_t device, stream, began, ended, correlation;
};

std::mutex traced_mutex;
std::vector<Traced> traced;
thread_local std::vector<int64_t> correlations;  // of the operators that this thread is in

struct Session final : libkineto::IActivityProfilerSession {
    void start() override {
        if (!ended) ask(kStartTrace);
        status_ = libkineto::TraceStatus::RECORDING;
    }
    void stop() override {
        if (!ended) ask(kStopTrace);
        status_ = libkineto::TraceStatus::PROCESSING;
    }
    std::vector<std::string> errors() override { return {}; }
    void pushCorrelationId(uint64_t id) override { correlations.push_back(int64_t(id)); }
    void popCorrelationId() override {
        if (!correlations.empty()) correlations.pop_back();
    }
    void processTrace(libkineto::ActivityLogger& logger) override {
        processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
    }
    void processTrace(libkineto::ActivityLogger& logger,
                      libkineto::getLinkedActivityCallback operator_of, int64_t from,
                      int64_t to) override {
        buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
        buffer_->span = libkineto::TraceSpan(from, to, "lab");
        buffer_->gpuOpCount = 0;
        const std::lock_guard<std::mutex> lock(traced_mutex);
        for (const Traced& one : traced) {
            buffer_->emplace_activity(buffer_->span, one.type, one.name);
            auto& activity = *buffer_->activities.back();
            activity.startTime = one.began;
            activity.endTime = one.ended;
            activity.id = int32_t(one.correlation);
            activity.device = int32_t(one.device);
            activity.resource = activity.threadId = int32_t(one.stream);
            activity.linked = operator_of(int32_t(one.correlation));
            activity.addMetadata("device", one.device);
            activity.addMetadata("stream", one.stream);
            activity.log(logger);
        }
        traced.clear();
    }
    std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
    std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
    std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
        return std::move(buffer_);
    }

  private:
    std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

struct Tracer final : libkineto::IActivityProfiler {
    const std::string& name() const override { return name_; }
    const std::set<ActivityType>& availableActivities() const override { return types_; }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(
        const std::set<ActivityType>& asked, const libkineto::Config&) override {
        if (!asked.count(ActivityType::CONCURRENT_KERNEL)) return nullptr;
        return std::make_unique<Session>();
    }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(
        int64_t, int64_t, const std::set<ActivityType>& asked,
        const libkineto::Config& config) override {
        return configure(asked, config);
    }

  private:
    const std::string name_ = "lab";
    const std::set<ActivityType> types_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                        ActivityType::GPU_MEMSET};
};

}  // namespace

// The operator that this thread is in, by the profiler's number; 0 outside of all.
extern "C" int64_t lab_correlation() { return correlations.empty() ? 0 : correlations.back(); }

// A kernel ('k'), copy ('c') or fill ('f') of the session that ends.
extern "C" void lab_traced(const char* name, char kind, int64_t device, int64_t stream,
                           int64_t began, int64_t ended, int64_t correlation) {
    const auto type = kind == 'k'   ? ActivityType::CONCURRENT_KERNEL
                      : kind == 'c' ? ActivityType::GPU_MEMCPY
                                    : ActivityType::GPU_MEMSET;
    const std::lock_guard<std::mutex> lock(traced_mutex);
    traced.push_back({name, type, device, stream, began, ended, correlation});
}

// From now on torch.profiler asks the device, too.
extern "C" void lab_trace() {
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
        [] { return std::make_unique<Tracer>(); });
}
#else
extern "C" void lab_trace() {}
#endif
