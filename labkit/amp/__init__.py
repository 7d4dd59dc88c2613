"""Mixed precision: a cast per operator, a scaled loss, and weights that stay in float32.

lists           which operators are cast, as PyTorch has them
policies        what each list does to the arguments, as kernels at the autocast keys
casting         one cast, and the cache of cast weights
autocast_mode   the region
grad_scaler     the scale that keeps gradients out of a half's underflow
master_weights  float32 twins of weights that are halves themselves

Importing it puts the policies into labkit's dispatcher.

Source   torch/amp, aten/src/ATen/autocast_mode.cpp
"""

from labkit.amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled
from labkit.amp.casting import cached_weights, clear_autocast_cache
from labkit.amp.grad_scaler import GradScaler
from labkit.amp.lists import policy_of
from labkit.amp.master_weights import MasterWeights
from labkit.amp.policies import register
from labkit.core.missing import refuse_others

__all__ = [
    "GradScaler",
    "MasterWeights",
    "autocast",
    "cached_weights",
    "clear_autocast_cache",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "policy_of",
]

register()

__getattr__ = refuse_others(__name__)
