"""The engine in vectors: the model's numbers at every size, and a refusal of all it cannot do."""

import itertools

import pytest
import torch
from torch import nn

from labkit.core import host_compiler
from labkit.pipeline.engines import EngineMissing
from labkit.pipeline.enhancer import Enhancer
from labkit.pipeline.simd import engine
from labkit.pipeline.simd.engine import ADD, CONVOLUTION, RELU, lanes, simd, steps_of

needs_compiler = pytest.mark.skipif(
    not host_compiler.installed("c++"), reason="no C++ compiler here"
)
FRAME = torch.rand(1, 3, 6, 8)


def chain(*channels, bias=True, last=None):
    torch.manual_seed(len(channels))
    layers = []
    for inside, outside in itertools.pairwise(channels):
        layers += [nn.Conv2d(inside, outside, 3, padding=1, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([last] if last else [])).eval()


def agree(model, x):
    with torch.inference_mode():
        torch.testing.assert_close(simd(model, x)(x), model(x), rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("outside", range(1, 10))
def test_every_number_of_channels(outside):
    agree(chain(2, outside, 3), torch.randn(2, 2, 9, 21))


@needs_compiler
@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 250])
@pytest.mark.parametrize("height", [1, 2, 13])
def test_every_size(height, width, monkeypatch):
    monkeypatch.setattr(engine, "WORK_BYTES", 1)
    monkeypatch.setattr(engine, "LEAST_STRIP", 3)
    torch.manual_seed(height + width)
    agree(Enhancer(5), torch.randn(1, 3, height, width))


@needs_compiler
def test_many_layers_of_many_channels():
    agree(chain(3, 19, 8, 24, 1, bias=False), torch.randn(1, 3, 40, 33))


@needs_compiler
def test_a_relu_whose_input_is_read_again_stands_alone():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.Conv2d(2, 2, 3, padding=1) for _ in range(2))

        def forward(self, x):
            y = self.first(x)
            return self.second(torch.relu(y)) + y

    model = Both().eval()
    assert [step.kind for step in steps_of(model, FRAME[:, :2])] == [
        CONVOLUTION, RELU, CONVOLUTION, ADD,
    ]  # fmt: skip
    agree(model, torch.randn(1, 2, 30, 20))


@needs_compiler
def test_frames_as_films_have_them_and_other_sizes():
    model = Enhancer(4).eval()
    better = simd(model, FRAME)
    frames = torch.rand(2, 11, 29, 3).permute(0, 3, 1, 2)
    with torch.inference_mode():
        torch.testing.assert_close(better(frames), model(frames), rtol=1e-5, atol=1e-5)


@needs_compiler
def test_what_is_no_number_stays_none():
    model, x = chain(1, 1, 1), torch.zeros(1, 1, 5, 40)
    x[0, 0, 2, 20] = torch.nan
    with torch.inference_mode():
        assert torch.equal(simd(model, x)(x).isnan(), model(x).isnan())


@needs_compiler
def test_the_weights_are_those_it_was_built_with():
    model = Enhancer(2).eval()
    with torch.no_grad():
        right, better = model(FRAME), simd(model, FRAME)
        for parameter in model.parameters():
            parameter.zero_()
        torch.testing.assert_close(better(FRAME), right)
    with pytest.raises(ValueError, match="3 channels, got 2"):
        better(FRAME[:, :2])


@needs_compiler
def test_a_vector_is_as_wide_as_the_compiler_says():
    assert lanes() in (4, 8, 16)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (nn.Conv2d(3, 3, 1), "aten::convolution"),
        (nn.Conv2d(3, 3, 3), "aten::convolution"),
        (nn.Conv2d(3, 3, 3, padding=1, stride=2), "aten::convolution"),
        (nn.Conv2d(3, 3, 3, padding=1, groups=3), "aten::convolution"),
        (nn.Conv2d(3, 3, 3, padding=2, dilation=2), "aten::convolution"),
        (chain(3, 3, last=nn.Sigmoid()), "aten::sigmoid"),
        (chain(3, 3, last=nn.ReLU(inplace=True)), "aten::relu_"),
        (nn.Identity(), "not its last layer's"),
    ],
)
def test_what_it_has_no_kernel_for_is_refused(model, why):
    with pytest.raises(EngineMissing, match=why):
        steps_of(model.eval(), FRAME)


def test_a_sum_with_a_number_or_a_row_is_refused():
    class Plus(nn.Module):
        def __init__(self, other):
            super().__init__()
            self.other = other

        def forward(self, x):
            return x + self.other

    for other in (1.0, torch.ones(1, 3, 6, 8), torch.ones(8)):
        with pytest.raises(EngineMissing, match=r"aten::add.Tensor"):
            steps_of(Plus(other), FRAME)


def test_frames_elsewhere_and_a_missing_compiler_are_told(monkeypatch):
    with pytest.raises(EngineMissing, match="float32 on the CPU"):
        simd(Enhancer(2).double(), FRAME.double())
    monkeypatch.setattr(host_compiler, "installed", lambda language: [])
    engine._library.cache_clear()
    with pytest.raises(EngineMissing, match=r"C\+\+ compiler"):
        simd(Enhancer(2), FRAME)
