"""Networks trained on the device: the CPU's losses, with no step of it taken on the CPU."""

import math

import pytest
import torch

from tests.torch_device import models
from tests.torch_device.apart import apart

LAST_BITS = 1e-5


@pytest.mark.parametrize(
    "make", ["mlp", "dropped", "cnn", "resnet", "mbconv", "transformer", "nanogpt"]
)
@apart
def test_the_losses_are_the_cpus_and_nothing_falls_back(make):
    network = getattr(models, make)
    with torch.lab.no_fallbacks():
        found = models.losses(network, models.sgd, 20, "lab")
    assert found == pytest.approx(models.losses(network, models.sgd, 20, "cpu"), abs=LAST_BITS)
    assert torch.lab.fallbacks() == {}


@apart
def test_adam_trains_too():
    with torch.lab.no_fallbacks():
        found = models.losses(models.mlp, models.adamw, 5, "lab")
    assert found == pytest.approx(models.losses(models.mlp, models.adamw, 5, "cpu"), abs=LAST_BITS)


@pytest.mark.parametrize(
    "make, optimizer",
    [
        ("mlp", "adamw"), ("dropped", "sgd"), ("cnn", "sgd"), ("resnet", "sgd"), ("mbconv", "sgd"),
        ("transformer", "sgd"), ("nanogpt", "sgd"),
    ],
)  # fmt: skip
@apart
def test_every_kernel_that_is_poisoned_spoils_the_training(make, optimizer):
    """The kernels that are registered are the ones that compute: without one, nothing trains."""
    from labkit.torch_device import fallback
    from labkit.torch_device.start import kernels

    network, optimizer = getattr(models, make), getattr(models, optimizer)
    right = models.losses(network, optimizer, 3, "cpu")
    entered = set()
    fallback.OBSERVERS.append(watch := lambda name, _: entered.add(name.removeprefix("aten::")))
    try:
        assert models.losses(network, optimizer, 3, "lab") == pytest.approx(right, abs=LAST_BITS)
    finally:
        fallback.OBSERVERS.remove(watch)
    used = entered & kernels().served.keys()
    assert len(used) > 10, entered
    harmless = {name for name in used if not spoils(name, network, optimizer, right)}
    assert harmless == set(), harmless


def spoils(name, network, optimizer, right):
    """Whether losses are wrong, or none come, once this kernel leaves NaN, True or 0 behind."""
    from labkit.ops.cuda import copying
    from labkit.torch_device.start import kernels

    served = kernels().served[name]
    own = served.function

    def poison(*args, **kwargs):
        found = own(*args, **kwargs)
        for each in filter(None, found if isinstance(found, list | tuple) else [found]):
            kind = each.dtype.kind
            copying.fill(each, {"floating": math.nan, "bool": True}.get(kind, 0))
        return found

    served.function = poison
    try:
        steps = zip(right, models.training(network, optimizer, "lab"), strict=False)
        return any(found != pytest.approx(loss, abs=1e-3) for loss, found in steps)
    except RuntimeError:
        return True
    finally:
        served.function = own


@apart
def test_an_operator_without_a_kernel_is_counted_by_its_name():
    x = torch.tensor([3.0, 1.0, 2.0], device="lab")
    torch.lab.reset_fallbacks()
    assert x.erfinv().isnan().tolist() == [True, False, True]
    assert x.sort().values.tolist() == [1.0, 2.0, 3.0]
    assert torch.lab.fallbacks() == {"erfinv.out": 1, "sort.values_stable": 1}
    with torch.lab.no_fallbacks(), pytest.raises(NotImplementedError, match=r"sort\.values_stable"):
        x.sort()


@apart
def test_a_number_in_a_tensors_place_makes_the_detour_too():
    x = torch.tensor([5, -5], device="lab")
    assert torch.remainder(x, 3).tolist() == [2, 1]
    assert torch.div(x, 2, rounding_mode="floor").tolist() == [2, -3]


