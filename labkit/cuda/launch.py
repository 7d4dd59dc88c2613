"""Launch sizes: what a grid and a block may be."""

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


def check_launch(
    kernel: str,
    grid: Dim3,
    block: Dim3,
    static_shared: int,
    dynamic_shared: int,
    max_threads: int,
    dynamic_limit: int,
    device: DeviceProperties,
) -> None:
    """Refuse what the device cannot run, naming the limit.

    Raises   InvalidLaunchError
    """
    for what, sizes, limits in (
        ("grid", grid, device.max_grid_dim),
        ("block", block, device.max_block_dim),
    ):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if size > limit:
                raise InvalidLaunchError(f"{kernel}: {what}.{axis} is at most {limit}, got {size}")
    threads = block[0] * block[1] * block[2]
    if threads > device.max_threads_per_block:
        raise InvalidLaunchError(
            f"{kernel}: a block has at most {device.max_threads_per_block} threads, "
            f"got {block} = {threads}"
        )
    if threads > max_threads:
        raise InvalidLaunchError(
            f"{kernel}: its __launch_bounds__ allow {max_threads} threads per block, got {threads}"
        )
    if dynamic_shared < 0:
        raise InvalidLaunchError(f"{kernel}: shared_mem is at least 0, got {dynamic_shared}")
    if dynamic_shared > dynamic_limit:
        raise InvalidLaunchError(
            f"{kernel}: {dynamic_shared} bytes of dynamic shared memory; at most {dynamic_limit} "
            f"unless max_dynamic_shared_size_bytes is raised, up to "
            f"{device.shared_memory_per_block_optin - static_shared}"
        )
