"""Which kernel a call runs, and why: predicted step by step, beside what really ran."""

from labkit.dispatch.explain.call import explain, explain_call

__all__ = ["explain", "explain_call"]
