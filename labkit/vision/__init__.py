"""Blocks of image networks, each with its backward written out beside autograd's.

residual         ResNet's basic block
squeeze_excite   EfficientNet's gate, a weight per channel
mbconv           EfficientNet's block, with two plans for what it keeps
networks         ResNet-18 and EfficientNet-B0 of these blocks
saved            what a block keeps, in bytes
receptive_field  which inputs an output sees

torchvision has them as BasicBlock, SqueezeExcitation, MBConv, resnet18 and efficientnet_b0.
"""

from labkit.core.missing import refuse_others
from labkit.vision.mbconv import MBConv
from labkit.vision.networks import EfficientNet, ResNet
from labkit.vision.receptive_field import Branches, Field, Window, receptive_field
from labkit.vision.residual import ResidualBlock
from labkit.vision.saved import saved_bytes
from labkit.vision.squeeze_excite import SqueezeExcite

__all__ = [
    "Branches",
    "EfficientNet",
    "Field",
    "MBConv",
    "ResNet",
    "ResidualBlock",
    "SqueezeExcite",
    "Window",
    "receptive_field",
    "saved_bytes",
]

__getattr__ = refuse_others(__name__)
