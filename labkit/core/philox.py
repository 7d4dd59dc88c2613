"""A device's random numbers: a counter, encrypted.

Every thread of a kernel has a subsequence of its own, so threads need no shared state: block
`offset / 4` of subsequence s under a seed is four numbers of 32 bits, and a generator only
remembers how many of them its kernels have used up.

Source   aten/src/ATen/core/PhiloxRNGEngine.h
         aten/src/ATen/cuda/CUDAGeneratorImpl.cpp
         J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core.generator import Generator

Words = NDArray[np.uint32]
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_STATE = np.dtype([("seed", "<u8"), ("offset", "<u8")])


def philox4x32(counter: Words, key: Words, rounds: int = 10) -> Words:
    """Four words of 32 bits for every counter.

    counter  [..., 4] words, the lowest first
    key      [..., 2] words, broadcast against the counters
    """
    c0, c1, c2, c3 = (counter[..., i].astype(np.uint64) for i in range(4))
    k0, k1 = (key[..., i].astype(np.uint64) for i in range(2))
    for _ in range(rounds):
        first = c0 * np.uint64(_MULTIPLIERS[0])
        second = c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> np.uint64(32)) ^ c1 ^ k0,
            second & _LOW,
            (first >> np.uint64(32)) ^ c3 ^ k1,
            first & _LOW,
        )
        k0 = (k0 + np.uint64(_KEY_STEPS[0])) & _LOW
        k1 = (k1 + np.uint64(_KEY_STEPS[1])) & _LOW
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def random4(seed: int, subsequence: NDArray[np.uint64], offset: int) -> Words:
    """The four numbers at an offset of each subsequence, as [..., 4].

    offset  numbers of 32 bits from the start, a multiple of 4

    Raises   ValueError   an offset inside a block of four
    """
    if offset % 4:
        raise ValueError(f"the offset counts whole blocks of 4 numbers, got {offset}")
    block = offset // 4
    counter = np.empty((*subsequence.shape, 4), np.uint32)
    counter[..., 0], counter[..., 1] = block & 0xFFFFFFFF, (block >> 32) & 0xFFFFFFFF
    counter[..., 2] = (subsequence & _LOW).astype(np.uint32)
    counter[..., 3] = (subsequence >> np.uint64(32)).astype(np.uint32)
    key = np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)
    return philox4x32(counter, key)


class DeviceGenerator(Generator):
    """A seed, and how far the kernels launched so far have got.

    Source   aten/src/ATen/cuda/CUDAGeneratorImpl.cpp  CUDAGeneratorImpl
    """

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        self.offset = 0

    def _restart(self) -> None:
        self.offset = 0

    def take(self, increment: int) -> tuple[int, int]:
        """The seed and the offset for one kernel; the next kernel starts `increment` later."""
        offset = self.offset
        self.offset += (increment + 3) // 4 * 4
        return self._seed, offset

    def state_bytes(self) -> NDArray[np.uint8]:
        """16 bytes, in the layout of `torch.cuda.get_rng_state()`."""
        state = np.array((self._seed, self.offset), _STATE)
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def load_state_bytes(self, state: NDArray[np.uint8]) -> None:
        """Go on from 16 bytes; 8 are a seed alone."""
        if state.size not in (8, 16):
            raise RuntimeError(f"RNG state is wrong size: {state.size} bytes, expected 16")
        padded = np.zeros(16, np.uint8)
        padded[: state.size] = state
        read = np.frombuffer(padded.tobytes(), _STATE)[0]
        if int(read["offset"]) % 4:
            raise RuntimeError(f"offset must be a multiple of 4, got {int(read['offset'])}")
        self._seed, self.offset = int(read["seed"]), int(read["offset"])
