// What a device must be in C++ for the real PyTorch to take it: an allocator, hooks, a guard, a
// generator, and the operators that only describe memory. Everything that does something is one
// `request` to Python, where labkit's driver, streams and caching allocator are.
//
// No Python headers: plain C entry points for ctypes, so that one binary serves every Python.
//
// Source   test/cpp_extensions/open_registration_extension/torch_openreg
//          aten/src/ATen/detail/PrivateUse1HooksInterface.h
//          c10/core/impl/DeviceGuardImplInterface.h
#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
constexpr auto kLab = c10::DeviceType::PrivateUse1;
constexpr auto kKey = c10::DispatchKey::PrivateUse1;
constexpr int kMostDevices = 8;

// ---- the way to Python -------------------------------------------------------------------------

// In the order of `Verb` in native.py.
enum Verb : int32_t {
    kAllocate, kCopy, kRecordStream, kEmptyCache, kStatistics, kResetStatistics, kMemoryInfo,
    kNewStream, kQueryStream, kSynchronizeStream, kSynchronizeDevice,
    kRecordEvent, kWaitEvent, kQueryEvent, kSynchronizeEvent, kElapsedNanoseconds,
    kProfiledNanoseconds, kStartTrace, kStopTrace,
};

using Request = int64_t (*)(int32_t verb, int64_t a, int64_t b, int64_t c, int64_t d);

Request request = nullptr;
bool ended = false;  // the interpreter is going down: nothing is asked and nothing freed any more
int devices = 1;
thread_local std::string failure;  // why the last request of this thread could not be served
constexpr int64_t kFailed = INT64_MIN, kOutOfMemory = INT64_MIN + 1;

int64_t ask(Verb verb, int64_t a = 0, int64_t b = 0, int64_t c = 0, int64_t d = 0) {
    TORCH_CHECK(request && !ended, "the device \"lab\" is not there any more");
    const int64_t answer = request(verb, a, b, c, d);
    if (answer == kOutOfMemory) TORCH_CHECK_WITH(OutOfMemoryError, false, failure);
    TORCH_CHECK(answer != kFailed, failure);
    return answer;
}

int64_t number(const void* pointer) { return reinterpret_cast<int64_t>(pointer); }
int64_t number(const Stream& stream) { return stream.id(); }

// ---- devices and streams of a thread -----------------------------------------------------------

thread_local DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kMostDevices> current_streams{};

DeviceIndex exchange_device(DeviceIndex index) {
    const DeviceIndex before = current_device;
    if (index < 0) return before;
    TORCH_CHECK(index < devices, "there is no device lab:", int(index), "; there are ", devices);
    current_device = index;
    return before;
}

Stream current_stream(DeviceIndex index) {
    if (index < 0) index = current_device;
    return Stream(Stream::UNSAFE, Device(kLab, index), current_streams[index]);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kLab; }
    Device exchangeDevice(Device to) const override {
        return Device(kLab, exchange_device(to.index()));
    }
    Device getDevice() const override { return Device(kLab, current_device); }
    void setDevice(Device to) const override { exchange_device(to.index()); }
    void uncheckedSetDevice(Device to) const noexcept override {
        if (to.index() >= 0) current_device = to.index();
    }
    DeviceIndex deviceCount() const noexcept override { return devices; }

    Stream getStream(Device of) const override { return current_stream(of.index()); }
    Stream getDefaultStream(Device of) const override { return Stream(Stream::DEFAULT, of); }
    Stream getNewStream(Device of, int priority) const override {
        const DeviceIndex index = of.index() < 0 ? current_device : of.index();
        return Stream(Stream::UNSAFE, Device(kLab, index), ask(kNewStream, index, priority));
    }
    Stream getStreamFromGlobalPool(Device of, bool urgent) const override {
        return getNewStream(of, urgent ? -1 : 0);
    }
    Stream exchangeStream(Stream to) const override {
        const Stream before = current_stream(to.device_index());
        current_streams[to.device_index()] = to.id();
        return before;
    }
    void* getStreamNativeHandle(const Stream stream) const override {
        return reinterpret_cast<void*>(stream.id());
    }
    bool queryStream(const Stream& stream) const override {
        return ask(kQueryStream, stream.device_index(), number(stream));
    }
    void synchronizeStream(const Stream& stream) const override {
        ask(kSynchronizeStream, stream.device_index(), number(stream));
    }
    void synchronizeDevice(const DeviceIndex index) const override {
        ask(kSynchronizeDevice, index);
    }
    void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
        if (data.get()) {
            ask(kRecordStream, stream.device_index(), number(data.get()), number(stream));
        }
    }

    // An event's pointer is its number, which knows its device.
    void record(void** event, const Stream& stream, const DeviceIndex,
                const c10::EventFlag) const override {
        const DeviceIndex index = stream.device_index();
        *event = reinterpret_cast<void*>(ask(kRecordEvent, index, number(stream), number(*event)));
    }
    void block(void* event, const Stream& stream) const override {
        if (event) ask(kWaitEvent, stream.device_index(), number(stream), number(event));
    }
    bool queryEvent(void* event) const override {
        return !event || ask(kQueryEvent, number(event));
    }
    void synchronizeEvent(void* event) const override {
        if (event) ask(kSynchronizeEvent, number(event));
    }
    double elapsedTime(void* start, void* end, const DeviceIndex) const override {
        return double(ask(kElapsedNanoseconds, number(start), number(end))) * 1e-6;
    }
    void destroyEvent(void* event, const DeviceIndex) const noexcept override;
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// ---- memory ------------------------------------------------------------------------------------

