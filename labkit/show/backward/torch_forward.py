"""Which operator made each autograd node of torch, and its result, seen below autograd."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.autograd.recording import Value
from labkit.show.backward.torch_backward import TorchRecorder


class ForwardRecorder(TorchDispatchMode):  # type: ignore[misc]
    """Inside the `with`, the calls that make a node are noted.

    calls   sequence number of the node -> (operator, its result)

    A node takes its number before its operator runs, so while the operator runs the number of the
    newest node is the one before the counter's.
    """

    def __init__(self, recorder: TorchRecorder) -> None:
        super().__init__()
        self.calls: dict[int, tuple[str, Value | None]] = {}
        self._recorder = recorder
        self._last = torch.autograd._get_sequence_nr() - 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator, and note it if it made a node."""
        newest = torch.autograd._get_sequence_nr() - 1
        result = func(*args, **(kwargs or {}))
        if newest > self._last:
            self._last = newest
            first = result[0] if isinstance(result, list | tuple) and result else result
            value = self._recorder.value(first) if isinstance(first, torch.Tensor) else None
            self.calls[newest] = (f"aten.{func.__name__}", value)
        return result
