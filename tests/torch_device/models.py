"""Small networks of every family that is trained, and one step of training."""

import copy
import itertools
import math

import torch
from torch import nn
from torch.nn import functional

from labkit.core import device_numbers
from labkit.core.device import Device
from labkit.core.philox import DeviceGenerator

SEED = 1


class Residual(nn.Module):
    """A block of ResNet-18: two convolutions, and the way around them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        around = nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        self.around = nn.Sequential(*around) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.norm1(self.first(x)), inplace=True)
        y = self.norm2(self.second(y))
        y += self.around(x)
        return functional.relu(y, inplace=True)


class Dropout(nn.Module):
    """Dropout; on the CPU with the mask that the device draws after the seed of `losses`."""

    def __init__(self, p):
        super().__init__()
        self.p, self.source = p, DeviceGenerator(Device("cuda", 0)).manual_seed(SEED)

    def forward(self, x):
        if x.device.type != "cpu":
            return functional.dropout(x, self.p)
        drawn = device_numbers.draw(self.source, x.numel(), device_numbers.unit_singles)
        stays = torch.from_numpy(drawn < 1 - self.p).view(x.shape)
        return x * stays * (1 / (1 - self.p))


class Pooled(nn.Module):
    """The mean of each channel, and scores of it."""

    def __init__(self, channels, classes):
        super().__init__()
        self.scores = nn.Linear(channels, classes)

    def forward(self, x):
        return self.scores(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        small = functional.silu(self.squeeze(functional.adaptive_avg_pool2d(x, 1)))
        return x * torch.sigmoid(self.excite(small))


class Attention(nn.Module):
    """A transformer block with its attention written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        split = self.project(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class CausalAttention(nn.Module):
    """A block of nanoGPT: PyTorch's own attention, each place seeing those before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.project(self.norm1(x)).split(width, 2)
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2) for each in split)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    def __init__(self, block, words=13, width=8, length=6):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.block, self.norm = block(width, 2), nn.LayerNorm(width)
        self.scores = nn.Linear(width, words)

    def forward(self, x):
        places = self.places(torch.arange(x.shape[1], device=x.device))
        return self.scores(self.norm(self.block(self.words(x) + places))).flatten(0, 1)


def mlp():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
    return model, torch.randn(12, 8), torch.randint(0, 5, (12,))


def dropped():
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), Dropout(0.3), nn.Linear(64, 5))
    return model, torch.randn(12, 8), torch.randint(0, 5, (12,))


def cnn():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )
    return model, torch.randn(4, 1, 8, 8), torch.randint(0, 5, (4,))


def resnet():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1), Residual(4, 4, 1), Residual(4, 8, 2), Pooled(8, 5),
    )  # fmt: skip
    return model, torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))


def mbconv():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.SiLU(),
        SqueezeExcite(8), nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), Pooled(4, 5),
    )  # fmt: skip
    return model, torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))


def transformer():
    return Language(Attention), torch.randint(0, 13, (3, 6)), torch.randint(0, 13, (18,))


def nanogpt():
    return Language(CausalAttention), torch.randint(0, 13, (3, 6)), torch.randint(0, 13, (18,))


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-3)


def losses(make, optimizer, steps, device):
    """The loss of each step, from the same start on every device."""
    return list(itertools.islice(training(make, optimizer, device), steps))


def training(make, optimizer, device):
    """The loss of each step, one step after the other, without end."""
    torch.manual_seed(SEED)
    model, x, target = (copy.copy(each).to(device) for each in make())
    stepping = optimizer(model.parameters())
    while True:
        stepping.zero_grad()
        loss = functional.cross_entropy(model(x), target)
        loss.backward()
        stepping.step()
        yield loss.item()