// What has been given up, oldest first. Whoever drops a tensor may hold an exception, be an engine
// thread, or stand inside the allocator itself: no Python may run there. The allocator's next call
// takes the list.
struct Released {
    int64_t is_event;
    int64_t value;
};
std::mutex& released_lock = *new std::mutex;  // never destroyed: tensors die after main does
std::vector<Released>& released = *new std::vector<Released>;

void release(bool is_event, void* value) {
    if (!value || ended) return;
    const std::lock_guard<std::mutex> held(released_lock);
    released.push_back({is_event, number(value)});
}

// The blocks that tensors are on: the profiler is told the bytes of each, and of its end. That is
// C++ alone, so it may be done where a tensor is dropped.
struct Held {
    int64_t nbytes;
    DeviceIndex index;
};
std::map<void*, Held>& held_blocks = *new std::map<void*, Held>;  // under released_lock
std::array<int64_t, kMostDevices> held_bytes{};

void tell_profiler(void* memory, int64_t change, int64_t total, DeviceIndex index) {
    if (!c10::memoryProfilingEnabled()) return;
    c10::reportMemoryUsageToProfiler(memory, change, total, 0, Device(kLab, index));
}

void give_back(void* memory) {
    if (!memory || ended) return;
    std::unique_lock<std::mutex> locked(released_lock);
    const auto block = held_blocks.find(memory);
    const Held held = block == held_blocks.end() ? Held{} : block->second;  // one address, twice
    if (block != held_blocks.end()) held_blocks.erase(block);
    const int64_t total = held_bytes[held.index] -= held.nbytes;
    locked.unlock();
    if (held.nbytes) tell_profiler(memory, -held.nbytes, total, held.index);
    release(false, memory);
}

c10::DataPtr owner_of(void* memory, int64_t nbytes, DeviceIndex index) {
    if (memory) {
        std::unique_lock<std::mutex> locked(released_lock);
        held_blocks[memory] = {nbytes, index};
        const int64_t total = held_bytes[index] += nbytes;
        locked.unlock();
        tell_profiler(memory, nbytes, total, index);
    }
    return {memory, memory, &give_back, Device(kLab, index)};
}

void Guard::destroyEvent(void* event, const DeviceIndex) const noexcept { release(true, event); }

struct LabAllocator final : c10::DeviceAllocator {
    c10::DataPtr allocate(size_t nbytes) override {
        const DeviceIndex index = current_device;
        void* memory = nullptr;
        if (nbytes) {
            const int64_t stream = current_stream(index).id();
            memory = reinterpret_cast<void*>(ask(kAllocate, index, int64_t(nbytes), stream));
        }
        return owner_of(memory, int64_t(nbytes), index);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, size_t nbytes) const override {
        ask(kCopy, current_device, number(to), number(from), int64_t(nbytes));
    }

    bool initialized() override { return request != nullptr; }
    void emptyCache(c10::MempoolId_t) override { ask(kEmptyCache); }
    void recordStream(const c10::DataPtr& data, Stream stream) override {
        Guard().recordDataPtrOnStream(data, stream);
    }
    // Python fills in current, peak, allocated and freed for all, small and large, of nine figures.
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex index) override {
        c10::CachingDeviceAllocator::DeviceStats stats;
        c10::CachingAllocator::StatArray* figures[] = {
            &stats.allocation, &stats.segment, &stats.active, &stats.inactive_split,
            &stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
            &stats.inactive_split_bytes, &stats.requested_bytes,
        };
        int64_t numbers[9 * 3 * 4 + 2];
        ask(kStatistics, index, number(numbers));
        const int64_t* next = numbers;
        for (auto* figure : figures) {
            for (auto& stat : *figure) {
                stat.current = *next++, stat.peak = *next++;
                stat.allocated = *next++, stat.freed = *next++;
            }
        }
        stats.num_alloc_retries = *next++, stats.num_ooms = *next++;
        return stats;
    }
    void resetAccumulatedStats(DeviceIndex index) override { ask(kResetStatistics, index, 0); }
    void resetPeakStats(DeviceIndex index) override { ask(kResetStatistics, index, 1); }
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex index) override {
        int64_t free_and_total[2];
        ask(kMemoryInfo, index, number(free_and_total));
        return {free_and_total[0], free_and_total[1]};
    }
};

LabAllocator allocator;

