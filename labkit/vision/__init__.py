"""Blocks of image networks, each with its backward written out beside autograd's.

residual         ResNet's basic block
squeeze_excite   EfficientNet's gate, a weight per channel

torchvision has them as BasicBlock and SqueezeExcitation.
"""

from labkit.core.missing import refuse_others
from labkit.vision.residual import ResidualBlock
from labkit.vision.squeeze_excite import SqueezeExcite

__all__ = ["ResidualBlock", "SqueezeExcite"]

__getattr__ = refuse_others(__name__)
