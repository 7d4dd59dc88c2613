"""Which driver serves `device="cuda"` here, and why."""

import contextlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.cuda.driver import DeviceProperties, Driver
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import InvalidValueError

_lock = threading.RLock()
_chosen: Driver | None = None


@dataclass(frozen=True)
class DeviceInfo:
    """The device that serves, in words and as an object."""

    driver: Driver

    @property
    def kind(self) -> str:
        """The driver's name: "emulator" or "cupy"."""
        return self.driver.name

    @property
    def why(self) -> str:
        """Why this one and not the other."""
        return self.driver.why

    @property
    def properties(self) -> DeviceProperties:
        """Its limits."""
        return self.driver.properties()

    def __repr__(self) -> str:
        return f"cuda device: {self.properties.name} [{self.kind}: {self.why}]"


def current_driver() -> Driver:
    """The driver that serves; chosen on first use.

    $LABKIT_CUDA is "emulator", "gpu" or "auto" (the default: a GPU if CuPy finds one).
    """
    global _chosen
    with _lock:
        if _chosen is None:
            _chosen = _choose(os.environ.get("LABKIT_CUDA", "auto"))
        return _chosen


def chosen_driver() -> Driver | None:
    """The driver that serves, or None while nothing has asked for a device yet."""
    return _chosen


def is_available() -> bool:
    """True: where there is no GPU the emulator serves; `device()` says which."""
    return True


def device() -> DeviceInfo:
    """The device that serves `device="cuda"`, and why it is this one."""
    return DeviceInfo(current_driver())


@contextlib.contextmanager
def use(driver: Driver) -> Iterator[Driver]:
    """Inside, this driver serves."""
    global _chosen
    with _lock:
        before, _chosen = _chosen, driver
    try:
        yield driver
    finally:
        with _lock:
            _chosen = before


def _choose(wish: str) -> Driver:
    if wish not in ("auto", "gpu", "emulator"):
        raise InvalidValueError(f"$LABKIT_CUDA is auto, gpu or emulator, not {wish!r}")
    if wish == "emulator":
        return EmulatorDriver(why="$LABKIT_CUDA asks for it")
    reason = "CuPy is not installed"
    if importlib.util.find_spec("cupy") is not None:
        from labkit.cuda.cupy import driver as cupy_driver

        reason = cupy_driver.why_not()
        if not reason:
            driver: Driver = cupy_driver.CupyDriver(why="CuPy found a GPU")
            return driver
    if wish == "gpu":
        raise InvalidValueError(f"$LABKIT_CUDA asks for a GPU, but {reason}", "cudaErrorNoDevice")
    return EmulatorDriver(why=f"no GPU: {reason}")
