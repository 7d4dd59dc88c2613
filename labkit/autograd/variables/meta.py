"""What autograd keeps of a tensor, in its `autograd_meta`.

Source   torch/csrc/autograd/variable.h  AutogradMeta, DifferentiableViewMeta
"""

import enum
import weakref
from collections.abc import Callable
from typing import Any

from labkit.autograd.handles import Hooks


class CreationMeta(enum.Enum):
    """How a view came to be, which decides what a write to it may do.

    Source   torch/csrc/autograd/variable.h  CreationMeta
    """

    DEFAULT = "default"
    IN_CUSTOM_FUNCTION = "in a custom Function"
    MULTI_OUTPUT_NODE = "by a function that returns several views"
    NO_GRAD_MODE = "in no_grad mode"
    INFERENCE_MODE = "in inference mode"


class AutogradMeta:
    """Defaults are attributes of the class, so that making one sets only what differs.

    A tensor that is no view of another and was computed has an `edge`; a leaf has
    `requires_grad`.

    Source   torch/csrc/autograd/variable.h  AutogradMeta
    """

    edge: Any = None
    """Where the gradient of this tensor goes: (grad_fn, output number)."""
    requires_grad = False
    """Asked for, by `requires_grad_()`; never set on what was computed."""
    grad: Any = None
    accumulator: "weakref.ref[Any] | None" = None
    """The leaf's AccumulateGrad node, as long as a graph holds it."""
    hooks: Hooks | None = None
    post_accumulate_hooks: Hooks | None = None
    retains_grad = False
    is_view = False
    detached_at = 0
    """Sequence number when `detach_` took this tensor's history away."""


class ViewMeta(AutogradMeta):
    """Of a tensor that shows elements of another, its base.

    The base is the tensor's `base`. After a write through another view, the view's own edge is
    out of date: `attr_version` says for which version of the elements it is right.

    Source   torch/csrc/autograd/variable.h  DifferentiableViewMeta
    """

    is_view = True
    view_edge: Any = None
    creation = CreationMeta.DEFAULT
    attr_version = 0
    view_fn: Callable[[Any], Any] | None = None
    """base -> the view, where `as_strided` cannot say it (the element type differs)."""
