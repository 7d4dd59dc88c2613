"""A graph of every recorded call, and the engine that runs it backward.

    node             one step of the graph; accumulate_grad: the last one, of a leaf
    kernels          a call is computed, and recorded: read this first
    derivatives      the table of formulas; formulas: what they may call by name
    variables        what autograd knows of a tensor
    backward         backward() and grad(): the roots and gradients that the engine gets
    engine           which node runs when, and how gradients come together
    function         a user's own; function_outputs: what its apply returns
    grad_mode        no_grad and its like; state: what they switch, and the rest of a thread's
    graph, handles   hooks on saved tensors; a registered hook, to be taken back
    recording        every step of a backward call, as data
    anomaly, checkpoint, gradcheck   as in PyTorch

Source   torch/csrc/autograd; torch/autograd
Differs  Backward only: forward-mode differentiation (torch.autograd.forward_ad) is left out.
"""

from labkit.autograd import graph
from labkit.autograd.anomaly import detect_anomaly
from labkit.autograd.backward import GradientEdge, backward, grad
from labkit.autograd.checkpoint import CheckpointError, checkpoint
from labkit.autograd.derivatives import derivatives
from labkit.autograd.function import Function, once_differentiable
from labkit.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from labkit.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from labkit.autograd.kernels.install import install
from labkit.autograd.recording import recording
from labkit.core.missing import refuse_others

__all__ = [
    "CheckpointError",
    "Function",
    "GradcheckError",
    "GradientEdge",
    "backward",
    "checkpoint",
    "derivatives",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "install",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "recording",
    "set_grad_enabled",
]

__getattr__ = refuse_others(__name__)
