"""Random networks and random programs of tensors, by a seed."""

import random

import torch
from torch import nn

UNARY = ("relu", "sigmoid", "tanh", "neg", "abs", "sin")
BINARY = ("add", "sub", "mul", "maximum")


def program(seed, steps=8, in_place=False):
    """A function of two tensors of 2 x 3 x 4 and one of 3 x 1: a list of random results.

    in_place   some steps write to a value that an earlier step made
    """

    def run(x, y, row):
        chooser = random.Random(seed)
        values, made = [x, y, row], []
        if in_place:
            values = [value + 0 for value in values]
        for _ in range(steps):
            value = _step(chooser, values)
            values.append(value)
            made.append(value)
            if in_place and chooser.random() < 0.3:
                chooser.choice(made).mul_(0.5)
        return [value.clone() for value in chooser.sample(made, 2)] + [made[-1] + 0]

    return run


def _step(chooser, values):
    x = chooser.choice(values)
    kind = chooser.random()
    if kind < 0.4:
        return getattr(torch, chooser.choice(UNARY))(x) if kind < 0.3 else torch.relu(x) * 2
    if kind < 0.5:
        return x.reshape(x.shape) if chooser.random() < 0.5 else x.unsqueeze(0).squeeze(0)
    if kind < 0.6:
        return x[..., :1] if x.dim() > 2 else x.t().t()
    if kind < 0.65:
        return x.sum(-1, keepdim=True)
    name = chooser.choice(BINARY)
    if name in ("add", "sub") and chooser.random() < 0.3:
        return getattr(torch, name)(x, chooser.choice(values), alpha=0.5)
    return getattr(torch, name)(x, chooser.choice([*values, torch.tensor(1.5)]))


def inputs(seed):
    made = torch.Generator().manual_seed(seed)
    shapes = ((2, 3, 4), (2, 3, 4), (3, 1))
    return [torch.randn(shape, generator=made) for shape in shapes]


class Network(nn.Module):
    """Random layers: some share their result, lack a bias or a norm, or are grouped."""

    def __init__(self, seed, norm=nn.BatchNorm2d):
        super().__init__()
        chooser = random.Random(seed)
        self.layers, self.plan, channels = nn.ModuleList(), [], 4
        for _ in range(3):
            out = chooser.choice((4, 6, 8))
            groups = chooser.choice((1, 2))
            self.layers.append(
                nn.Conv2d(channels, out, chooser.choice((1, 3)), padding="same" if
                          chooser.random() < 0.2 else 1, groups=groups,
                          bias=chooser.random() < 0.5)
            )  # fmt: skip
            self.layers.append(
                norm(out, affine=chooser.random() < 0.8, eps=10.0 ** -chooser.randint(1, 6))
            )
            self.plan.append(chooser.choice(("relu", "none", "shared", "inplace")))
            channels = out
        self.last = nn.Linear(channels, 5)

    def forward(self, x):
        for i, kind in enumerate(self.plan):
            made = self.layers[2 * i](x)
            x = self.layers[2 * i + 1](made)
            if kind == "relu":
                x = torch.relu(x)
            elif kind == "inplace":
                x = x.relu_()
            elif kind == "shared":
                x = x * made.sigmoid()
        return self.last(x.mean((2, 3)))


def poisoned(network, seed):
    """The network in evaluation, its norms' statistics and weights far from 0 and 1."""
    made = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 30, generator=made)
            module.running_var.uniform_(1e-4, 50, generator=made)
            if module.affine:
                nn.init.normal_(module.weight, 0, 2, generator=made)
                nn.init.normal_(module.bias, 0, 5, generator=made)
    return network.eval()