@apart
def test_an_output_of_the_host_that_lies_with_gaps_arrives_whole():
    a, b = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    torch.testing.assert_close(
        torch.linalg.lstsq(a.to("lab"), b.to("lab")).solution.cpu(),
        torch.linalg.lstsq(a, b).solution,
    )


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@apart
def test_recurrent_networks_have_their_cells(cell):
    def run(device):
        torch.manual_seed(2)
        network = getattr(torch.nn, cell)(3, 4, 2).to(device)
        x = torch.randn(5, 2, 3).to(device).requires_grad_()
        out, state = network(x)
        last = state[1] if cell == "LSTM" else state
        (out.square().sum() + last.sum()).backward()
        return [out, x.grad, *[each.grad for each in network.parameters()]]

    with torch.lab.no_fallbacks():
        found = run("lab")
    for ours, theirs in zip(found, run("cpu"), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@apart
def test_a_compiled_model_trains(backend):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()).to("lab")
    x = torch.randn(3, 4, device="lab")
    compiled = torch.compile(model, backend=backend)
    (found := compiled(x)).sum().backward()
    gradient = model[0].weight.grad.clone()
    model.zero_grad()
    (expected := model(x)).sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient, model[0].weight.grad)


@apart
def test_a_compiled_model_launches_fewer_kernels_with_the_same_results():
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

        def forward(self, x):
            y = self.first(x)
            return self.norm((y.sigmoid() * y + x).tanh() * 2)

    queue = torch.lab._devices[0].driver.queue
    model, x = Gated().to("lab"), torch.randn(4, 8, device="lab")

    def step(forward):
        model.zero_grad()
        torch.lab.synchronize()
        before = queue.log[-1].id
        y = forward(x)
        y.square().sum().backward()
        torch.lab.synchronize()
        launched = [each.name for each in queue.log if each.id > before and each.kind == "kernel"]
        return [y, *[each.grad for each in model.parameters()]], launched

    compiled = torch.compile(model, backend=torch.lab.compiler)
    expected, eager = step(model)
    with torch.lab.no_fallbacks():
        step(compiled)
        found, fused = step(compiled)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert len(fused) < len(eager) - 3
    assert any(name.startswith("fused_") for name in fused)


@apart
def test_inductor_has_no_code_for_the_device_and_says_so_in_an_error():
    from torch._inductor.exc import InductorError

    torch._dynamo.reset()
    with pytest.raises(InductorError):
        torch.compile(torch.nn.LayerNorm(4).to("lab"))(torch.ones(2, 4, device="lab"))


@pytest.mark.parametrize("reentrant", [True, False])
@apart
def test_a_checkpoint_draws_its_dropout_again(reentrant):
    from torch.utils.checkpoint import checkpoint

    seen = []

    def block(x):
        seen.append(torch.nn.functional.dropout(x, 0.5))
        return seen[-1]

    x = torch.ones(64, device="lab", requires_grad=True)
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    assert seen[0].tolist() == x.grad.tolist()
    assert set(x.grad.tolist()) == {0.0, 2.0}


@apart
def test_autocast_chooses_the_types_it_chooses_on_a_gpu():
    linear = torch.nn.Linear(4, 4, device="lab")
    x = torch.randn(2, 4, device="lab")
    with torch.autocast("lab", dtype=torch.bfloat16):
        y = linear(x)
        assert (y.dtype, (x @ x.t()).dtype) == (torch.bfloat16, torch.bfloat16)
        assert torch.softmax(y, 1).dtype == torch.float32
        assert (y + 1).dtype == torch.bfloat16
        loss = torch.nn.functional.cross_entropy(y, torch.tensor([1, 2], device="lab"))
    assert loss.dtype == torch.float32
    loss.backward()
    assert linear.weight.grad.dtype == torch.float32
    torch.testing.assert_close(y.float().cpu(), linear.cpu()(x.cpu()), atol=0.05, rtol=0.05)


@apart
def test_a_step_with_infinite_gradients_is_left_out_by_the_scaler():
    w = torch.ones(3, device="lab", requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.5)
    scaler = torch.amp.GradScaler("lab", init_scale=4.0)
    for factor, expected in ((1.0, [0.5] * 3), (float("inf"), [0.5] * 3)):
        optimizer.zero_grad()
        with torch.lab.no_fallbacks():
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert w.tolist() == expected
    assert scaler.get_scale() == 2.0


@apart
def test_a_loader_pins_what_goes_to_the_device():
    loader = torch.utils.data.DataLoader(torch.arange(6.0), batch_size=3, pin_memory=True)
    batches = list(loader)
    assert all(batch.is_pinned() for batch in batches)
    assert [batch.to("lab", non_blocking=True).sum().item() for batch in batches] == [3, 12]


@apart
def test_an_element_type_without_a_kernel_is_a_detour_too():
    x = torch.eye(2, dtype=torch.float64, device="lab")
    torch.lab.reset_fallbacks()
    assert (x @ x).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.lab.fallbacks() == {"mm.out": 1}
