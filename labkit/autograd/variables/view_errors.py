"""Why a view may not be written, in PyTorch's words.

Source   torch/csrc/autograd/variable.cpp  handle_view_on_rebase
"""

from labkit.autograd.variables.meta import CreationMeta, ViewMeta

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
    happened = "its base or another view of its base has been" if was_written else "is being"
    made = ""
    if meta.view_edge:
        node, number = meta.view_edge
        made = f"Output {number} of {node.forward_name()} is a view"
    unrecorded = creation in (CreationMeta.INFERENCE_MODE, CreationMeta.NO_GRAD_MODE)
    if unrecorded or not made:
        start = f"{made} of a view which was created in" if made else "A view was created in"
        if creation is CreationMeta.INFERENCE_MODE:
            text = f"{start} inference mode and {happened} modified inplace in normal mode."
        else:  # without a node it can only have been made in no_grad mode
            text = f"{start} no_grad mode and {happened} modified inplace with grad mode enabled."
    else:
        text = f"{made} and {happened} modified inplace."
    raise RuntimeError(f"{text} {_reason(creation)}")


def _reason(creation: CreationMeta) -> str:
    if creation is CreationMeta.MULTI_OUTPUT_NODE:
        return _SEVERAL_VIEWS
    if creation is CreationMeta.IN_CUSTOM_FUNCTION:
        return _IN_FUNCTION
    mode = "inference_mode" if creation is CreationMeta.INFERENCE_MODE else "no_grad"
    return (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
        f"your code by moving both the view and the inplace either both inside the {mode} block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace "
        "to be tracked)."
    )
