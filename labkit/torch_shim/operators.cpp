// The second half of the shim, one translation unit with device.cpp: the operators that make and
// describe tensors, and the doors for ctypes. No operator here reads or writes an element.

c10::DeviceGuard on_device(std::optional<Device> device) {
    return c10::DeviceGuard(device.value_or(Device(kLab, current_device)));
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout>, std::optional<Device> device, std::optional<bool>,
                 std::optional<c10::MemoryFormat> format) {
    const auto guard = on_device(device);
    return at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(kKey),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                         std::optional<Device> device, std::optional<bool>) {
    const auto guard = on_device(device);
    return at::detail::empty_strided_generic(sizes, strides, &allocator, c10::DispatchKeySet(kKey),
                                             c10::dtype_or_default(dtype));
}

// Forward-mode gradients of zero: a shape, and no memory at all.
at::Tensor efficient_zeros(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                           std::optional<c10::Layout>, std::optional<Device> device,
                           std::optional<bool>) {
    const Device there = device.value_or(Device(kLab, current_device));
    static auto* no_memory = new std::array<std::unique_ptr<c10::Allocator>, kMostDevices>;
    struct Nothing final : c10::Allocator {
        Device device;
        explicit Nothing(Device device) : device(device) {}
        c10::DataPtr allocate(size_t) override { return {nullptr, device}; }
        void copy_data(void*, const void*, size_t) const override {}
    };
    auto& source = (*no_memory)[there.index() < 0 ? current_device : there.index()];
    if (!source) source = std::make_unique<Nothing>(there);
    const c10::DispatchKeySet keys({kKey, c10::DispatchKey::ZeroTensor});
    return at::detail::empty_generic(sizes, source.get(), keys, c10::dtype_or_default(dtype), {});
}

void hold(c10::TensorImpl* self) {
    if (self->numel() == 0) return;
    const size_t needed = at::detail::computeStorageNbytes(
        self->sizes(), self->strides(), self->itemsize(), self->storage_offset());
    if (needed > self->storage().nbytes()) resize_storage(self->storage(), needed);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<c10::MemoryFormat> format) {
    if (self.sizes() != sizes) {
        self.unsafeGetTensorImpl()->generic_set_sizes_contiguous(sizes);
        hold(self.unsafeGetTensorImpl());
    }
    if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset,
                        c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    at::native::checkSetStorage(self, source, offset, sizes, strides);
    auto* impl = self.unsafeGetTensorImpl();
    impl->set_storage_offset(offset);
    if (strides.data()) {
        impl->set_sizes_and_strides(sizes, strides);
    } else {
        impl->generic_set_sizes_contiguous(sizes);
    }
    hold(impl);
    return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
    const int64_t count = int64_t(source.nbytes() / self.dtype().itemsize());
    return set_storage(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
    if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
    return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                       source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
    const auto guard = on_device(self.device());
    at::Storage none(at::Storage::use_byte_size_t(), 0, allocator.allocate(0), &allocator, true);
    return set_storage(self, std::move(none), 0, {0}, {});
}

void record_stream(at::Tensor& self, Stream stream) {
    Guard().recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// A block that a kernel of labkit has allocated and filled becomes a tensor's own.
at::Tensor adopt(int64_t address, int64_t nbytes, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                 c10::ScalarType dtype, int64_t index) {
    void* memory = reinterpret_cast<void*>(address);
    const Device device(kLab, DeviceIndex(index));
    at::Storage storage(at::Storage::use_byte_size_t(), nbytes,
                        owner_of(memory, nbytes, device.index()), &allocator, true);
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(kKey), c10::scalarTypeToTypeMeta(dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return tensor;
}

TORCH_LIBRARY(labkit_device, m) {
    m.def("adopt(int address, int nbytes, int[] size, int[] stride, ScalarType dtype, int index)"
          " -> Tensor", &adopt);
    m.def("default_generator(int index) -> Generator?",
          [](int64_t index) { return default_generator(DeviceIndex(index)); });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", &empty);
    m.impl("empty_strided", &empty_strided);
    m.impl("_efficientzerotensor", &efficient_zeros);
    m.impl("resize_", &resize);
    m.impl("as_strided", &at::native::as_strided_tensorimpl);
    m.impl("view", &at::native::view);
    m.impl("_reshape_alias", &at::native::_reshape_alias);
    m.impl("unfold", &at::native::unfold);
    m.impl("view_as_real", &at::native::view_as_real);
    m.impl("view_as_complex", &at::native::view_as_complex);
    m.impl("set_.source_Storage", &set_whole_storage);
    m.impl("set_.source_Storage_storage_offset", &set_storage);
    m.impl("set_.source_Tensor", &set_tensor);
    m.impl("set_", &set_nothing);
    m.impl("record_stream", &record_stream);
}

// Inside autocast an operator without a policy simply runs.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

// `copy_` passes these keys by itself; the private operator behind it would come back for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
    m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
    m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace

// ---- the doors ---------------------------------------------------------------------------------

extern "C" {

// From now on there are so many devices, and Python answers for them.
void lab_start(Request answer, int count) {
    static Hooks hooks;
    devices = count;
    request = answer;
    c10::SetAllocator(kLab, &allocator, 10);
    at::RegisterPrivateUse1HooksInterface(&hooks);
}

void lab_end() { ended = true; }

// Why the request that this thread is answering could not be served.
void lab_fail(const char* why) { failure = why; }

int lab_most_devices() { return kMostDevices; }
int lab_current_device() { return current_device; }
void lab_set_device(int index) { exchange_device(DeviceIndex(index)); }
int64_t lab_current_stream(int index) { return current_streams[index]; }

// How many were taken from the list of what was given up, oldest first, into `into`.
int64_t lab_released(Released* into, int64_t most) {
    const std::lock_guard<std::mutex> held(released_lock);
    const int64_t count = std::min(most, int64_t(released.size()));
    std::copy_n(released.begin(), count, into);
    released.erase(released.begin(), released.begin() + count);
    return count;
}
}
