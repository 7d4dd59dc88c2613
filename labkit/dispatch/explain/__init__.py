"""Which kernel a call runs, and why: predicted step by step, beside what really ran."""

from labkit.dispatch.explain.call import explain, explain_call
from labkit.dispatch.explain.table import explain_table

__all__ = ["explain", "explain_call", "explain_table"]
