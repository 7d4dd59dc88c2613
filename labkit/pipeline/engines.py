"""Inference engines: built where they can be, checked before they are trusted, kept by content.

    engines = EngineCache((tensorrt, aot_inductor, exported), tolerance=1 / 510)
    better = engines.compile_for(network, frames)     # an engine, or the network itself
    better(frames), better.name

An engine is made of a model as it is now: weights that change later are not in it.
"""

import copy
import hashlib
import importlib
import io
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from labkit.core import compile_cache
from labkit.core.host_compiler import CompilerMissing, compiler
from labkit.pipeline.graph_runner import recorded

Run = Callable[[Tensor], Tensor]
Build = Callable[[nn.Module, Tensor], Run]


class EngineMissing(RuntimeError):
    """An engine is not installed here, or refuses the model."""


def exported(model: nn.Module, sample: Tensor) -> Run:
    """The model's operators and weights, written to a file and read back: no class is needed.

    Source   torch/export/__init__.py  export, save, load
    """
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the copy, not of the model
        torch.export.save(torch.export.export(model, (sample,)), file)
        file.seek(0)
        run: Run = torch.export.load(file).module()
    return run


def aot_inductor(model: nn.Module, sample: Tensor) -> Run:
    """The model compiled to a shared library for this machine; takes half a minute, once.

    The library is kept with all that labkit compiles, and found again by what it depends on.

    Raises   EngineMissing   there is no C++ compiler

    Source   torch/_inductor/__init__.py  aoti_compile_and_package
    """
    try:
        compiler("c++")
    except CompilerMissing as missing:
        raise EngineMissing(f"AOTInductor: {missing}") from None

    def build(path: Path) -> None:
        program = torch.export.export(model, (sample,))
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))

    package = compile_cache.kept("engine", (key_of(model, sample),), build, ".pt2")
    run: Run = torch._inductor.aoti_load_package(str(package))
    return run


def tensorrt(model: nn.Module, sample: Tensor) -> Run:
    """The model as a TensorRT engine, in the element types that the model has.

    Raises   EngineMissing   torch_tensorrt is not installed, or there is no GPU
    """
    try:
        library = importlib.import_module("torch_tensorrt")
    except ImportError:
        raise EngineMissing("TensorRT: torch_tensorrt is not installed") from None
    if sample.device.type != "cuda":
        raise EngineMissing("TensorRT: the model and its input have to be on a GPU")
    program = torch.export.export(model, (sample,))
    run: Run = library.dynamo.compile(program, inputs=[sample], use_explicit_typing=True)
    return run


def program(model: nn.Module, sample: Tensor) -> str:
    """The operators that the model runs on such an input, as text; no weights are in it.

    Raises   RuntimeError   it reads numbers back, so another input may run others
    """
    with torch.no_grad():
        graph, _ = recorded(copy.deepcopy(model), sample)  # a copy: in training it counts
    names: dict[int, str] = {}

    def named(one: Any) -> Any:
        return names.setdefault(id(one), f"t{len(names)}") if isinstance(one, Tensor) else one

    lines = [
        f"{tree_map(named, result)} = {operator.name()}{tree_map(named, (args, kwargs))}"
        for operator, args, kwargs, result in graph.steps
    ]
    return "\n".join(lines).replace("'", "")


def state(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter and buffer, named; those that no checkpoint holds as well."""
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def key_of(model: nn.Module, sample: Tensor) -> str:
    """A number for all that an engine depends on: the same for the same, and no other."""
    digest = hashlib.sha256()

    def add(*facts: Any) -> None:
        digest.update(repr(facts).encode())

    add(torch.__version__, sample.shape, sample.dtype, _machine(sample.device))
    add(program(model, sample))
    for name, tensor in state(model):
        add(name, tensor.shape, tensor.dtype)
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_properties(device))
    return f"{device.type} {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def agrees(got: Any, right: Tensor, tolerance: float) -> bool:
    """Whether `got` is what `right` is, each number within the tolerance; NaN is near nothing."""
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (right.shape, right.dtype):
        return False
    wide = torch.promote_types(right.dtype, torch.float64)  # bytes would wrap around
    return bool(((got.to(wide) - right.to(wide)).abs() <= tolerance).all())


@dataclass(frozen=True)
class Compiled:
    """What computes as the model did, for inputs like the sample; others go to the model.

    name   of the engine; "eager" is the model itself
    notes  why the engines before it are not used
    """

    name: str
    run: Run
    model: nn.Module
    like: tuple[Any, ...]
    notes: tuple[str, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """The result for `x`."""
        return (self.run if (x.shape, x.dtype, x.device) == self.like else self.model)(x)


class EngineCache:
    """The first of these engines that is here and agrees with the model; kept by content.

    builders   functions of (model, sample), the best engine first
    tolerance  the largest difference to the model's own result on the sample

    Source   torch/_inductor/codecache.py  FxGraphHashDetails
    """

    def __init__(self, builders: Sequence[Build], tolerance: float) -> None:
        self.builders, self.tolerance = tuple(builders), tolerance
        self._kept: dict[str, tuple[str, Run | None, tuple[str, ...]]] = {}

    def compile_for(self, model: nn.Module, sample: Tensor) -> Compiled:
        """The model's engine for inputs like `sample`, or the model.

        sample  a real input: on zeros most engines agree

        Raises   Exception   the model's own, or an engine's that is no RuntimeError
        """
        with torch.no_grad():
            try:
                key = key_of(model, sample.clone())
            except RuntimeError as refused:
                model(sample.clone())  # what it raises itself comes out
                return Compiled("eager", model, model, (), (str(refused),))
            if key not in self._kept:
                self._kept[key] = self._chosen(model, sample, model(sample.clone()))
        name, run, notes = self._kept[key]
        like = sample.shape, sample.dtype, sample.device
        return Compiled(name, run or model, model, like, notes)

    def _chosen(
        self, model: nn.Module, sample: Tensor, right: Tensor
    ) -> tuple[str, Run | None, tuple[str, ...]]:
        notes = list[str]()
        for build in self.builders:
            try:
                engine = build(model, sample.clone())
                if agrees(engine(sample.clone()), right, self.tolerance):
                    return build.__name__, engine, tuple(notes)
                notes.append(f"{build.__name__}: its result differs from the model's")
            except RuntimeError as refused:
                notes.append(f"{build.__name__}: {refused}")
        return "eager", None, tuple(notes)
