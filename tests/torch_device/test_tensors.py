"""Tensors on the device: made, seen, moved, written, saved, as on any device of PyTorch."""

import copy
import io
import pickle

import pytest
import torch

from tests.torch_device.apart import apart


@apart
def test_a_tensor_prints_with_its_device():
    x = torch.tensor([[1.5, -2.0], [3.0, 0.25]], device="lab")
    assert repr(x) == repr(x.cpu()).replace(")", ", device='lab:0')")
    assert (x.is_lab, x.device.type, x.device.index) == (True, "lab", 0)
    assert str(torch.zeros(2, 0, device="lab")) == "tensor([], device='lab:0', size=(2, 0))"


DRAWS = {
    "randn": lambda m, device: m.randn(5, 3, device=device),
    "many": lambda m, device: m.rand(300_000, device=device),
    "float64": lambda m, device: m.rand(9, device=device, dtype=m.float64),
    "float16": lambda m, device: m.rand(9, device=device, dtype=m.float16).float(),
    "bfloat16": lambda m, device: m.randn(9, device=device, dtype=m.bfloat16).float(),
    "with gaps": lambda m, device: m.zeros(4, 6, device=device).t()[:, ::2].normal_(2, 0.5),
    "randint": lambda m, device: m.randint(-3, 10, (7,), device=device),
    "wide": lambda m, device: m.randint(0, 1 << 40, (7,), device=device),
    "random_": lambda m, device: m.empty(7, device=device, dtype=m.int32).random_(),
    "bernoulli_": lambda m, device: m.empty(9, device=device).bernoulli_(0.3),
    "dropout": lambda m, device: m.nn.functional.dropout(m.ones(9, device=device), 0.3),
}
"""What draws, on "lab" of PyTorch or on "cuda" of labkit."""


@apart
def test_the_same_seed_draws_labkits_own_numbers_and_the_host_draws_none():
    import labkit

    torch.manual_seed(2**40 + 3)
    labkit.manual_seed(2**40 + 3)
    with torch.lab.no_fallbacks():
        for name, draw in DRAWS.items():
            assert draw(torch, "lab").cpu().tolist() == draw(labkit, "cuda").tolist(), name


@apart
def test_a_host_that_draws_for_the_device_follows_its_generator():
    def draws():
        x = [torch.randperm(9, device="lab"), torch.empty(4, device="lab").exponential_()]
        return [each.tolist() for each in x]

    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, second = draws(), draws()
    assert first != second
    assert torch.equal(torch.get_rng_state(), before)
    torch.lab.manual_seed(7)
    assert draws() == first


@apart
def test_a_state_is_a_seed_and_an_offset():
    generator = torch.Generator("lab").manual_seed(2**40 + 3)
    torch.rand(1_200_000, device="lab", generator=generator)
    assert (generator.initial_seed(), generator.get_offset()) == (2**40 + 3, 8)
    numbers = generator.get_state().view(torch.int64).tolist()
    assert numbers == [2**40 + 3, 8]
    other = generator.clone_state()
    again = torch.rand(3, device="lab", generator=other)
    assert torch.rand(3, device="lab", generator=generator).tolist() == again.tolist()
    with pytest.raises(RuntimeError, match="wrong size: 5056 bytes, expected 16"):
        generator.set_state(torch.get_rng_state())
    with pytest.raises(RuntimeError, match="multiple of 4, got 6"):
        generator.set_offset(6)
    with pytest.raises(RuntimeError, match="'lab' device type for generator but found 'cpu'"):
        torch.rand(3, device="lab", generator=torch.Generator())


@apart
def test_a_generator_has_a_state_of_its_own():
    a, b = (torch.Generator("lab").manual_seed(3) for _ in range(2))
    first = torch.randn(4, device="lab", generator=a).tolist()
    torch.randn(4, device="lab")
    state = a.get_state()
    assert torch.randn(4, device="lab", generator=b).tolist() == first
    second = torch.randn(4, device="lab", generator=a).tolist()
    a.set_state(state)
    assert torch.randn(4, device="lab", generator=a).tolist() == second != first
    with torch.random.fork_rng(devices=[0], device_type="lab"):
        inside = torch.rand(2, device="lab").tolist()
    assert torch.rand(2, device="lab").tolist() == inside


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool", "complex64"])
@apart
def test_elements_cross_in_any_layout(dtype):
    x = (torch.arange(24) % 7 - 2).reshape(2, 3, 4).to(getattr(torch, dtype))
    views = [
        lambda t: t, lambda t: t.transpose(0, 2), lambda t: t[:, 1], lambda t: t[..., ::2],
        lambda t: t[:1].expand(2, 3, 4), lambda t: t[1, 2, 3], lambda t: t.flatten()[5:5],
    ]  # fmt: skip
    for view in views:
        there = view(x.to("lab"))
        assert torch.equal(there.cpu(), view(x))
        assert torch.equal(view(x).to("lab").cpu(), view(x))
        for source in (view(x) * 1, (view(x) * 1).to("lab"), view(x).to(torch.float64)):
            here, target = x.clone(), x.to("lab")
            if view(here).is_contiguous() or 0 not in view(here).stride():
                view(here).copy_(source.cpu())
                view(target).copy_(source)
                assert torch.equal(target.cpu(), here)


