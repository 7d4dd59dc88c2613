"""Which module's forward made an autograd node, for modules of torch and of labkit."""

from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

from labkit.show.backward.autograd_walk import sequence_nr, short_name


class Scopes(AbstractContextManager["Scopes"]):
    """Inside the `with`, calls of the module's children note which nodes they make.

    A node belongs to the innermost call that was running when it was made: numbers of nodes grow.

    module  an nn.Module of torch or labkit, or None: then no node has a module
    depth   how many levels of names count: with 1, "layers.0.conv" is "layers"

    Raises   TypeError    no nn.Module
             ValueError   a depth below 1
    """

    def __init__(self, module: Any = None, depth: int | None = None) -> None:
        if module is not None and not hasattr(module, "named_modules"):
            raise TypeError(f"module must be an nn.Module, got {type(module).__name__}")
        if depth is not None and depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self._module, self._depth = module, depth
        self._spans: list[tuple[int, int, str]] = []  # first number, end, name; inner ones first
        self._running: list[tuple[int, str]] = []
        self._parameters: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        if module is not None:
            self._modules = {id(child): name for name, child in module.named_modules()}
            self._parameters = {id(value): name for name, value in module.named_parameters()}
        self._stack = ExitStack()

    def parameter_names(self) -> dict[int, str]:
        """The module's parameters by id, with their full names."""
        return self._parameters

    def group(self, node: Any) -> str:
        """The name of the module that made the node, or owns the leaf; empty for none."""
        if short_name(node) == "AccumulateGrad":
            return self._cut(self._parameters.get(id(node.variable), "").rpartition(".")[0])
        number = sequence_nr(node)
        for first, end, name in self._spans:
            if first <= number < end:
                return self._cut(name)
        return ""

    def _cut(self, name: str) -> str:
        return name if self._depth is None else ".".join(name.split(".")[: self._depth])

    def __enter__(self) -> Self:
        if self._module is not None:
            from labkit import nn  # whose import makes every operator

            of_labkit = isinstance(self._module, nn.Module)
            (self._watch_labkit if of_labkit else self._watch_torch)()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def _enter(self, module: Any, number: int) -> None:
        self._running.append((number, self._modules.get(id(module), "")))

    def _leave(self, number: int) -> None:
        first, name = self._running.pop()
        if name and number > first:
            self._spans.append((first, number, name))

    def _watch_labkit(self) -> None:
        from labkit import nn
        from labkit.autograd.node import next_sequence_nr

        call = nn.Module.__call__

        def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._enter(module, next_sequence_nr())
            try:
                return call(module, *args, **kwargs)
            finally:
                self._leave(next_sequence_nr())

        setattr(nn.Module, "__call__", watched)  # noqa: B010  (the class is to be watched)

        def restore() -> None:
            setattr(nn.Module, "__call__", call)  # noqa: B010

        self._stack.callback(restore)

    def _watch_torch(self) -> None:
        import torch

        counter: Any = torch.autograd._get_sequence_nr

        def before(module: Any, args: Any) -> None:
            self._enter(module, counter())

        def after(module: Any, args: Any, result: Any) -> None:
            self._leave(counter())

        hooks = torch.nn.modules.module
        self._stack.callback(hooks.register_module_forward_pre_hook(before).remove)
        self._stack.callback(hooks.register_module_forward_hook(after, always_call=True).remove)
