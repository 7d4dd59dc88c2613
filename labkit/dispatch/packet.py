"""`ops.lab.add(x, y)`: operators by name, and the overload that fits the arguments.

Source   torch/_ops.py  _OpNamespace, OpOverloadPacket
         torch/csrc/jit/python/pybind_utils.cpp  getOpWithStack
"""

from typing import Any

from labkit.dispatch.arguments import key_bits_of
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.dispatcher import dispatcher as default_dispatcher
from labkit.dispatch.operator import OperatorHandle


class OverloadPacket:
    """All overloads of one name; calling it calls the first that takes the arguments."""

    def __init__(self, dispatcher: Dispatcher, name: str) -> None:
        self._dispatcher = dispatcher
        self._name = name

    def overloads(self) -> list[str]:
        """Overload names in the order they are tried; "default" has none of its own."""
        found = self._dispatcher.overloads(self._name)
        return [op.schema.overload_name or "default" for op in found]

    def resolve(self, *args: Any, **kwargs: Any) -> OperatorHandle:
        """The first overload, in order of definition, whose schema takes the arguments.

        Raises   TypeError   none does; says why for each
        """
        refusals = []
        found = self._dispatcher.overloads(self._name)
        for op in found:
            try:
                key_bits_of(op.schema, op.schema.stack(args, kwargs))
            except TypeError as refusal:
                refusals.append(str(refusal).partition("\n")[0] + f"\n    {op.schema}")
            else:
                return op
        reasons = "\n  ".join(refusals)
        raise TypeError(f"no overload of {self._name} takes these arguments:\n  {reasons}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._dispatcher.overloads(self._name)
        op = found[0] if len(found) == 1 else self.resolve(*args, **kwargs)
        return op(*args, **kwargs)

    def __getattr__(self, overload: str) -> OperatorHandle:
        full = self._name if overload == "default" else f"{self._name}.{overload}"
        try:
            op = self._dispatcher.find(full)
        except KeyError:
            raise AttributeError(
                f"{self._name} has no overload {overload!r}; it has {', '.join(self.overloads())}"
            ) from None
        self.__dict__[overload] = op
        return op

    def __repr__(self) -> str:
        return f"OverloadPacket({self._name}: {', '.join(self.overloads())})"


class OperatorNamespace:
    """The operators of one namespace, as attributes."""

    def __init__(self, dispatcher: Dispatcher, namespace: str) -> None:
        self._dispatcher = dispatcher
        self._namespace = namespace

    def __getattr__(self, name: str) -> OverloadPacket:
        full = f"{self._namespace}::{name}"
        if not self._dispatcher.overloads(full):
            raise AttributeError(f"no operator is called {full}")
        packet = OverloadPacket(self._dispatcher, full)
        self.__dict__[name] = packet
        return packet

    def __dir__(self) -> list[str]:
        prefix = f"{self._namespace}::"
        names = (op.schema.name for op in self._dispatcher.operators.values() if op.has_schema)
        return sorted({name.removeprefix(prefix) for name in names if name.startswith(prefix)})


class Operators:
    """`ops.<namespace>.<name>[.<overload>]` over one dispatcher."""

    def __init__(self, dispatcher: Dispatcher | None = None) -> None:
        self._dispatcher = dispatcher or default_dispatcher()

    def __getattr__(self, namespace: str) -> OperatorNamespace:
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        found = OperatorNamespace(self._dispatcher, namespace)
        self.__dict__[namespace] = found
        return found


ops = Operators()
"""labkit's own operators."""
