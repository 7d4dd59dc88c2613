"""Defining operators and registering kernels, with torch.library's words.

    lib = Library("lab", "DEF")
    double = lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", double_cpu, "CPU")

Source   torch/library.py  Library
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.dispatcher import dispatcher as default_dispatcher
from labkit.dispatch.kernel import make_kernel
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.schema_parser import parse_schema

Kind = Literal["DEF", "IMPL", "FRAGMENT"]


class RegistrationHandle:
    """One registration that can be taken back.

    Source   aten/src/ATen/core/dispatch/RegistrationHandleRAII.h
    Differs  PyTorch's takes it back when it is destroyed; this one when told to.
    """

    def __init__(self, undo: Callable[[], None], what: str) -> None:
        self._undo: Callable[[], None] | None = undo
        self._what = what

    def remove(self) -> None:
        """The registration is gone; removing it again does nothing."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __repr__(self) -> str:
        return f"RegistrationHandle({self._what}{'' if self._undo else ', removed'})"


class Library:
    """Registrations that belong together, and go together.

    namespace     what comes before "::"; "_" with IMPL is for fallbacks of every operator
    kind          DEF       owns the namespace and may define; there is one per namespace
                  FRAGMENT  may define more operators in it
                  IMPL      may only add kernels
    dispatch_key  the key `impl` uses when it is given none

    Raises   ValueError     a kind or key that does not exist
             RuntimeError   a second DEF of one namespace
    Source   torch/library.py  Library
    Differs  The dispatcher can be chosen; kernels can be boxed; registrations come back as handles.
    """

    def __init__(
        self,
        namespace: str,
        kind: Kind,
        dispatch_key: str | DispatchKey = "",
        *,
        dispatcher: Dispatcher | None = None,
    ) -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"a library is DEF, IMPL or FRAGMENT, not {kind!r}")
        if not (namespace.isidentifier() and (namespace != "_" or kind == "IMPL")):
            raise ValueError(f"{namespace!r} cannot be the namespace of a {kind} library")
        self.namespace = namespace
        self.kind = kind
        self.dispatch_key = DispatchKey.parse(dispatch_key) if dispatch_key else None
        self.dispatcher = dispatcher or default_dispatcher()
        self._checked = dispatcher is None and namespace != "aten"
        self._handles: list[RegistrationHandle] = []
        if kind == "DEF":
            self._keep(self.dispatcher.register_library(namespace, _caller()), namespace)

    def define(self, schema: str) -> OperatorHandle:
        """The operator exists and can be called (it has no kernels yet).

        schema   text without the namespace, or with this library's

        Raises   ValueError     an IMPL library, another library's namespace, or bad text
                 RuntimeError   the operator is already defined
        Source   torch/library.py  Library.define
        Differs  Returns the operator; torch's returns its name.
        """
        if self.kind == "IMPL":
            raise ValueError(
                f"an IMPL library adds kernels only; define {schema!r} in a DEF or a FRAGMENT"
            )
        text = schema if "::" in schema.partition("(")[0] else f"{self.namespace}::{schema}"
        parsed = parse_schema(text, known_types=True)
        if parsed.namespace != self.namespace:
            raise ValueError(f"this library defines {self.namespace}::..., not {parsed.name}")
        self._keep(self.dispatcher.register_def(parsed, _caller()), str(parsed))
        return self.dispatcher.find(parsed.operator_name)

    def impl(
        self,
        op: str | OperatorHandle,
        function: Callable[..., Any],
        dispatch_key: str | DispatchKey = "",
        *,
        with_keyset: bool = False,
        boxed: bool = False,
    ) -> RegistrationHandle:
        """The function is the operator's newest kernel at the key.

        op            "add.Tensor", with or without this library's namespace, or the operator
        dispatch_key  a runtime key or an alias; empty: the library's, else
                      CompositeImplicitAutograd
        with_keyset   the function gets the call's DispatchKeySet first, to redispatch with
        boxed         the function is called as function(op, keyset, stack)

        In labkit's own dispatcher a call is refused when the function answers something else than
        the schema promises. A dispatcher of one's own may pass anything on, and labkit's `aten`
        is held to PyTorch's by the conformance layers.

        Raises   ValueError   no such key, or another namespace
                 TypeError    not callable
        Source   torch/library.py  Library.impl
        Differs  A second kernel at one key needs no `allow_override`: the newest wins.
        """
        name = op.name if isinstance(op, OperatorHandle) else op
        if "::" not in name:
            name = f"{self.namespace}::{name}"
        if name.partition("::")[0] != self.namespace:
            raise ValueError(f"this library implements {self.namespace}::..., not {name}")
        key = DispatchKey.parse(dispatch_key) if dispatch_key else self.dispatch_key
        key = key or DispatchKey.CompositeImplicitAutograd
        kernel = make_kernel(function, _caller(), with_keyset=with_keyset, boxed=boxed)
        kernel = replace(kernel, is_checked=self._checked and kernel.form == "unboxed")
        return self._keep(self.dispatcher.register_impl(name, key, kernel), f"{name} {key}")

    def fallback(
        self,
        function: Callable[..., Any],
        dispatch_key: str | DispatchKey = "",
    ) -> RegistrationHandle:
        """Every operator without a better idea runs this boxed function in the key's slot.

        function   called as function(op, keyset, stack); or `fallthrough_kernel`

        Raises   ValueError     not Library("_", "IMPL"), no key, or a key without a slot
                 RuntimeError   the key has a fallback already
        Source   torch/library.py  Library.fallback
        """
        if self.kind != "IMPL" or self.namespace != "_":
            raise ValueError(
                f'a fallback concerns every operator: register it in Library("_", "IMPL"), '
                f"not in {self!r}"
            )
        key = DispatchKey.parse(dispatch_key) if dispatch_key else self.dispatch_key
        if key is None:
            raise ValueError("a fallback needs a dispatch key")
        kernel = make_kernel(function, _caller(), boxed=True)
        return self._keep(self.dispatcher.register_fallback(key, kernel), f"fallback {key}")

    def destroy(self) -> None:
        """Everything this library registered is gone, newest first."""
        while self._handles:
            self._handles.pop().remove()

    def _keep(self, undo: Callable[[], None], what: str) -> RegistrationHandle:
        handle = RegistrationHandle(undo, what)
        self._handles.append(handle)
        return handle

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f'Library("{self.namespace}", "{self.kind}")'


SPEAK_FOR_OTHERS = {__file__}
"""Files that register what others wrote: `Kernel.debug` names who called them."""


def _caller() -> str:
    """Where the user's registration is written, in PyTorch's words."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in SPEAK_FOR_OTHERS:
        frame = frame.f_back
    if frame is None:
        return "registered"
    file = frame.f_code.co_filename.rpartition(os.sep)[2]  # thousands of times while labkit loads
    return f"registered at {file}:{frame.f_lineno}"
