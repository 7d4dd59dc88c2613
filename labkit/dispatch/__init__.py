"""Which kernel runs: keys, tables, calls, and the reasons. Mirrors ATen/core/dispatch.

schema, schema_parser   what an operator takes and gives
table                   the rules that fill a cell
operator, dispatcher    registrations, the two tables, a call
library, packet         defining, registering, calling by name
tls                     the thread's included and excluded sets
layers/                 autocast and Python modes, as layers that are really installed
explain                 every step of a call, labkit's or PyTorch's
"""

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.default import dispatcher
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.kernel import Kernel, fallthrough_kernel
from labkit.dispatch.layers import python_mode
from labkit.dispatch.library import Library, RegistrationHandle
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.packet import ops
from labkit.dispatch.recorder import KernelRun
from labkit.dispatch.recording import recording
from labkit.dispatch.schema import Schema
from labkit.dispatch.schema_parser import SchemaError, parse_schema
from labkit.dispatch.table import RULES, Cell, compute_cell, compute_table, rules_tried
from labkit.dispatch.tls import (
    ExcludeDispatchKeyGuard,
    ForceDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    InferenceMode,
)

__all__ = [
    "RULES",
    "Cell",
    "DispatchKey",
    "DispatchKeySet",
    "Dispatcher",
    "ExcludeDispatchKeyGuard",
    "ForceDispatchKeyGuard",
    "IncludeDispatchKeyGuard",
    "InferenceMode",
    "Kernel",
    "KernelRun",
    "Library",
    "OperatorHandle",
    "RegistrationHandle",
    "Schema",
    "SchemaError",
    "compute_cell",
    "compute_table",
    "dispatcher",
    "fallthrough_kernel",
    "ops",
    "parse_schema",
    "recording",
    "rules_tried",
]

python_mode.install(Library("_", "IMPL"))
