"""Which kernel runs: keys, tables, calls, and the reasons.

    operator             one operator's kernels, its two tables, a call: read this first
    table                the rules that fill a cell; kernel: what it holds; errors: what it lacks
    dispatcher           all operators and fallbacks; the default one is that of labkit
    schema               what an operator takes and gives; schema_parser reads one
    arguments            a call's values checked, and their key sets joined
    tls                  the thread's included and excluded sets; layer_keys: sets of the layers
    library, packet      defining and registering; calling by name
    layers               autocast and Python modes
    recorder, recording  every kernel that is entered; described: a tensor in words
    explain              every step of a call, predicted from its situation: tensors and thread,
                         and contracts: what kernels of PyTorch do next; labkit_operator and
                         torch_operator: either side's operator
    torch_keys           PyTorch's key sets; torch_tables, torch_recording: its tables, its kernels
    contexts             a PyTorch call explained in no_grad, vmap, ...

Source   aten/src/ATen/core/dispatch
"""

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.dispatcher import Dispatcher, dispatcher
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
