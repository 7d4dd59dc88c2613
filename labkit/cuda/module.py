"""CUDA C++ modules and kernels, shaped as CuPy's: the same lines run on a GPU and on a laptop."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from labkit.cuda import arguments
from labkit.cuda.driver import Driver
from labkit.cuda.errors import InvalidLaunchError, InvalidValueError
from labkit.cuda.launch import Limits, check_launch
from labkit.cuda.launch_line import launch_line
from labkit.cuda.operation import Operation
from labkit.cuda.select import current_driver
from labkit.cuda.source import KernelText, parse
from labkit.cuda.staging import staged
from labkit.cuda.stream import Stream, handle_of


class RawModule:
    """CUDA C++ source, compiled on first use for the device that serves.

    code              the source; or
    path              the file that holds it
    options           compiler options; the emulator heeds -D, -U and -I
    name_expressions  template instances to make callable, such as "add<float>"

    Differs  from `cupy.RawModule`: no `backend`, no cubin; errors name the learner's lines.
    """

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | Path | None = None,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] | None = None,
        driver: Driver | None = None,
    ) -> None:
        if (code is None) == (path is None):
            raise InvalidValueError("RawModule takes either code or path")
        if path is not None:
            code = Path(path).read_text(encoding="utf-8")
        assert code is not None
        self.code = code
        self.path = str(path) if path is not None else "kernel.cu"
        self.options = tuple(options)
        self.name_expressions = tuple(name_expressions or ())
        self._driver = driver
        self._compiled: Any = None

    @property
    def driver(self) -> Driver:
        """The device this module is for."""
        if self._driver is None:
            self._driver = current_driver()
        return self._driver

    def compile(self) -> None:
        """The source has been compiled.

        Raises   CompileError   the compiler refused it
        """
        if self._compiled is None:
            self._compiled = self.driver.module_load(
                self.code, self.path, self.name_expressions, self.options
            )

    def get_function(self, name: str) -> "RawKernel":
        """The kernel of this name, or of this name expression.

        Raises   InvalidValueError   there is none
        """
        self.compile()
        return RawKernel(self, name, self.driver.module_function(self._compiled, name))

    def get_global(self, name: str) -> arguments.DevicePointer:
        """Where a __device__ or __constant__ variable lies, for `memcpy`.

        Differs  on the emulator the address is void after a kernel failure: ask again.
        """
        self.compile()
        address, size = self.driver.module_global(self._compiled, name)
        return arguments.DevicePointer(address, size)

    def __repr__(self) -> str:
        return f"RawModule({self.path!r})"


class RawKernel:
    """One kernel of a `RawModule`: `kernel(grid, block, args)`."""

    def __init__(self, module: RawModule, name: str, function: Any) -> None:
        self.module, self.name, self.function = module, name, function
        device = module.driver.properties()
        static = int(function.static_shared_bytes)
        self.limits = Limits(
            name, device, static, max(0, device.shared_memory_per_block - static),
            int(min(function.max_threads, device.max_threads_per_block)),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"RawKernel({self.name}{self.function.signature.describe()})"

    @property
    def shared_size_bytes(self) -> int:
        """Bytes of static shared memory."""
        return self.limits.static_shared

    @property
    def max_threads_per_block(self) -> int:
        """What the device and __launch_bounds__ allow."""
        return self.limits.max_threads

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most `shared_mem` a launch may ask for; can be raised as on a GPU."""
        return self.limits.dynamic_shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size_bytes: int) -> None:
        most = self.limits.device.shared_memory_per_block_optin - self.shared_size_bytes
        if not 0 <= size_bytes <= most:
            raise InvalidLaunchError(
                f"{self.name}: dynamic shared memory is 0 to {most} bytes, not {size_bytes}"
            )
        self.module.driver.function_set_dynamic_shared(self.function, size_bytes)
        self.limits.dynamic_shared = size_bytes

    def geometry(
        self, *, grid: int | None = None, block: int | None = None, **sizes: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Grid and block as the file's header has them: `kernel(*kernel.geometry(n=n), args)`.

        grid, block  what the header leaves open
        sizes        the names its launch line uses

        Raises   InvalidValueError   a size or an open extent is missing, or there is no such line
        """
        return launch_line(self.module.code, self.name).extents(sizes, grid, block)

    def __call__(
        self,
        grid: Any,
        block: Any,
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Stream | int | None = None,
        trace: Any = None,
        order: str | int = "forward",
        timeout_s: float | None = None,
    ) -> Any:
        """Queue one launch.

        grid, block  up to three sizes; blocks, and threads per block
        args         labkit and torch tensors, NumPy and CuPy arrays, scalars, None; arrays on the
                     host are copied to the device and back, and then the call waits
        shared_mem   bytes of dynamic shared memory
        stream       the current one by default
        trace        a `Trace`: run at once, watched, and return its report (emulator only)
        order        "forward", "reverse" or a seed: the order of a block's threads (emulator only)
        timeout_s    end the kernel after so much CPU time (emulator only)

        Raises   ArgumentError, InvalidLaunchError   before anything runs
                 KernelFailure                       when the work is waited for
        """
        driver = self.module.driver
        _check_order(order)
        grid3, block3 = check_launch(grid, block, shared_mem, self.limits)
        bound = arguments.bind(args, self.function.signature, self.name, driver)
        queue = handle_of(stream, driver)
        signature, watched = self.function.signature, trace is not None
        host = staged(driver, queue, bound, signature, guarded=watched) if bound.host else None
        with host or nullcontext():
            operation = Operation(
                "kernel", self.function.name, function=self.function, grid=grid3, block=block3,
                args=tuple(bound.packed), shared_bytes=shared_mem, order=order, timeout_s=timeout_s,
            )  # fmt: skip
            if trace is not None:
                return trace.run(driver, operation, bound.extents, queue)
            driver.launch(operation, queue)
        return None


def _check_order(order: str | int) -> None:
    seed = isinstance(order, int) and not isinstance(order, bool) and 0 <= order < 1 << 64
    if not seed and order not in ("forward", "reverse"):
        raise InvalidValueError(f"order is 'forward', 'reverse' or a seed, not {order!r}")


def kernel(
    code: str | None = None,
    name: str | None = None,
    *,
    path: str | Path | None = None,
    options: Sequence[str] = (),
    driver: Driver | None = None,
) -> RawKernel:
    """One kernel of a CUDA source, `extern "C"` or not.

    name   may be left out where the source has one kernel; an instance of a template is named as
           in C++, such as "add<float>"

    Raises   InvalidValueError   there is no such kernel, or several to choose from
             CompileError        the compiler refused the source

    Source   torch/cuda/__init__.py  _compile_kernel
    """
    module = RawModule(code, path=path, options=options, driver=driver)
    found = parse(module.code).kernels
    if name is None:
        matches = [one for one in found if not one.is_template] if len(found) == 1 else []
        if not matches:
            raise InvalidValueError(f"{module.path} has these kernels, name one: {_named(found)}")
    else:
        matches = [one for one in found if name in (one.name, one.qualified_name)]
        included = '#include "' in module.code  # it may stand in another file
        if not included and re.sub(r"<.*|.*::", "", name) not in module.code:
            raise InvalidValueError(f"{module.path} has no kernel '{name}', only: {_named(found)}")
    if matches:
        name = matches[0].qualified_name
    assert name is not None
    if not any(one.is_extern_c for one in matches):
        module.name_expressions = (name,)
    return module.get_function(name)


def _named(kernels: Sequence[KernelText]) -> str:
    names = [one.qualified_name + "<...>" * one.is_template for one in kernels]
    return ", ".join(names) or "none"
