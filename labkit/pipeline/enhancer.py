"""The network of the video job: three small convolutions that make a dark, noisy frame right."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from labkit.pipeline.scene import Frame, Scene


class Enhancer(nn.Module):  # type: ignore[misc]
    """Frames [N, 3, H, W], 0..1, to frames of the same shape."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 3, 3, padding=1),
        )

    def forward(self, frames: Tensor) -> Tensor:
        """The frames, corrected."""
        corrected: Tensor = frames + self.body(frames)
        return corrected


def preprocess(frames: Sequence[Frame], device: torch.device | str = "cpu") -> Tensor:
    """One tensor [N, 3, H, W] of floats from 0 to 1."""
    return as_numbers(torch.from_numpy(np.stack(frames)).to(device))


def as_numbers(pixels: Tensor) -> Tensor:
    """Bytes [N, H, W, 3], as frames have them, to floats [N, 3, H, W] from 0 to 1."""
    return pixels.permute(0, 3, 1, 2).float().div_(255)  # of a copy: bytes are no floats


def postprocess(frames: Tensor) -> list[Frame]:
    """The frames of a tensor, as bytes."""
    pixels = frames.float().clamp(0, 1).mul_(255).round_().to(torch.uint8)
    return list(pixels.permute(0, 2, 3, 1).contiguous().cpu().numpy())


def trained(
    channels: int = 8,
    steps: int = 100,
    seed: int = 0,
    report: Callable[[int], None] = lambda step: None,
) -> Enhancer:
    """A network that has learnt the difference between recorded and true frames.

    The same arguments give the same weights. The random state of the caller stays as it was. One
    thread computes: for such small steps, two that wait for each other on a busy machine take 100
    times as long.

    report  called before each step with the number of finished ones
    """
    scene = Scene(height=48, width=64, seed=seed + 1)
    with one_thread(), torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        model = Enhancer(channels)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(steps):
            report(step)
            indices = range(4 * step, 4 * step + 4)
            dark = preprocess([scene.recorded(index) for index in indices])
            truth = preprocess([scene.truth(index) for index in indices])
            optimizer.zero_grad()
            nn.functional.mse_loss(model(dark), truth).backward()
            optimizer.step()
    model.eval()
    return model


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch's operators have one thread inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
