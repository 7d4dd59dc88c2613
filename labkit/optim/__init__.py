"""Optimizers: one step of each parameter, element by element, as PyTorch's single-tensor loops.

Source   torch/optim
"""

from labkit.core.missing import refuse_others
from labkit.optim import lr_scheduler
from labkit.optim.adam import Adam, AdamW
from labkit.optim.optimizer import Optimizer
from labkit.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]

__getattr__ = refuse_others(__name__)