@apart
def test_lazy_conjugates_and_negatives_cross():
    x = torch.tensor([1 + 2j, 3 - 4j])
    there = x.to("lab")
    assert there.conj().cpu().tolist() == x.conj().tolist()
    assert there.conj().imag.cpu().tolist() == x.conj().imag.tolist()
    there.conj().copy_(x)
    assert there.cpu().tolist() == x.conj().tolist()


@apart
def test_a_view_writes_into_its_base():
    x = torch.zeros(3, 4, device="lab")
    x[1] += 2
    x.t()[0].fill_(5)
    x[2, 1:3] = torch.tensor([7.0, 8.0])
    x[x == 2] = -1
    assert x.tolist() == [[5, 0, 0, 0], [5, -1, -1, -1], [5, 7, 8, 0]]


@apart
def test_an_output_grows_and_a_storage_is_resized():
    out = torch.empty(0, device="lab")
    torch.add(torch.ones(3, device="lab"), 1, out=out)
    assert out.tolist() == [2, 2, 2]
    torch.abs(torch.tensor([-1.0, 2.0]).to("lab"), out=(out := torch.empty(0, device="lab")))
    assert out.tolist() == [1, 2]
    torch.sum(torch.ones(2, 3, device="lab"), 1, out=(sums := torch.empty(0, device="lab")))
    assert sums.tolist() == [3, 3]
    out.resize_(4)
    assert (out.shape, out[:2].tolist()) == ((4,), [1, 2])
    out.untyped_storage().resize_(0)
    assert out.untyped_storage().nbytes() == 0


@apart
def test_devices_do_not_mix():
    here, there = torch.ones(2, device="lab"), torch.ones(2, device="lab:1")
    for other in (there, torch.ones(2)):
        with pytest.raises(RuntimeError, match="same device"):
            here + other
    assert (here + torch.tensor(1.0)).tolist() == [2, 2]  # one number may come from the host
    assert (here.to("lab:1") + there).device == torch.device("lab:1")


@apart
def test_saved_and_copied_tensors_are_the_same_again():
    x = torch.randn(4, device="lab:1")
    held = io.BytesIO()
    torch.save({"x": x, "tail": x[2:]}, held)
    found = torch.load(io.BytesIO(held.getvalue()))
    assert found["x"].device == x.device
    found["x"][2] = 9
    assert found["tail"][0].item() == 9
    on_host = torch.load(io.BytesIO(held.getvalue()), map_location="cpu")["x"]
    assert on_host.device.type == "cpu"
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), on_host.to("lab:1")):
        assert torch.equal(twin, x)


@apart
def test_forward_mode_second_order_and_vmap_need_nothing_more():
    from torch.func import hessian, jvp, vmap

    x = torch.tensor([1.0, 2.0], device="lab")
    assert hessian(lambda t: (t**3).sum())(x).tolist() == [[6, 0], [0, 12]]
    _, tangent = jvp(lambda t: t * t, (x,), (torch.ones_like(x),))
    assert tangent.tolist() == [2, 4]
    assert vmap(lambda t: t.sum())(x.view(2, 1)).tolist() == [1, 2]


@apart
def test_an_error_in_a_backward_arrives_as_it_was_raised():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("on purpose")

    x = torch.ones(2, device="lab:1", requires_grad=True)
    with pytest.raises(ValueError, match="on purpose"):
        Fails.apply(x).sum().backward()


@apart
def test_autocast_computes_where_no_policy_is_registered():
    x = torch.ones(2, 2, device="lab")
    with torch.autocast("lab", dtype=torch.bfloat16):
        assert (x @ x).tolist() == [[2, 2], [2, 2]]


@apart
def test_a_result_is_not_copied_once_labkits_own_tensors_are_in_use():
    import labkit

    labkit.randn(2, device="cuda")
    x = torch.ones(3, device="lab")
    log = torch.lab._devices[0].driver.queue.log
    log.clear()
    torch.relu(x)
    assert [work.kind for work in log] == ["kernel"]
