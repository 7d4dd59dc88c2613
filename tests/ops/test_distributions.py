"""The host's random numbers are PyTorch's to the bit; a device's follow its documented rules."""

from pathlib import Path

import numpy as np
import pytest
import torch

import labkit.ops.all  # noqa: F401
from labkit.core import device_numbers
from labkit.core.generator import Generator
from labkit.ops.aten import aten
from tests.ops.differential import DTYPES, difference, to_lab

A = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
CPUINFO = Path("/proc/cpuinfo")
INTEL = CPUINFO.exists() and "GenuineIntel" in CPUINFO.read_text(encoding="utf-8")
LAYOUTS = {
    "contiguous": lambda n, dtype: torch.zeros(n, dtype=dtype),
    "matrix": lambda n, dtype: torch.zeros(n, 3, dtype=dtype),
    "transposed": lambda n, dtype: torch.zeros(n, 3, dtype=dtype).t(),
    "with gaps": lambda n, dtype: torch.zeros(n, 2, dtype=dtype)[:, 0],
    "permuted with gaps": lambda n, dtype: (
        torch.zeros(n, 4, 3, dtype=dtype)[:, ::2].permute(2, 0, 1)
    ),
}  # fmt: skip
IN_PLACE = {
    "uniform": (A.uniform_.default, (-0.7, 2.2)),
    "normal": (A.normal_.default, (0.5, 2.2)),
}


def same(operator, x, args, seed, **kwargs):
    """What differs between one call on each side, and whether both generators end alike."""
    theirs, ours = torch.Generator().manual_seed(seed), Generator().manual_seed(seed)
    y = to_lab(x)
    operator(x, *args, generator=theirs, **kwargs)
    name, overload = operator.__name__.split(".")[0], operator._overloadname
    getattr(getattr(aten, name), overload)(y, *args, generator=ours, **kwargs)
    found = difference(y, x, tolerance=0)
    ends = (ours.state_bytes() == theirs.get_state().numpy()).all()
    return found or ("" if ends else "the generators end in different states")


@pytest.mark.skipif(torch.__version__ < "2.13", reason="2.11 draws 16-bit numbers otherwise")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("distribution", IN_PLACE)
def test_floating_numbers_are_pytorchs_to_the_bit(distribution, dtype):
    operator, args = IN_PLACE[distribution]
    for layout, make in LAYOUTS.items():
        for size in (0, 1, 5, 15, 16, 17, 32, 100):
            for seed in (0, 77):
                x = make(size, dtype)
                assert not same(operator, x, args, seed), (layout, size, seed)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.skipif(INTEL, reason="PyTorch hands them to MKL on Intel's processors")
def test_bernoulli_numbers_are_pytorchs_to_the_bit(dtype):
    for seed in range(4):
        assert not same(A.bernoulli_.float, torch.zeros(300, dtype=dtype), (0.3,), seed)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8,
                                   torch.uint8, torch.bool], ids=str)  # fmt: skip
def test_whole_numbers_are_pytorchs(dtype):
    for seed in range(3):
        x = torch.zeros(200, dtype=dtype)
        assert not same(A.random_.default, x, (), seed)
        assert not same(A.random_.to, x, (2,), seed)
        if dtype is torch.int64:
            for bounds in ((-5, 2**28 - 6), (-5, 2**28 - 5), (-(2**62), 2**62)):
                assert not same(A.random_.__getattr__("from"), x, bounds, seed)


def test_an_odd_normal_number_waits_for_the_next_call():
    theirs, ours = torch.Generator().manual_seed(3), Generator().manual_seed(3)
    for size in (3, 1, 4, 2, 7):
        x = torch.zeros(size)
        y = to_lab(x)
        x.normal_(generator=theirs)
        aten.normal_.default(y, generator=ours)
        assert not difference(y, x, tolerance=0)


@pytest.mark.parametrize("seed", range(3))
def test_factories_are_pytorchs(seed):
    for name, args, kwargs in [
        ("rand", ([3, 7],), {}), ("randn", ([4, 9],), {"dtype": torch.float64}),
        ("randint", (10, [50]), {}), ("randn", ([2, 3],), {}),
        ("rand", ([20],), {"dtype": torch.complex64}),
        ("randn", ([20],), {"dtype": torch.complex64}),
    ]:  # fmt: skip
        theirs, ours = torch.Generator().manual_seed(seed), Generator().manual_seed(seed)
        wanted = getattr(A, name).generator(*args, generator=theirs, **kwargs)
        mine = {key: DTYPES[value] for key, value in kwargs.items()}
        found = getattr(aten, name).generator(*args, generator=ours, **mine)
        assert not difference(found, wanted, tolerance=1e-7 if "complex" in str(kwargs) else 0), (
            name
        )


@pytest.mark.skipif(INTEL, reason="PyTorch hands Bernoulli numbers to MKL there")
def test_dropout_drops_the_same_elements():
    import labkit

    before = torch.get_rng_state()
    x = torch.arange(1.0, 41).reshape(5, 8).t()
    try:
        torch.manual_seed(4)
        labkit.manual_seed(4)
        wanted = torch.dropout(x, 0.3, True)
        assert not difference(aten.dropout.default(to_lab(x), 0.3, True), wanted)
    finally:
        torch.set_rng_state(before)


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (A.uniform_.default, (2.0, 1.0)), (A.normal_.default, (0.0, -1.0)),
        (A.bernoulli_.float, (1.5,)), (A.random_.to, (0,)),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(operator, args):
    x = torch.zeros(3)
    with pytest.raises(RuntimeError):
        operator(x, *args)
    with pytest.raises(RuntimeError):
        getattr(getattr(aten, operator.__name__.split(".")[0]), operator._overloadname)(
            to_lab(x), *args
        )


def test_a_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="'cpu' device type for generator but found 'cuda'"):
        aten.uniform_.default(to_lab(torch.zeros(2)), generator=Generator("cuda"))


# What PyTorch prints on an NVIDIA GPU for these seeds, to the four digits it prints.
ON_A_GPU = {
    (0, "uniform"): [0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967, 0.4150, 0.8203],
    (0, "normal"): [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797],
    (42, "uniform"): [0.6130, 0.0101, 0.3984, 0.0403, 0.1563, 0.4825],
    (42, "normal"): [0.1940, 2.1614, -0.1721, 0.8491, -1.9244, 0.6530],
}


@pytest.mark.parametrize(("seed", "distribution"), ON_A_GPU)
def test_device_numbers_are_those_of_a_gpu(seed, distribution):
    wanted = ON_A_GPU[seed, distribution]
    source = Generator("cuda").manual_seed(seed)
    x = to_lab(torch.zeros(len(wanted))).to("cuda")
    getattr(x, f"{distribution}_")(generator=source)
    np.testing.assert_allclose(x.cpu().numpy(), wanted, atol=6e-5)
    assert source.offset == 4


def test_a_large_device_tensor_takes_several_turns_of_the_grid():
    grid = device_numbers.grid_for(2_000_000)
    assert grid.threads == 132 * 8 * 256
    assert (grid.turns, grid.increment) == (2, 8)
    assert device_numbers.grid_for(1).threads == 256