// Page-locked memory would be the GPU driver's; the emulator's "device" reads any. What counts is
// that an address inside such a block is known as pinned: then a copy may be left to its stream.
struct PinnedAllocator final : c10::Allocator {
    static std::map<const char*, size_t>& blocks() {
        static auto& all = *new std::map<const char*, size_t>;
        return all;
    }
    static std::mutex& lock() {
        static auto& one = *new std::mutex;
        return one;
    }
    c10::DataPtr allocate(size_t nbytes) override {
        void* memory = nullptr;
        TORCH_CHECK(!nbytes || !posix_memalign(&memory, 4096, nbytes), "no host memory left");
        const std::lock_guard<std::mutex> held(lock());
        if (memory) blocks()[static_cast<char*>(memory)] = nbytes;
        return {memory, memory, &forget, Device(c10::DeviceType::CPU)};
    }
    static void forget(void* memory) {
        const std::lock_guard<std::mutex> held(lock());
        blocks().erase(static_cast<char*>(memory));
        std::free(memory);
    }
    static bool holds(const void* pointer) {
        const std::lock_guard<std::mutex> held(lock());
        auto after = blocks().upper_bound(static_cast<const char*>(pointer));
        if (after == blocks().begin()) return false;
        --after;
        return static_cast<const char*>(pointer) < after->first + after->second;
    }
    c10::DeleterFnPtr raw_deleter() const override { return &forget; }
    void copy_data(void* to, const void* from, size_t nbytes) const override {
        default_copy_data(to, from, nbytes);
    }
};

PinnedAllocator pinned;

void resize_storage(const c10::Storage& storage, size_t nbytes) {
    auto* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceGuard there(impl->device());
    c10::DataPtr fresh = allocator.allocate(nbytes);
    const size_t kept = std::min(nbytes, impl->nbytes());
    if (kept) allocator.copy_data(fresh.get(), impl->data(), kept);
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(nbytes);
}

// ---- random numbers ----------------------------------------------------------------------------

// A seed, and how many numbers each thread of the kernels so far has used up: kernels make the
// numbers of both. The state is 16 bytes, as `torch.cuda.get_rng_state()` has it.
//
// Source: aten/src/ATen/cuda/CUDAGeneratorImpl.cpp  CUDAGeneratorImpl
struct LabGenerator final : c10::GeneratorImpl {
    uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;

    explicit LabGenerator(DeviceIndex index)
        : GeneratorImpl(Device(kLab, index), c10::DispatchKeySet(kKey)) {}
    void set_current_seed(uint64_t seed) override { seed_ = seed, offset_ = 0; }
    void set_offset(uint64_t offset) override {
        TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4, got ", offset);
        offset_ = offset;
    }
    uint64_t get_offset() const override { return offset_; }
    uint64_t current_seed() const override { return seed_; }
    uint64_t seed() override {
        set_current_seed(c10::detail::getNonDeterministicRandom(true));
        return seed_;
    }
    void set_state(const c10::TensorImpl& state) override {
        at::detail::check_rng_state(state);
        const int64_t size = state.numel();
        TORCH_CHECK(size == 8 || size == 16,
                    "RNG state is wrong size: ", size, " bytes, expected 16");
        uint64_t numbers[2] = {0, 0};
        std::memcpy(numbers, state.data(), size);
        set_offset(numbers[1]);
        seed_ = numbers[0];
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        const at::Tensor state = at::detail::empty_cpu({16}, at::kByte);
        const uint64_t numbers[2] = {seed_, offset_};
        std::memcpy(state.mutable_data_ptr(), numbers, sizeof numbers);
        return state.getIntrusivePtr();
    }
    LabGenerator* clone_impl() const override {
        auto* copy = new LabGenerator(device().index());
        copy->seed_ = seed_, copy->offset_ = offset_;
        return copy;
    }
};

const at::Generator& default_generator(DeviceIndex index) {
    static auto& all = *new std::vector<at::Generator>;
    if (all.empty()) {
        for (int i = 0; i < devices; ++i) all.push_back(at::make_generator<LabGenerator>(i));
    }
    return all.at(index < 0 ? current_device : index);
}

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return request != nullptr; }
    bool hasPrimaryContext(DeviceIndex) const override { return request != nullptr; }
    void init() const override {}
    DeviceIndex deviceCount() const override { return devices; }
    void setCurrentDevice(DeviceIndex index) const override { exchange_device(index); }
    DeviceIndex getCurrentDevice() const override { return current_device; }
    DeviceIndex exchangeDevice(DeviceIndex index) const override { return exchange_device(index); }
    DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
        return exchange_device(index);
    }
    bool isPinnedPtr(const void* pointer) const override { return PinnedAllocator::holds(pointer); }
    c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
    Device getDeviceFromPtr(void*) const override { return Device(kLab, current_device); }
    const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
        return default_generator(index);
    }
    at::Generator getNewGenerator(DeviceIndex index) const override {
        return at::make_generator<LabGenerator>(index < 0 ? current_device : index);
    }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
        resize_storage(storage, nbytes);
    }
};

