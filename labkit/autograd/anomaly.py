"""Anomaly mode: an error in backward names the forward line that made the node.

Source   torch/csrc/autograd/anomaly_mode.cpp
         torch/autograd/anomaly_mode.py
"""

import traceback
import warnings
from pathlib import Path
from typing import Any

import labkit
from labkit.autograd.node import Node
from labkit.autograd.state import ANOMALY, STATE
from labkit.ops.tensors import copy

_PACKAGE = str(Path(labkit.__file__).parent)


def note_forward(node: Node) -> None:
    """The node knows the line of the call it stands for, and the node that was running.

    Source   torch/csrc/autograd/python_anomaly_mode.cpp  PyAnomalyMetadata::store_stack
    """
    frames = traceback.extract_stack()
    while frames and frames[-1].filename.startswith((_PACKAGE, "<derivative of ")):
        frames.pop()
    node.forward_stack = "".join(traceback.format_list(frames))
    node.parent = STATE.running


def warn_of_failure(node: Node) -> None:
    """A warning shows where the forward call of the failing node was made, and of its parents.

    Source   torch/csrc/autograd/python_anomaly_mode.cpp  PyAnomalyMetadata::print_stack
    """
    if node.forward_stack is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information.",
            UserWarning,
            stacklevel=2,
        )
        return
    warnings.warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        f"{node.forward_stack}",
        UserWarning,
        stacklevel=2,
    )
    parent = node.parent
    while parent is not None:
        where = (
            "No forward pass information available."
            if parent.forward_stack is None
            else "Traceback of forward call that induced the previous calculation:\n"
            f"{parent.forward_stack}"
        )
        warnings.warn(
            f"\n\nPrevious calculation was induced by {parent.name()}. {where}",
            UserWarning,
            stacklevel=2,
        )
        parent = parent.parent


def check_nan(node: Node, results: Any) -> None:
    """Nothing, if no result of the node has a NaN.

    Raises   RuntimeError   one has; names the node and the result
    """
    for number, result in enumerate(results):
        if result is not None:
            numbers = copy.values(result)
            if (numbers != numbers).any():
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {number}th output."
                )


class detect_anomaly:
    """Inside the `with`, anomaly mode is on.

    check_nan  NaN among a node's results is an error

    Source   torch/autograd/anomaly_mode.py  detect_anomaly
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = (ANOMALY.enabled, ANOMALY.check_nan)
        ANOMALY.switch(True, self._check_nan)

    def __exit__(self, *_exception: object) -> None:
        ANOMALY.switch(*self._before)
