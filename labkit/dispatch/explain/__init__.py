"""Which kernel a call runs, and why: predicted step by step, beside what really ran.

    call         explain: predicts, runs and compares: read this first
    predict      the hops of a call that is not made
    steps        hops and runs as plain data and as text
    key_origins  why a tensor has each of its keys
    table        the whole table of an operator, and the rules asked about a cell

What a kernel does next it declares itself, or `labkit.dispatch.contracts` does for PyTorch's.
"""

from labkit.dispatch.explain.call import explain, explain_call
from labkit.dispatch.explain.table import explain_table

__all__ = ["explain", "explain_call", "explain_table"]
