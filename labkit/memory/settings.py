"""PYTORCH_ALLOC_CONF: the same string means the same, and is refused with the same error.

Differs  The string is handed in. Nothing in labkit reads the environment variable.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from labkit.memory.settings_tokens import Tokens
from labkit.memory.sizes import DIVISION_CLASSES, MIB

UNLIMITED = 2**64 - 1
"""What PyTorch's size_t holds when there is no limit."""


@dataclass(frozen=True)
class AllocatorSettings:
    """What one settings string, applied after others, has in force. Sizes are bytes.

    Source   c10/core/AllocatorConfig.h  AcceleratorAllocatorConfig
             c10/cuda/CUDAAllocatorConfig.h  CUDAAllocatorConfig
    Differs  `backend`, `release_lock_on_cudamalloc`, `throw_on_cudamalloc_oom`,
             `graph_capture_record_stream_reuse` and the options of host registration are read
             and checked, and change nothing here.
    """

    text: str = ""
    large_segment_size: int = 20 * MIB
    max_split_size: int = UNLIMITED
    max_non_split_rounding_size: int = 20 * MIB
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = (0,) * DIVISION_CLASSES
    expandable_segments: bool = False
    per_process_memory_fraction: float = 1.0
    pinned_use_background_threads: bool = False
    pinned_max_round_threshold: int = UNLIMITED
    pinned_max_cached_size: int = UNLIMITED
    unused: dict[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def divisions(self) -> tuple[int, ...]:
        """`roundup_power2_divisions`, or nothing when no size is rounded that way."""
        return self.roundup_power2_divisions if any(self.roundup_power2_divisions) else ()

    @classmethod
    def parse(
        cls, text: str, before: "AllocatorSettings | None" = None, cuda: bool = True
    ) -> "AllocatorSettings":
        """The settings after `text` was applied to the ones in force `before`.

        Every option of the device returns to its default unless `text` names it, except
        `expandable_segments`, `large_segment_size_mb` and the options only CUDA has.

        cuda  False: as a build without CUDA reads it, which passes over keys it does not know

        Raises   ValueError    an unknown key, a value that is no number or not allowed
                 RuntimeError  the string ends where a value is expected
                 IndexError    a number too large for 64 bits
        Differs  A refused string changes nothing; PyTorch keeps what it had read until then.
        """
        if not isinstance(text, str):
            raise TypeError(f"allocator settings are one string, got {type(text).__name__}")
        return _Parser(text, before or cls()).parse(cuda)

    def snapshot(self) -> dict[str, Any]:
        """The `allocator_settings` entry of a memory snapshot."""
        unlimited_is_minus_one = {
            "max_split_size": self.max_split_size,
            "max_round_threshold": self.pinned_max_round_threshold,
            "max_cached_size": self.pinned_max_cached_size,
        }
        limits = {
            name: -1 if size == UNLIMITED else size for name, size in unlimited_is_minus_one.items()
        }
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.text,
            "max_split_size": limits["max_split_size"],
            "garbage_collection_threshold": self.garbage_collection_threshold,
            "expandable_segments": self.expandable_segments,
            "pinned_num_register_threads": self.unused.get("pinned_num_register_threads", 1),
            "release_lock_on_cudamalloc": self.unused.get("release_lock_on_cudamalloc", False),
            "pinned_use_cuda_host_register": self.unused.get(
                "pinned_use_cuda_host_register", False
            ),
            "graph_capture_record_stream_reuse": self.unused.get(
                "graph_capture_record_stream_reuse", False
            ),
            "max_round_threshold": limits["max_round_threshold"],
            "max_cached_size": limits["max_cached_size"],
            "roundup_power2_divisions": {
                str(1 << index): divisions
                for index, divisions in enumerate(self.roundup_power2_divisions)
            },
        }


