"""`show.dispatch` and `show.dispatch_table`: a call's way, and an operator's whole table."""

from labkit.show.dispatch.picture import KEYS, dispatch, dispatch_table

__all__ = ["KEYS", "dispatch", "dispatch_table"]
