"""How often Python needs a number of a tensor: on a GPU, each time it waits."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class HostReads(TorchDispatchMode):  # type: ignore[misc]
    """Counts what makes Python wait for a device: a number read, places found by a mask.

    Differs   `tolist` of a CPU tensor reads memory without an operator, and is not seen
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count, and let PyTorch do it."""
        name = str(func)
        masked = name.startswith(("aten.index.", "aten.index_put")) and any(
            place is not None and place.dtype == torch.bool for place in args[1]
        )
        reads = name.startswith(("aten._local_scalar_dense", "aten.nonzero", "aten.masked_select"))
        self.count += masked or reads
        return func(*args, **(kwargs or {}))