class _Parser:
    """Passes as PyTorch's: options of CUDA, the large segment, options of every accelerator."""

    def __init__(self, text: str, before: AllocatorSettings) -> None:
        self._text = text
        self._tokens = Tokens(text)
        self._before = before
        self._values: dict[str, Any] = {}
        self._unused = dict(before.unused)

    def parse(self, cuda: bool) -> AllocatorSettings:
        if cuda:
            self._walk(self._cuda_option)
        large_segment_size = self._large_segment_size()
        self._values["large_segment_size"] = large_segment_size
        self._values["max_non_split_rounding_size"] = large_segment_size
        self._walk(self._accelerator_option)
        kept = AllocatorSettings(
            expandable_segments=self._before.expandable_segments,
            per_process_memory_fraction=self._before.per_process_memory_fraction,
            pinned_use_background_threads=self._before.pinned_use_background_threads,
            pinned_max_round_threshold=self._before.pinned_max_round_threshold,
            pinned_max_cached_size=self._before.pinned_max_cached_size,
        )
        return replace(kept, text=self._text, unused=self._unused, **self._values)

    def _walk(self, option: Callable[[int], int]) -> None:
        index = 0
        while index < len(self._tokens):
            index = option(index) + 2  # the token in between should be a comma; nobody looks

    def _large_segment_size(self) -> int:
        """Read before everything else wherever it stands: it bounds two other options."""
        size = self._before.large_segment_size
        for index in range(len(self._tokens)):
            if self._tokens[index] == "large_segment_size_mb":
                mebibytes = self._tokens.integer(index + 2)
                if mebibytes <= 10:
                    raise ValueError(
                        "CachingAllocator option large_segment_size_mb must be > 10 MB, "
                        f"got {mebibytes}"
                    )
                size = _bytes_of(mebibytes)
        return size

    def _accelerator_option(self, index: int) -> int:
        key, value = self._tokens[index], index + 2
        match key:
            case "max_split_size_mb" | "max_non_split_rounding_mb":
                mebibytes = self._tokens.integer(value)
                least = self._values["large_segment_size"] // MIB
                if mebibytes < least:
                    raise ValueError(
                        f"CachingAllocator option {key} too small, must be >= {least}, "
                        f"got {mebibytes}"
                    )
                self._values[_SIZE_OPTIONS[key]] = _bytes_of(mebibytes)
            case "pinned_max_round_threshold_mb" | "pinned_max_cached_size_mb":
                self._values[_SIZE_OPTIONS[key]] = _bytes_of(self._tokens.integer(value))
            case "garbage_collection_threshold":
                threshold = self._tokens.real(value)
                if not 0.0 < threshold < 1.0:
                    raise ValueError(
                        "garbage_collect_threshold is invalid, set it in (0.0, 1.0), "
                        f"got {threshold}"
                    )
                self._values[key] = threshold
            case "roundup_power2_divisions":
                return self._divisions(value)
            case "expandable_segments" | "pinned_use_background_threads":
                self._values[key] = self._tokens.boolean(value)
            case _:
                return self._tokens.skip_value(index)
        return value

    def _divisions(self, index: int) -> int:
        tokens = self._tokens
        if tokens[index] != "[":
            value = tokens.integer(index)
            if value.bit_count() != 1:
                raise ValueError(
                    f"For roundups, the divisions has to be power of 2 , got {tokens[index]}"
                )
            self._values["roundup_power2_divisions"] = (value,) * DIVISION_CLASSES
            return index
        divisions = [0] * DIVISION_CLASSES
        last_class = 0
        first = True
        index += 1
        while index < len(tokens) and tokens[index] != "]":
            interval = index
            index += 2
            value = tokens.integer(index)
            if value.bit_count() > 1:
                raise ValueError(
                    "For roundups, the divisions has to be power of 2 or 0 to disable roundup , "
                    f"got {tokens[index]}"
                )
            if tokens[interval] == ">":
                divisions[last_class + 1 :] = [value] * (DIVISION_CLASSES - last_class - 1)
            else:
                mebibytes = tokens.integer(interval)
                if mebibytes.bit_count() != 1:
                    raise ValueError(
                        "For roundups, the intervals have to be power of 2 , "
                        f"got {tokens[interval]}"
                    )
                last_class = min(mebibytes.bit_length() - 1, DIVISION_CLASSES - 1)
                if first:  # only the first entry also covers every class below it
                    divisions[:last_class] = [value] * last_class
                    first = False
                divisions[last_class] = value
            index += 1 if tokens[index + 1] == "]" else 2
        if index >= len(tokens):
            raise RuntimeError(
                "Expected closing bracket ']' in ConfigTokenizer but reached end of config"
            )
        self._values["roundup_power2_divisions"] = tuple(divisions)
        return index

    def _cuda_option(self, index: int) -> int:
        key, value = self._tokens[index], index + 2
        if key == "per_process_memory_fraction":
            fraction = self._tokens.real(value)
            if not 0.0 <= fraction <= 1.0:
                raise ValueError(
                    f"per_process_memory_fraction is invalid, set it in [0.0, 1.0], got {fraction}"
                )
            self._values[key] = fraction
        elif key == "backend":
            if self._tokens[value] not in {"native", "cudaMallocAsync"}:
                raise ValueError(
                    f"Unknown allocator backend {self._tokens[value]!r}, "
                    "options are native and cudaMallocAsync"
                )
            self._unused[key] = self._tokens[value]
        elif key in _CUDA_FLAGS:
            self._unused[key] = self._tokens.boolean(value)
        elif key in _CUDA_NUMBERS:
            self._unused[key] = self._tokens.integer(value)
        elif key in _ACCELERATOR_KEYS:
            return self._tokens.skip_value(index)
        else:
            raise ValueError(f"Unrecognized key '{key}' in CUDA allocator config.")
        return value


def _bytes_of(mebibytes: int) -> int:
    return UNLIMITED if mebibytes >= UNLIMITED // MIB else mebibytes * MIB


_SIZE_OPTIONS = {
    "max_split_size_mb": "max_split_size",
    "max_non_split_rounding_mb": "max_non_split_rounding_size",
    "pinned_max_round_threshold_mb": "pinned_max_round_threshold",
    "pinned_max_cached_size_mb": "pinned_max_cached_size",
}
_ACCELERATOR_KEYS = {
    "large_segment_size_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "expandable_segments",
    "pinned_use_background_threads",
    *_SIZE_OPTIONS,
}
_CUDA_FLAGS = {
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "release_lock_on_hipmalloc",
    "pinned_use_hip_host_register",
    "graph_capture_record_stream_reuse",
    "pinned_free_catch_all",
    "throw_on_cudamalloc_oom",
}
_CUDA_NUMBERS = {"pinned_num_register_threads", "pinned_reserve_segment_size_mb"}
