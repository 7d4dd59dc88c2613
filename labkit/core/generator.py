"""Random number generators: a seed, a state that can be saved, and one default per device.

The host's generator is the Mersenne Twister; a device's is a counter that every thread of a
kernel turns into numbers of its own (`labkit.core.philox`).
"""

import secrets
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.device import CPU, Device
from labkit.core.device import device as device_named
from labkit.core.tensor_impl import TensorImpl

_ENGINE_WORDS = 624
_STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "normal_x", "normal_y", "normal_rho",
                  "normal_is_valid", "float_normal", "float_normal_is_valid"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", _ENGINE_WORDS), "<f8", "<f8", "<f8", "<i4",
                    "<f4", "u1"],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5032, 5040, 5048, 5052],
        "itemsize": 5056,
    }
)  # fmt: skip
DEFAULT_SEED = 67280421310721


class Generator:
    """A source of random numbers; `Generator(device)` is of the class that serves the device.

    device  a `Device`, or its name

    Raises   RuntimeError   no generator is known for this type of device

    Source   c10/core/GeneratorImpl.h  GeneratorImpl
    """

    def __new__(cls, device: Any = CPU) -> "Generator":
        """An instance of the class registered for the type of device."""
        if cls is not Generator:
            return super().__new__(cls)
        place = device_named(device)
        if place.type not in _classes:
            known = ", ".join(_classes)
            raise RuntimeError(f"no generator for {place}; there are some for {known}")
        return super().__new__(_classes[place.type])

    def __init__(self, device: Any = CPU) -> None:
        self.device: Device = device_named(device)
        self._seed = DEFAULT_SEED

    def initial_seed(self) -> int:
        """The seed last given, as an unsigned number of 64 bits."""
        return self._seed

    def manual_seed(self, seed: int) -> Self:
        """Start over from a seed; a negative one counts from 2 to the 64 downwards.

        Raises   RuntimeError   the seed does not fit 64 bits
        """
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"Overflow when unpacking long: seed {seed}")
        self._seed = seed % (1 << 64)
        self._restart()
        return self

    def seed(self) -> int:
        """Start over from a number nobody can predict, and say which one it was."""
        self.manual_seed(secrets.randbits(53))
        return self._seed

    def _restart(self) -> None:
        raise NotImplementedError(type(self).__name__)

    def state_bytes(self) -> NDArray[np.uint8]:
        """All there is to know, as PyTorch writes it."""
        raise NotImplementedError(type(self).__name__)

    def load_state_bytes(self, state: NDArray[np.uint8]) -> None:
        """Go on from bytes that `state_bytes` gave.

        Raises   RuntimeError   the wrong number of bytes, or not a state
        """
        raise NotImplementedError(type(self).__name__)

    def get_state(self) -> TensorImpl:
        """A uint8 tensor of `state_bytes`."""
        state = self.state_bytes()
        result = tensor_impl.empty(state.shape, dtypes.uint8)
        result.raw(writable=True)[...] = state
        return result

    def set_state(self, state: TensorImpl) -> "Generator":
        """Go on from a tensor that `get_state` gave.

        Raises   TypeError      not a uint8 tensor on the host
                 RuntimeError   the wrong number of bytes, or not a state
        """
        if not isinstance(state, TensorImpl) or state.dtype is not dtypes.uint8:
            raise TypeError(f"RNG state must be a ByteTensor on the host, got {state!r:.80}")
        self.load_state_bytes(np.array(state.raw()))
        return self

    def clone_state(self) -> "Generator":
        """Another generator that will give the same numbers."""
        twin = type(self)(self.device)
        twin.load_state_bytes(self.state_bytes())
        return twin


