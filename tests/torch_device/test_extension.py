"""Extensions written for cards, `.cu` files and all, on the device: values, gradients, streams."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from labkit.course.documents import sketches
from tests.torch_device.apart import apart

LLTM = Path(sketches.__file__).with_name("lltm.cu")
TWICE = Path(__file__).with_name("twice.cu")


def lltm():
    """The operator of the file, with its gradient: input, weights, bias, h, cell -> h, cell."""
    from labkit.torch_device import extension

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], *output[1:])

    def backward(ctx, grad_h, grad_cell, *_):
        weights, cell, x, gates = ctx.saved_tensors
        d_gates, d_cell = torch.ops.lltm_cuda.backward(grad_h, grad_cell, gates, cell)
        d_x, width = d_gates @ weights, cell.shape[1]
        return d_x[:, width:], d_gates.t() @ x, d_gates.sum(0), d_x[:, :width], d_cell

    extension.load(LLTM)
    torch.library.register_autograd("lltm_cuda::forward", backward, setup_context=keep)
    return lambda *given: torch.ops.lltm_cuda.forward(*given)[:2]


def in_python(x, weights, bias, h, cell):
    gates = functional.linear(torch.cat([h, x], 1), weights, bias).view(len(x), 3, cell.shape[1])
    cell = cell + functional.elu(gates[:, 2]) * gates[:, 0].sigmoid()
    return cell.tanh() * gates[:, 1].sigmoid(), cell


def inputs(batch, features, width, dtype):
    sizes = (batch, features), (3 * width, width + features), 3 * width, (batch, width)
    made = [torch.randn(size, dtype=dtype) for size in (*sizes, (batch, width))]
    made[1] /= (features + width) ** 0.5  # as layers begin: gates of about 1
    return [each.requires_grad_() for each in made]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch, features, width", [(3, 5, 4), (1, 1, 130), (0, 3, 2)])
@apart
def test_the_cell_of_a_cu_file_has_pytorchs_values_and_gradients(batch, features, width, dtype):
    cell, here = lltm(), inputs(batch, features, width, getattr(torch, dtype))
    there = [each.detach().to("lab").requires_grad_() for each in here]
    found, expected = cell(*there), in_python(*here)
    for outputs in (found, expected):
        (outputs[0].sum() + outputs[1].square().sum()).backward()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)
    for ours, theirs in zip(there, here, strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@apart
def test_a_cu_file_gives_a_kernel_to_an_operator_that_is_defined_elsewhere():
    """Its formula, made of PyTorch's operators, serves the device as it serves the CPU."""
    from labkit.torch_device import extension

    defined = torch.library.Library("lltm", "DEF")
    defined.define("step(Tensor gates, Tensor old) -> (Tensor, Tensor)")

    def formula(ctx, grad_h, grad_cell):
        return ctx.saved_tensors[0] * grad_h.repeat(1, 3), grad_cell

    torch.library.register_autograd(
        "lltm::step",
        formula,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    extension.load(LLTM)
    gates, old = torch.randn(12, 6).t(), torch.randn(4, 6).t()  # neither is contiguous
    there = gates.to("lab").t().contiguous().t().requires_grad_()
    h, cell = torch.ops.lltm.step(there, old.to("lab"))
    a, b, x = gates.chunk(3, 1)
    expected = old + functional.elu(x) * a.sigmoid()
    torch.testing.assert_close(cell.cpu(), expected)
    torch.testing.assert_close(h.cpu(), expected.tanh() * b.sigmoid())
    assert h.is_contiguous() and cell.is_contiguous()
    h.sum().backward()
    torch.testing.assert_close(there.grad.cpu(), gates)
    with pytest.raises(NotImplementedError, match=r"lltm::step.*'CPU' backend"):
        torch.ops.lltm.step(gates, old)


@apart
def test_its_kernels_are_kernels_of_the_device():
    queue = torch.lab._devices[0].driver.queue
    with torch.lab.no_fallbacks():
        h, _ = lltm()(*[each.to("lab") for each in inputs(2, 3, 4, torch.float32)])
        h.sum().backward()
    launched = [work.name for work in queue.log if work.kind == "kernel"]
    for kernel in ("gates_forward<scalar_t>", "gates_backward<scalar_t>"):
        assert launched.count(kernel) >= 1, launched[-20:]


@apart
def test_a_tensor_of_the_host_is_none_of_its():
    lltm()
    with pytest.raises(NotImplementedError, match=r"lltm_cuda::forward.*'CPU' backend"):
        torch.ops.lltm_cuda.forward(*inputs(2, 3, 4, torch.float32))


@apart
def test_guards_and_streams_are_pytorchs_and_a_refused_launch_is_an_error():
    from labkit.torch_device import extension

    loaded = extension.load(TWICE)
    assert extension.load(TWICE) is loaded
    x = torch.arange(5.0, device="lab:1")
    torch.lab.synchronize(1)
    queue, side = torch.lab._devices[1].driver.queue, torch.Stream("lab:1")
    with side:
        y = torch.ops.labkit_twice.twice(x, 32)
    kernels = [work for work in queue.log if work.name == "twice_kernel"]
    assert (kernels[-1].stream, y.device) == (side.stream_id, x.device)
    side.synchronize()
    assert y.tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(RuntimeError, match="invalid configuration argument"):
        torch.ops.labkit_twice.twice(x, 2048)
    assert "2048" in str(loaded.findings[-1])
    assert torch.ops.labkit_twice.twice(x, 64).sum().item() == 20
