"""`torch.lab`: what PyTorch, and its user, ask of an accelerator's module.

Source   torch/utils/backend_registration.py; torch/cuda/__init__.py, memory.py, random.py
"""

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Self

import torch

from labkit.torch_device import fallback
from labkit.torch_shim.devices import Devices

Which = Any
"""A device: its index, "lab:1", torch.device("lab", 1), or None for the current one."""


class Lab(ModuleType):
    """The module object."""

    def __init__(self, devices: Devices) -> None:
        super().__init__("torch.lab", __doc__)
        self._devices = devices
        generator = devices.shim.default_generator
        self.default_generators = tuple(generator(i) for i in range(len(devices)))
        self.device = _context_manager(self)
        self.Stream, self.Event = _LabStream, _LabEvent
        self._initialized = True

    # What PyTorch asks

    def is_available(self) -> bool:
        """True: it was registered."""
        return True

    def is_initialized(self) -> bool:
        """True: there is nothing to prepare."""
        return True

    def _lazy_init(self) -> None: ...

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        """How many there are: $LABKIT_DEVICES."""
        return len(self._devices)

    def current_device(self) -> int:
        """The index of this thread's."""
        return self._devices.shim.current_device()

    def set_device(self, which: Which) -> None:
        """That is the thread's device now."""
        torch.accelerator.set_device_index(self._index(which))

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What torch.autocast("lab") may compute in."""
        return [torch.float16, torch.bfloat16]

    def is_bf16_supported(self) -> bool:
        """True: the kernels are C++."""
        return True

    def _index(self, which: Which) -> int:
        if which is None:
            return self.current_device()
        if isinstance(which, int):
            return which
        index = torch.device(which).index
        return self.current_device() if index is None else index

    # Random numbers

    def manual_seed(self, seed: int) -> None:
        """The current device's generator starts over; kernels draw as PyTorch's CUDA kernels do."""
        self.default_generators[self.current_device()].manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Every device does."""
        for generator in self.default_generators:
            generator.manual_seed(seed)

    def get_rng_state(self, device: Which = None) -> torch.Tensor:
        """The state of its default generator."""
        return self.default_generators[self._index(device)].get_state()

    def set_rng_state(self, state: torch.Tensor, device: Which = None) -> None:
        """Its default generator goes on from there."""
        self.default_generators[self._index(device)].set_state(state)

    # Streams

    def synchronize(self, device: Which = None) -> None:
        """Everything queued on the device has run; what a kernel did wrong is raised here."""
        self._devices.shim.synchronize(self._index(device))

    def current_stream(self, device: Which = None) -> torch.Stream:
        """The stream this thread queues work on."""
        return torch.accelerator.current_stream(self._index(device))

    def set_stream(self, stream: torch.Stream) -> None:
        """The thread queues work there from now on."""
        torch.accelerator.set_stream(stream)

    def stream(self, stream: torch.Stream) -> torch.Stream:
        """A context in which the stream is current: the stream itself."""
        return stream

    # Memory

    @property
    def allocator(self) -> Any:
        """Labkit's caching allocator of the current device; `show.memory(torch.lab)` draws it."""
        self._devices.take_back()
        return self._devices[self.current_device()].allocator

    def memory_stats(self, device: Which = None) -> dict[str, int]:
        """The 123 figures of `torch.cuda.memory_stats`."""
        return self._devices.statistics(self._index(device))

    def memory_allocated(self, device: Which = None) -> int:
        """Bytes in tensors."""
        return self.memory_stats(device)["allocated_bytes.all.current"]

    def max_memory_allocated(self, device: Which = None) -> int:
        """The most there have been since `reset_peak_memory_stats`."""
        return self.memory_stats(device)["allocated_bytes.all.peak"]

    def memory_reserved(self, device: Which = None) -> int:
        """Bytes that the allocator holds of the device."""
        return self.memory_stats(device)["reserved_bytes.all.current"]

    def max_memory_reserved(self, device: Which = None) -> int:
        """The most there have been since `reset_peak_memory_stats`."""
        return self.memory_stats(device)["reserved_bytes.all.peak"]

    def reset_peak_memory_stats(self, device: Which = None) -> None:
        """Peaks start again from what is there now."""
        self._devices.take_back()
        self._devices.reset_statistics(self._index(device), 1)

    def mem_get_info(self, device: Which = None) -> tuple[int, int]:
        """(free, total) bytes of the device."""
        return self._devices[self._index(device)].driver.memory_info()

    def empty_cache(self) -> None:
        """What nothing uses is back with the devices."""
        self._devices.empty_cache()

    def memory_snapshot(self, device: Which = None) -> dict[str, Any]:
        """Segments, blocks and history in PyTorch's format."""
        self._devices.take_back()
        return self._devices[self._index(device)].allocator.snapshot()

    def record_memory_history(self, device: Which = None, **options: Any) -> None:
        """Every request is kept, with the Python lines that made it, for `memory_snapshot`."""
        self._devices[self._index(device)].allocator.record_memory_history(**options)

    # Compiling

    def compiler(self, graph: Any, inputs: Any) -> Any:
        """The backend for `torch.compile(model, backend=torch.lab.compiler)`: kernels are fused.

        Without it torch.compile takes inductor, which writes code for CPUs and GPUs of its own
        list and ends in an InductorError.
        """
        from labkit.torch_device.compiling import compile_graph  # dynamo is slow to import

        return compile_graph(graph, inputs, self._devices)

    # What the host did

    def fallbacks(self) -> dict[str, int]:
        """Operator -> how often the host computed it, for want of a kernel here."""
        return dict(fallback.counts)

    def reset_fallbacks(self) -> None:
        """Nothing has been computed on the host."""
        fallback.counts.clear()

    @contextlib.contextmanager
    def no_fallbacks(self) -> Iterator[None]:
        """Inside, an operator without a kernel raises NotImplementedError."""
        before, fallback.refuses = fallback.refuses, True
        try:
            yield
        finally:
            fallback.refuses = before


class _LabStream(torch.Stream):  # type: ignore[misc]
    """A stream on the current device, or on the given one."""

    def __new__(cls, device: Which = None, priority: int = 0) -> Any:
        return torch.Stream(torch.device("lab", torch.lab._index(device)), priority=priority)


class _LabEvent(torch.Event):  # type: ignore[misc]
    """An event of the device."""

    def __new__(cls, enable_timing: bool = True) -> Any:
        return torch.Event("lab", enable_timing=enable_timing)


def _context_manager(lab: Lab) -> type:
    class device:
        """Inside, this thread's device is that one."""

        def __init__(self, which: Which) -> None:
            self.index = lab._index(which)

        def __enter__(self) -> Self:
            self.before = lab.current_device()
            lab.set_device(self.index)
            return self

        def __exit__(self, *_: object) -> None:
            lab.set_device(self.before)

    return device
