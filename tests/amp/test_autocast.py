"""Regions, lists and the weight cache, beside torch.autocast."""

import threading
import warnings

import pytest
import torch

import labkit as lab
from labkit import amp
from labkit.amp import casting
from labkit.amp.lists import LISTS
from labkit.amp.policies import KEYS, POLICIES
from labkit.dispatch import dispatcher, recording
from labkit.dispatch.layers import Autocast
from labkit.nn import functional as F

BOTH = pytest.mark.parametrize(
    ("m", "autocast"), [(torch, torch.autocast), (lab, amp.autocast)], ids=["torch", "labkit"]
)


def test_every_listed_operator_of_labkit_has_a_kernel_and_no_other():
    operators = dispatcher().operators
    for device_type, lists in LISTS.items():
        assert set(lists) <= set(POLICIES)
        listed = {f"aten::{name}" for names in lists.values() for name in names.split()}
        with_kernel = {name for name, op in operators.items() if KEYS[device_type] in op.kernels}
        assert with_kernel == listed & operators.keys()
        assert len(with_kernel) >= 14


def test_no_operator_is_listed_twice():
    for lists in LISTS.values():
        names = [name for each in lists.values() for name in each.split()]
        assert len(names) == len(set(names))


def test_a_call_passes_autocast_and_then_autograd():
    x = lab.ones(2, 2, requires_grad=True)
    with recording(dispatcher()) as runs, amp.autocast("cpu"):
        lab.mm(x, x)
    mine = [run.slot.name for run in runs if run.operator == "aten::mm"]
    assert mine == ["AutocastCPU", "AutogradCPU", "CPU"]
    casts = [run.slot.name for run in runs if run.operator == "aten::_to_copy"]
    assert "AutocastCPU" not in casts
    assert casts.count("CPU") == 1  # both arguments are the same weight


@BOTH
def test_the_types_inside_nested_regions(m, autocast):
    x = m.ones(2, 2)
    seen = []
    with autocast("cpu", m.bfloat16):
        seen.append(m.mm(x, x).dtype)
        with autocast("cpu", m.float16):
            seen.append(m.mm(x, x).dtype)
            with autocast("cpu", enabled=False):
                seen.append(m.mm(x, x).dtype)
            seen.append(m.mm(x, x).dtype)
        seen.append(m.mm(x, x).dtype)
    seen.append(m.mm(x, x).dtype)
    names = [str(dtype).rpartition(".")[2] for dtype in seen]
    assert names == ["bfloat16", "float16", "float32", "float16", "bfloat16", "float32"]


@BOTH
def test_a_weight_is_cast_once_a_region_and_served_stale(m, autocast):
    weight, x = m.ones(2, 2, requires_grad=True), m.ones(2, 2)
    with autocast("cpu"):
        before = m.mm(x, weight)
        with m.no_grad():
            weight.mul_(3)
        assert m.mm(x, weight).tolist() == before.tolist()  # the cast is of the old numbers
        with autocast("cpu", cache_enabled=False):
            assert m.mm(x, weight).tolist() == [[6, 6], [6, 6]]
    with autocast("cpu"):
        assert m.mm(x, weight).tolist() == [[6, 6], [6, 6]]


def test_only_casts_of_leaf_weights_are_kept_and_only_inside():
    weight = lab.ones(2, 2, requires_grad=True)
    view, product, plain = weight[:], weight * 2, lab.ones(2, 2)
    with amp.autocast("cpu"):
        for each in (weight, view, product, plain, weight.detach()):
            lab.mm(each, each)
        assert [kept for kept, _ in amp.cached_weights()] == [weight]
        with amp.autocast("cpu"):
            lab.mm(plain, plain)
        assert len(amp.cached_weights()) == 1  # an inner region ends: nothing is dropped
    assert amp.cached_weights() == []


def test_the_cache_ends_with_an_error_too():
    weight = lab.ones(2, 2, requires_grad=True)
    with pytest.raises(ZeroDivisionError), amp.autocast("cpu"):
        lab.mm(weight, weight)
        raise ZeroDivisionError
    assert amp.cached_weights() == []
    assert casting.CACHE.nesting == 0
    assert not amp.is_autocast_enabled("cpu")


def test_gradients_have_the_type_of_their_parameters():
    weight = lab.ones(2, 2, requires_grad=True)
    with amp.autocast("cpu"):
        loss = F.linear(lab.ones(2, 2), weight).sum()
    loss.backward()
    assert weight.grad.dtype is lab.float32


@pytest.mark.parametrize("lower", ["float16", "bfloat16"])
def test_gradients_through_the_casts_are_torchs(lower):
    """Behind a gradient lie up to four sums rounded to the lower type, each a step off at most."""
    torch.manual_seed(2)
    numbers = [torch.randn(*size) / 2 for size in ((5, 4), (6, 4), (6,), (3, 6))]

    def gradients(m, linear, region):
        x, *weights = (m.tensor(each.tolist(), requires_grad=True) for each in numbers)
        with region:
            wide = linear(linear(x, weights[0], weights[1]).tanh(), weights[2])
            loss = m.log_softmax(wide, 1).exp().square().sum()
        loss.backward()
        return [(str(each.grad.dtype), each.grad.tolist()) for each in (x, *weights)]

    ours = gradients(lab, F.linear, amp.autocast("cpu", getattr(lab, lower)))
    dtype = getattr(torch, lower)
    theirs = gradients(torch, torch.nn.functional.linear, torch.autocast("cpu", dtype))
    step = torch.finfo(dtype).eps
    for (mine, numbers_here), (other, numbers_there) in zip(ours, theirs, strict=True):
        assert mine.rpartition(".")[2] == other.rpartition(".")[2] == "float32"
        here, there = (torch.tensor(each) for each in (numbers_here, numbers_there))
        torch.testing.assert_close(here, there, rtol=4 * step, atol=4 * step * there.abs().max())


