"""Launch sizes: what a grid and a block may be."""

import math
from dataclasses import dataclass
from typing import Any

from labkit.cuda.driver import DeviceProperties, Dim3
from labkit.cuda.errors import InvalidLaunchError


def as_dim3(value: Any, what: str) -> Dim3:
    """One to three positive ints as (x, y, z).

    Raises   InvalidLaunchError   it is something else
    """
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(sizes) <= 3:
        raise InvalidLaunchError(f"{what} has 1 to 3 sizes, got {value!r}")
    for axis, size in zip("xyz", sizes, strict=False):
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise InvalidLaunchError(f"{what}.{axis} is an int, got {size!r}")
        if size.__index__() < 1:
            raise InvalidLaunchError(f"{what}.{axis} is at least 1, got {size}")
    x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
    return x, y, z


@dataclass
class Limits:
    """What a launch of one kernel may ask for on one device.

    static_shared   bytes of shared memory that the kernel declares
    dynamic_shared  the most that a launch may add to them
    max_threads     per block, by the kernel's __launch_bounds__
    """

    kernel: str
    device: DeviceProperties
    static_shared: int
    dynamic_shared: int
    max_threads: int


def check_launch(grid: Any, block: Any, shared_mem: int, limits: Limits) -> tuple[Dim3, Dim3]:
    """Grid and block as (x, y, z), refused where the device cannot run them.

    Raises   InvalidLaunchError   naming the limit
    """
    kernel, device = limits.kernel, limits.device
    grid3, block3 = as_dim3(grid, "grid"), as_dim3(block, "block")
    for what, sizes, most in (
        ("grid", grid3, device.max_grid_dim),
        ("block", block3, device.max_block_dim),
    ):
        for axis, size, limit in zip("xyz", sizes, most, strict=True):
            if size > limit:
                raise InvalidLaunchError(f"{kernel}: {what}.{axis} is at most {limit}, got {size}")
    threads = math.prod(block3)
    if threads > device.max_threads_per_block:
        raise InvalidLaunchError(
            f"{kernel}: a block has at most {device.max_threads_per_block} threads, "
            f"got {block3} = {threads}"
        )
    if threads > limits.max_threads:
        raise InvalidLaunchError(
            f"{kernel}: its __launch_bounds__ allow {limits.max_threads} threads per block, "
            f"got {threads}"
        )
    if shared_mem < 0:
        raise InvalidLaunchError(f"{kernel}: shared_mem is at least 0, got {shared_mem}")
    if shared_mem > limits.dynamic_shared:
        raise InvalidLaunchError(
            f"{kernel}: {shared_mem} bytes of dynamic shared memory; at most "
            f"{limits.dynamic_shared} unless max_dynamic_shared_size_bytes is raised, up to "
            f"{device.shared_memory_per_block_optin - limits.static_shared}"
        )
    return grid3, block3
