"""The base class of layers: it knows its parameters, buffers and children by name.

Source   torch/nn/modules/module.py  Module
Differs  no backward hooks, no lazy parameters
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from labkit._tensor import Tensor
from labkit.autograd import no_grad
from labkit.autograd.handles import Hooks, RemovableHandle
from labkit.nn.parameter import Parameter


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found missing, and found too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """Write `forward`, call the module. Parameters, modules and buffers that are assigned as
    attributes are found again by `named_parameters`, `named_modules` and `state_dict`.
    """

    training: bool

    def __init__(self) -> None:
        self.__dict__.update(
            _parameters={}, _buffers={}, _modules={}, _not_saved=set(), training=True,
            _forward_pre_hooks=Hooks(), _forward_hooks=Hooks(),
        )  # fmt: skip

    def forward(self, *args: Any) -> Any:
        """What the module computes.

        Raises   NotImplementedError   the class does not say
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in tuple(self._forward_pre_hooks.values()):
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        result = self.forward(*args, **kwargs)
        for hook in tuple(self._forward_hooks.values()):
            replaced = hook(self, args, result)
            result = result if replaced is None else replaced
        return result

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, args)` is called before every forward, and may return other arguments."""
        return RemovableHandle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, args, result)` is called after every forward; it may replace the result."""
        return RemovableHandle(self._forward_hooks, hook)

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"call super().__init__() before assigning {name!r}")
        tables = (self._parameters, self._buffers, self._modules)
        if isinstance(value, Parameter | Module):
            for table in tables:
                table.pop(name, None)
            self.__dict__.pop(name, None)
            (self._parameters if isinstance(value, Parameter) else self._modules)[name] = value
            return
        for table in tables:
            if name in table:
                if value is not None and not isinstance(value, Tensor):
                    raise TypeError(
                        f"cannot assign {type(value).__name__!r} as {name!r}: a tensor or None is "
                        "expected there"
                    )
                table[name] = value
                return
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        del self.__dict__[name]

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """The parameter has this name; None keeps the name free."""
        self._parameters[name] = parameter

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """The tensor belongs to the module but is not trained.

        persistent   False keeps it out of `state_dict`
        """
        self._buffers[name] = tensor
        if not persistent:
            self._not_saved.add(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """The module is a child of this name."""
        self._modules[name] = module

    # Walking

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """The module and all below it, parents first, each once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            children = [
                (f"{name}.{key}" if name else key, child)
                for key, child in module._modules.items()
                if child is not None
            ]
            stack += reversed(children)

    def modules(self) -> Iterator["Module"]:
        """`named_modules` without the names."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """The modules directly below."""
        return ((name, child) for name, child in self._modules.items() if child is not None)

    def children(self) -> Iterator["Module"]:
        """`named_children` without the names."""
        return (child for _, child in self.named_children())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters, each once, with their full names."""
        return self._named("_parameters")

    def parameters(self) -> Iterator[Parameter]:
        """`named_parameters` without the names."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All buffers, each once, with their full names."""
        return self._named("_buffers")

    def buffers(self) -> Iterator[Tensor]:
        """`named_buffers` without the names."""
        return (buffer for _, buffer in self.named_buffers())

    def _named(self, table: str) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in module.__dict__[table].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{prefix}.{name}" if prefix else name), value

    def apply(self, function: Callable[["Module"], Any]) -> Self:
        """The function was called with every module below, then with the module itself."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # Modes

    def train(self, mode: bool = True) -> Self:
        """The module and all below it train, or do not."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """`train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """All parameters take gradients, or none does."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """No parameter has a gradient; or, where it has one, zeros."""
        for parameter in self.parameters():
            if parameter.grad is not None and not set_to_none:
                parameter.grad.detach_().zero_()
            elif set_to_none:
                parameter.grad = None

    # Moving and saving

    def to(self, *targets: Any, **options: Any) -> Self:
        """Parameters and floating buffers have another element type or device; the module itself.

        Arguments are those of `Tensor.to`; an element type leaves whole numbers as they are.
        """
        return self._apply(lambda tensor: _moved(tensor, targets, options))

    def double(self) -> Self:
        """Parameters and floating buffers in float64."""
        import labkit as lab

        return self.to(lab.float64)

    def half(self) -> Self:
        """Parameters and floating buffers in float16."""
        import labkit as lab

        return self.to(lab.float16)

    def float(self) -> Self:
        """Parameters and floating buffers in float32."""
        import labkit as lab

        return self.to(lab.float32)

    def cuda(self) -> Self:
        """Everything on the CUDA device, real or emulated."""
        return self.to("cuda")

    def cpu(self) -> Self:
        """Everything in host memory."""
        return self.to("cpu")

    def _apply(self, function: Callable[[Tensor], Tensor]) -> Self:
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is None:
                    continue
                with no_grad():
                    moved = function(parameter)
                if moved is not parameter:  # the same object goes on, as optimizers expect
                    parameter.data = moved
                    if parameter.grad is not None:
                        parameter.grad = function(parameter.grad)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = function(buffer)
        return self

    def state_dict(self) -> "OrderedDict[str, Tensor]":
        """Parameters and persistent buffers by full name, detached, sharing memory."""
        state: OrderedDict[str, Tensor] = OrderedDict()
        for prefix, module in self.named_modules():
            kept = {
                name: value
                for table in (module._parameters, module._buffers)
                for name, value in table.items()
                if value is not None and name not in module._not_saved
            }
            for name, value in kept.items():
                state[f"{prefix}.{name}" if prefix else name] = value.detach()
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """The parameters and buffers hold these values: labkit or torch tensors, or arrays.

        strict   refuse names that are missing or unexpected; else they are only returned

        Raises   RuntimeError   such names, or shapes that differ; what fits is loaded all the same
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        problems = []
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        for name in [name for name in own if name in state]:
            problems += _load(name, own[name], state[name])
        if problems:
            lines = "".join(f"\n\t{problem}" for problem in problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:{lines}")
        return IncompatibleKeys(missing, unexpected)

    # Text

    def extra_repr(self) -> str:
        """What the module's line says in parentheses."""
        return ""

    def __repr__(self) -> str:
        children = [
            f"({name}): " + repr(child).replace("\n", "\n  ")
            for name, child in self.named_children()
        ]
        head = f"{type(self).__name__}("
        if not children:
            return f"{head}{self.extra_repr()})"
        return "\n  ".join([head + self.extra_repr(), *children]) + "\n)"


def _moved(tensor: Tensor, targets: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    from labkit.core.dtype import DType

    if not (tensor.is_floating_point() or tensor.is_complex()):
        targets = tuple([target for target in targets if not isinstance(target, DType)])
        options = {name: value for name, value in options.items() if name != "dtype"}
    return tensor.to(*targets, **options) if targets or options else tensor


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _load(name: str, into: Tensor, value: Any) -> list[str]:
    """Copy the value, or say in one line why it does not fit."""
    import labkit as lab

    given = value if isinstance(value, Tensor) else lab.tensor(_plain(value))
    if given.shape != into.shape:
        return [
            f"size mismatch for {name}: copying a param with shape {given.shape} from checkpoint, "
            f"the shape in current model is {into.shape}."
        ]
    with no_grad():
        into.copy_(given)
    return []


def _plain(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value
