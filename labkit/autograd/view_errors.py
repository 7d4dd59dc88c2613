"""Why a view may not be written, in PyTorch's words.

Source   torch/csrc/autograd/variable.cpp  handle_view_on_rebase
"""

from labkit.autograd.meta import CreationMeta, ViewMeta

_SEVERAL_VIEWS = (
    "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. You should replace the inplace operation by "
    "an out-of-place one."
)
_IN_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is) and "
    "the autograd logic to handle view+inplace would override the custom backward associated "
    "with the custom Function, leading to incorrect gradients. This behavior is forbidden. You "
    "can fix this by cloning the output of the custom Function."
)


def view_modified(meta: ViewMeta, was_written: bool = False) -> None:
    """Nothing, if the view may be written and its history rewritten.

    was_written  the write went through the base or another view of it

    Raises   RuntimeError   it was made in a way that forbids this
    """
    creation = meta.creation
    if creation is CreationMeta.DEFAULT:
        return
    happened = (
        "its base or another view of its base has been modified inplace"
        if was_written
        else "is being modified inplace"
    )
    made = f"Output {meta.view_edge[1]} of {forward_name(meta)} is a view" if meta.view_edge else ""
    if creation is CreationMeta.INFERENCE_MODE:
        mode, start = "inference_mode", "A view was created in inference mode"
        raise RuntimeError(f"{start} and {happened} in normal mode. {_both(mode)}")
    if not made:
        made = "A view was created in no_grad mode"
    start = f"{made} and {happened}"
    if not meta.view_edge:
        start += " with grad mode enabled"
    if creation is CreationMeta.MULTI_OUTPUT_NODE:
        raise RuntimeError(f"{start}. {_SEVERAL_VIEWS}")
    if creation is CreationMeta.NO_GRAD_MODE:
        raise RuntimeError(f"{start}. {_both('no_grad')}")
    raise RuntimeError(f"{start}. {_IN_FUNCTION}")


def _both(mode: str) -> str:
    return (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
        f"your code by moving both the view and the inplace either both inside the {mode} block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace "
        "to be tracked)."
    )


def forward_name(meta: ViewMeta) -> str:
    """What the call that made the view is called: SplitBackward0 is Split's."""
    return str(meta.view_edge[0].forward_name())