def test_integers_float64_and_other_devices_are_not_cast():
    wide, whole = lab.ones(2, 2, dtype=lab.float64), lab.ones(2, 2, dtype=lab.int64)
    with amp.autocast("cpu"):
        assert lab.mm(wide, wide).dtype is lab.float64
        assert lab.mm(whole, whole).dtype is lab.int64
    on_host = lab.ones(2, 2)
    with amp.autocast("cuda"):
        assert lab.mm(on_host, on_host).dtype is lab.float32


def test_promote_takes_the_widest_and_refuses_a_stranger():
    half, full = lab.ones(2, 2, dtype=lab.float16), lab.ones(2, 2)
    with amp.autocast("cpu", lab.float16):
        assert lab.cat([half, full]).dtype is lab.float32
        assert lab.cat([half, half]).dtype is lab.float16
        with pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
            lab.cat([half, half.to(lab.bfloat16)])


def test_a_caller_who_names_a_dtype_gets_it():
    x = lab.ones(2, 2, device="cuda", dtype=lab.float16)
    with amp.autocast("cuda"):
        assert x.sum().dtype is lab.float32
        assert x.sum(dtype=lab.float16).dtype is lab.float16


@pytest.mark.parametrize("places", [(), (2, 2), (2,)], ids=str)
def test_a_loss_of_half_scores_is_float32_on_cuda(places):
    """Cross entropy calls `nll_loss` or `nll_loss2d` through the dispatcher, so their lists count.

    As PyTorch's it names a dtype for log_softmax, which therefore stays in halves.
    """
    scores = lab.ones(2, 3, *places, device="cuda", dtype=lab.float16)
    target = lab.zeros(2, *places, device="cuda", dtype=lab.int64)
    with amp.autocast("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a log_softmax of halves goes over the host
        assert F.cross_entropy(scores, target).dtype is lab.float32


def test_binary_cross_entropy_is_refused_on_cuda():
    x = lab.full((2,), 0.5, device="cuda")
    op = POLICIES["banned"]
    with pytest.raises(RuntimeError, match="with_logits"):
        op(dispatcher().find("aten::mse_loss"), KEYS["cuda"], [x, x])


@BOTH
def test_a_function_can_be_a_region(m, autocast):
    @autocast("cpu", m.float16)
    def product(x):
        return m.mm(x, x)

    assert product(m.ones(2, 2)).dtype is m.float16
    assert m.mm(m.ones(2, 2), m.ones(2, 2)).dtype is m.float32
    assert product.__name__ == "product"


def test_a_region_can_be_entered_again_from_within():
    @amp.autocast("cpu", lab.float16)
    def product(x, times):
        return lab.mm(x, product(x, times - 1) if times else x)

    assert product(lab.ones(2, 2), 3).dtype is lab.float16
    assert not amp.is_autocast_enabled("cpu")


@BOTH
def test_another_type_on_the_cpu_switches_autocast_off(m, autocast):
    with pytest.warns(UserWarning, match="Disabling autocast"):
        region = autocast("cpu", m.float32)
    with region:
        assert m.mm(m.ones(2, 2), m.ones(2, 2)).dtype is m.float32


@BOTH
def test_a_device_type_without_lists_is_refused(m, autocast):
    with pytest.raises((RuntimeError, AssertionError)):
        autocast("meta", m.float16)


def test_the_innermost_region_says_what_it_casts_to():
    assert amp.get_autocast_dtype("cpu") is lab.bfloat16
    assert amp.get_autocast_dtype("cuda") is lab.float16
    with amp.autocast("cuda", lab.bfloat16):
        assert amp.get_autocast_dtype("cuda") is lab.bfloat16
        assert amp.get_autocast_dtype("cpu") is lab.bfloat16
        assert amp.is_autocast_enabled("cuda")
        assert not amp.is_autocast_enabled("cpu")


def test_another_thread_is_outside():
    seen = []
    with amp.autocast("cpu"):
        x = lab.ones(2, 2)
        thread = threading.Thread(target=lambda: seen.append(lab.mm(x, x).dtype))
        thread.start()
        thread.join()
    assert seen == [lab.float32]


def test_the_dispatcher_s_own_region_casts_by_the_lists_too():
    x = lab.ones(2, 2)
    with Autocast("CPU", "float16"):
        assert lab.mm(x, x).dtype is lab.float16


@pytest.mark.parametrize("dtype", [lab.float16, lab.bfloat16], ids=str)
def test_halves_are_multiplied_on_the_device_itself(dtype):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=generator) for size in ((70, 40), (40, 33)))
    ours = [lab.from_numpy(each.numpy()).to("cuda").to(dtype) for each in (a, b)]
    lab.ops.fallback.reset()
    product = lab.mm(*ours)
    assert lab.ops.fallback.counts() == {}
    assert product.dtype is dtype
    as_torch = getattr(torch, dtype.name)
    expected = a.to(as_torch).double() @ b.to(as_torch).double()
    got = torch.from_numpy(product.cpu().float().numpy()).double()
    assert torch.allclose(got, expected, rtol=2.0**-7, atol=1e-2)