class CPUGenerator(Generator):
    """The Mersenne Twister MT19937, 32 bits at a time, and half a pair of normal numbers.

    next_double_normal, next_float_normal   the second number of a Box-Muller pair, kept for the
                                            next call; None when there is none

    Source   aten/src/ATen/CPUGeneratorImpl.cpp
             aten/src/ATen/core/MT19937RNGEngine.h
    """

    def __init__(self, device: Any = CPU) -> None:
        super().__init__(device)
        self._engine = np.random.MT19937()
        self._restart()

    def _restart(self) -> None:
        # Only the low 32 bits seed the engine, as in PyTorch.
        seeded: Any = np.random.RandomState(self._seed & 0xFFFFFFFF).get_state(legacy=False)
        self._engine.state = seeded
        self._twisted = False
        self.next_double_normal: float | None = None
        self.next_float_normal: float | None = None

    def random(self, count: int) -> NDArray[np.uint32]:
        """The next `count` numbers of 32 bits."""
        self._twisted |= count > 0
        return self._engine.random_raw(count).astype(np.uint32)

    def random64(self, count: int) -> NDArray[np.uint64]:
        """The next `count` numbers of 64 bits, each of two: the first is the upper half."""
        halves = self.random(2 * count).astype(np.uint64)
        result: NDArray[np.uint64] = (halves[0::2] << np.uint64(32)) | halves[1::2]
        return result

    def state_bytes(self) -> NDArray[np.uint8]:
        """5,056 bytes, in the layout of `torch.get_rng_state()`."""
        inner: Any = self._engine.state["state"]
        position = int(inner["pos"])
        state = np.zeros((), _STATE)
        state["seed"], state["seeded"], state["words"] = self._seed, 1, inner["key"]
        # PyTorch counts words left before the next twist; before the first one that is 1.
        state["next"] = position if self._twisted else 0
        state["left"] = _ENGINE_WORDS + 1 - position
        if self.next_double_normal is not None:
            state["normal_y"], state["normal_is_valid"] = self.next_double_normal, 1
        if self.next_float_normal is not None:
            state["float_normal"], state["float_normal_is_valid"] = self.next_float_normal, 1
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def load_state_bytes(self, state: NDArray[np.uint8]) -> None:
        """Go on from 5,056 bytes of `state_bytes` or of `torch.get_rng_state()`."""
        if state.size != _STATE.itemsize:
            raise RuntimeError(
                f"RNG state is wrong size: {state.size} bytes, expected {_STATE.itemsize}"
            )
        read = np.frombuffer(state.tobytes(), _STATE)[0]
        left, upcoming = int(read["left"]), int(read["next"])
        if not 0 < left <= _ENGINE_WORDS or not 0 <= upcoming <= _ENGINE_WORDS:
            raise RuntimeError(f"not a valid RNG state: left is {left}, next is {upcoming}")
        self._seed = int(read["seed"])
        self._twisted = upcoming > 0
        position = _ENGINE_WORDS if left == 1 else upcoming
        self._engine.state = {
            "bit_generator": "MT19937",
            "state": {"key": read["words"].astype(np.uint32), "pos": position},
        }
        self.next_double_normal = float(read["normal_y"]) if read["normal_is_valid"] else None
        self.next_float_normal = (
            float(read["float_normal"]) if read["float_normal_is_valid"] else None
        )


_classes: dict[str, type[Generator]] = {"cpu": CPUGenerator}
_defaults: dict[Device, Generator] = {}
_default_seed = DEFAULT_SEED


def register_generator(device_type: str, of_class: type[Generator]) -> None:
    """Generators for this type of device are of this class from now on."""
    _classes[device_type] = of_class


def default_generator(device: Device = CPU) -> Generator:
    """The generator of a device that operators use when they are given none."""
    if device.index is None and device.type != "cpu":
        device = Device(device.type, 0)
    if device not in _defaults:
        _defaults[device] = Generator(device).manual_seed(_default_seed)
    return _defaults[device]


def manual_seed_all(seed: int) -> None:
    """Every default generator starts over from this seed, those made later too."""
    global _default_seed
    default_generator().manual_seed(seed)
    _default_seed = seed
    for generator in _defaults.values():
        generator.manual_seed(seed)
