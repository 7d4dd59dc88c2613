"""One operator of PyTorch's, served by a function of labkit's."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.fallback import NoKernel, refused
from labkit.ops.pointwise.pointwise import wrapped_number
from labkit.ops.tensors import copy
from labkit.torch_device.fallback import OBSERVERS, on_the_host
from labkit.torch_device.randomness import drawing
from labkit.torch_device.twins import Twins
from labkit.torch_shim.devices import Devices

Function = Callable[..., Any]


@dataclass
class Served:
    """The kernel as PyTorch calls it.

    op        PyTorch's operator
    function  takes twins of its arguments, and a `generator` where the operator draws; raises
              `NoKernel`, before it has written anything, where it cannot serve a call. Another one
              may take its place at any time
    host      what serves such a call; by default the operator's own kernel for the host
    fits_output  makes the shape that `out` is given first, of the arguments
    outputs   names of outputs that the function does not take: its results are moved there

    PyTorch's own functional form gives outputs that fit; who calls for `out=` may give any.
    """

    devices: Devices
    op: Any
    function: Function
    host: Function | None = None
    fits_output: Function | None = None
    outputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        types = [str(argument.type) for argument in self.op._schema.arguments]
        self._of_tensors = [
            i for i, kind in enumerate(types) if kind in ("Tensor", "Optional[Tensor]")
        ]
        self._draws = torch.Tag.nondeterministic_seeded in self.op.tags
        name = self.op.name()
        self._names = name, f"{name}, a kernel of labkit's"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the operator returns."""
        for told in OBSERVERS:
            told(*self._names)
        if self.fits_output is not None and "out" in kwargs:
            _fit(kwargs["out"], self.fits_output(*args))
        try:
            return self._on_the_device(args, kwargs)
        except NoKernel as missing:
            if self.host is not None:
                return self.host(*args, **kwargs)
            return on_the_host(self.op, args, kwargs, str(missing))

    def _on_the_device(self, args: Any, kwargs: dict[str, Any]) -> Any:
        twins = Twins()
        given = twins.of(args)
        for i in self._of_tensors:  # a Python number in a tensor's place comes as it is
            if i < len(given) and isinstance(given[i], int | float | complex):
                given[i] = wrapped_number(given[i])
        into = [kwargs[name] for name in self.outputs]
        named = {key: twins.of(each) for key, each in kwargs.items() if key not in self.outputs}
        if twins.index is None:
            raise NoKernel("no argument is on the device")
        with self.devices.serving(twins.index), refused(), contextlib.ExitStack() as inside:
            if self._draws:
                generator = drawing(kwargs.get("generator"), twins.index)
                named["generator"] = inside.enter_context(generator)
            found = self.function(*given, **named)
            if not into:
                return twins.back(found)
            results: list[TensorImpl] = [found] if len(into) == 1 else list(found)
            for output, result in zip(into, results, strict=True):
                _fit(output, torch.Size(result.sizes))
                copy.copy_(twins.of(output), result)
        return into[0] if len(into) == 1 else tuple(into)


def _fit(output: torch.Tensor, shape: torch.Size) -> None:
    if output.shape != shape:
        output.resize_(shape)
