"""Every operator, every global fallback, and who may define what.

Source   aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher
"""

from collections.abc import Callable
from functools import cache, partial

from labkit.core.dispatch_key import BACKENDS, SLOT_OF, DispatchKey, runtime_key
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.operator import OperatorHandle, slots_updated
from labkit.dispatch.recorder import Recorder
from labkit.dispatch.schema import Schema

Undo = Callable[[], None]
Rule = Callable[[DispatchKey], tuple[DispatchKey, ...]]


ALWAYS_SKIPPED = (
    "BackendSelect", "ADInplaceOrView", "AutocastCPU", "AutocastMTIA", "AutocastMAIA",
    "AutocastXPU", "AutocastMPS", "AutocastCUDA", "FuncTorchVmapMode", "VmapMode",
)  # fmt: skip
"""Keys that fall through unless an operator says otherwise; without this no call would arrive,
since every thread includes the first two."""


class Dispatcher:
    """A world of operators of its own; `labkit.dispatch.dispatcher()` is the one labkit uses.

    bare           no global fallback at all, not even the fallthroughs PyTorch is never without
    slots_updated  the cells that an operator stores again when a kernel at a key comes or goes
    """

    def __init__(self, *, bare: bool = False, slots_updated: Rule = slots_updated) -> None:
        self.slots_updated = slots_updated
        self.operators: dict[str, OperatorHandle] = {}
        """Full name ("lab::add.Tensor") -> operator."""
        self.fallbacks: dict[DispatchKey, Kernel] = {}
        """Slot -> its global fallback. Never changed in place: cells that are still to be computed
        hold on to what it was."""
        if not bare:
            skip = Kernel(None, "registered by the dispatcher itself", "fallthrough")
            self.fallbacks = {DispatchKey[name]: skip for name in ALWAYS_SKIPPED}
        self.libraries: dict[str, str] = {}
        """Namespace -> where its DEF library was made; there can be one."""
        self.recorder: Recorder | None = None

    def register_def(self, schema: Schema, debug: str) -> Undo:
        """The operator exists with this schema.

        Raises   RuntimeError   it is already defined
        Source   Dispatcher::registerDef
        """
        op = self._operator(schema.operator_name)
        if op.has_schema:
            raise RuntimeError(
                f"{op.name} is already defined ({op.debug}) as {op.schema}\n"
                f"  and cannot be defined again ({debug}) as {schema}"
            )
        op.set_schema(schema, debug)

        def undo() -> None:
            op.set_schema(None)
            self._drop_if_empty(op)

        return undo

    def register_impl(self, name: str, key: DispatchKey, kernel: Kernel) -> Undo:
        """The kernel is the operator's newest at the key; the operator may be defined later.

        Raises   ValueError   a key that no table has a slot for, such as Dense
        Source   Dispatcher::registerImpl
        Differs  PyTorch takes such a kernel, which no call ever finds.
        """
        if not key.is_alias:
            _check_has_slot(key)
        op = self._operator(name)
        op.register(key, kernel)

        def undo() -> None:
            op.deregister(key, kernel)
            self._drop_if_empty(op)

        return undo

    def register_fallback(self, key: DispatchKey, kernel: Kernel) -> Undo:
        """Every operator without a better idea runs this kernel in the key's slot.

        Raises   ValueError     an alias, which has no slot
                 RuntimeError   the slot has a fallback already
        Source   Dispatcher::registerFallback
        """
        _check_has_slot(key)
        if key in self.fallbacks:
            raise RuntimeError(f"{key} already has a fallback: {self.fallbacks[key].debug}")
        self.fallbacks = {**self.fallbacks, key: kernel}
        self._update_fallback(key)
        return partial(self.remove_fallback, key)

    def remove_fallback(self, key: DispatchKey) -> None:
        """The slot has no fallback, and another can be registered.

        Source   Dispatcher::deregisterFallback_
        """
        self.fallbacks = {slot: left for slot, left in self.fallbacks.items() if slot is not key}
        self._update_fallback(key)

    def register_library(self, namespace: str, debug: str) -> Undo:
        """The namespace belongs to one DEF library.

        Raises   RuntimeError   it has one already
        Source   Dispatcher::registerLibrary
        """
        if namespace in self.libraries:
            raise RuntimeError(
                f"only one library may define namespace {namespace!r}, and there is one: "
                f"{self.libraries[namespace]}; use a FRAGMENT to add operators to it"
            )
        self.libraries[namespace] = debug

        def undo() -> None:
            del self.libraries[namespace]

        return undo

    def find(self, name: str) -> OperatorHandle:
        """The operator of that full name.

        Raises   KeyError   there is none; names that look like it are listed
        Source   Dispatcher::findSchemaOrThrow
        """
        op = self.operators.get(name)
        if op is None or not op.has_schema:
            from difflib import get_close_matches  # an error path: not worth a slower import

            near = get_close_matches(name, self.operators, n=4)
            also = f"; similar: {', '.join(near)}" if near else ""
            raise KeyError(f"no operator is called {name!r}{also}")
        return op

    def overloads(self, name: str) -> list[OperatorHandle]:
        """All defined operators of a base name ("lab::add"), in the order they were defined."""
        alike = [op for op in self.operators.values() if op.name.partition(".")[0] == name]
        return [op for op in alike if op.has_schema]

    def set_recorder(self, recorder: Recorder | None) -> None:
        """From the next call on, kernels are entered through this recorder, or directly.

        Bound kernels are forgotten, so a call has nothing to ask when nobody records.
        """
        self.recorder = recorder
        for op in self.operators.values():
            op.forget_bound_kernels()

    def _operator(self, name: str) -> OperatorHandle:
        if name not in self.operators:
            self.operators[name] = OperatorHandle(self, name)
        return self.operators[name]

    def _drop_if_empty(self, op: OperatorHandle) -> None:
        if not op.has_schema and not op.kernels:
            self.operators.pop(op.name, None)

    def _update_fallback(self, key: DispatchKey) -> None:
        for op in self.operators.values():
            op.update_fallback(key)


@cache
def dispatcher() -> Dispatcher:
    """The one dispatcher of the process; `labkit.dispatch` installs Python modes in it.

    Source   aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher::singleton
    """
    return Dispatcher()


def _check_has_slot(key: DispatchKey) -> None:
    if key.is_per_backend:
        slots = ", ".join(str(runtime_key(key, bit)) for bit in range(len(BACKENDS)))
        raise ValueError(f"{key} has a slot per backend; name one: {slots}")
    if key not in SLOT_OF:
        raise ValueError(f"{key} has no slot of its own: name one of the keys it stands for")
