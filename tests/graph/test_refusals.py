"""Each rewrite that would change a result is refused, with the edge that forbids it."""

import pytest
import torch
from torch import nn

from labkit import graph


def captured(program, *shapes):
    return graph.capture(program, *[torch.randn(shape) for shape in shapes])


def refusals(rewrite):
    return {(one.producer, one.reader): one.reason for one in rewrite.refused}


class ConvNorm(nn.Module):
    def __init__(self, layer=None, norm=None):
        super().__init__()
        self.layer = layer or nn.Conv2d(3, 4, 3)
        self.norm = norm or nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.layer(x))


# --- folding


def test_a_norm_in_training_is_not_folded():
    network = ConvNorm().train()
    network.norm.running_mean.fill_(torch.nan)  # what a training step does not read
    before = captured(network, (2, 3, 5, 5))
    rewrite = graph.fold_batch_norm(before)
    assert "training" in refusals(rewrite)["conv2d", "batch_norm"]
    assert not rewrite.done
    assert rewrite.graph(torch.randn(2, 3, 5, 5)).isfinite().all()


def test_the_running_statistics_are_what_is_folded():
    network = ConvNorm().eval()
    network.norm.running_var[1] = torch.nan
    x = torch.randn(2, 3, 5, 5)
    rewrite = graph.fold_batch_norm(graph.capture(network, x))
    assert len(rewrite.done) == 1
    assert rewrite.graph(x).isnan().any((0, 2, 3)).tolist() == [False, True, False, False]


def test_a_layer_that_somebody_else_reads_is_not_folded():
    network = ConvNorm().eval()
    rewrite = graph.fold_batch_norm(captured(lambda x: network(x) + network.layer(x), (2, 3, 5, 5)))
    assert len(rewrite.done) == 1  # two convolutions: the norm's own has one reader
    shared = graph.share_common(rewrite.before)
    rewrite = graph.fold_batch_norm(shared.graph)
    assert not rewrite.done
    assert refusals(rewrite) == {("conv2d", "add"): "add reads it as well, without the norm"}


def test_a_linear_layer_in_three_dimensions_is_not_folded():
    network = ConvNorm(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    assert len(graph.fold_batch_norm(captured(network, (5, 3))).done) == 1
    rewrite = graph.fold_batch_norm(captured(network, (5, 4, 3)))
    assert "dimension 1" in refusals(rewrite)["linear", "batch_norm"]


def test_weights_made_in_the_graph_are_not_folded():
    norm = nn.BatchNorm2d(4).eval()

    def program(x, w):
        return norm(nn.functional.conv2d(x, w * 2))

    rewrite = graph.fold_batch_norm(captured(program, (2, 3, 5, 5), (4, 3, 1, 1)))
    assert "computed in the graph" in refusals(rewrite)["mul", "conv2d"]


def test_other_number_types_are_not_folded():
    network = ConvNorm().eval()
    network.layer.bfloat16()
    rewrite = graph.fold_batch_norm(graph.capture(network, torch.randn(2, 3, 5, 5).bfloat16()))
    (reason,) = refusals(rewrite).values()
    assert "float32" in reason
    assert "bfloat16" in reason


def test_the_shelf_kernel_needs_a_relu():
    network = ConvNorm().eval()
    rewrite = graph.use_shelf_kernels(captured(lambda x: network(x).tanh(), (2, 3, 5, 5)))
    assert refusals(rewrite) == {
        ("batch_norm", "tanh"): "the kernel ends in a ReLU, and this is none"
    }


def test_the_shelf_kernel_needs_the_norm_for_itself():
    network = ConvNorm().eval()

    def program(x):
        y = network(x)
        return y.relu() + y

    (reason,) = refusals(graph.use_shelf_kernels(captured(program, (2, 3, 5, 5)))).values()
    assert "one of 2 readers" in reason


# --- point-wise kernels


def test_a_value_that_is_needed_elsewhere_ends_a_kernel():
    def program(x):
        y = x.exp() * 2
        return y.sin() + 1, y

    rewrite = graph.fuse_pointwise(captured(program, (4,)))
    assert len(rewrite.done) == 2
    assert "output reads it too" in refusals(rewrite)["fused_exp_mul", "fused_sin_add"]


def test_a_broadcast_value_ends_a_kernel():
    rewrite = graph.fuse_pointwise(captured(lambda x, row: x * row.exp(), (3, 4), (4,)))
    assert "broadcast" in refusals(rewrite)["exp", "mul"]


def test_no_way_leads_out_of_a_kernel_and_back():
    def program(x):
        y = x.exp()
        return y + y.sum(-1, keepdim=True) * 2

    rewrite = graph.fuse_pointwise(captured(program, (3, 4)))
    assert "sum_1 reads it too" in refusals(rewrite)["exp", "add"]


def test_whole_numbers_are_left_alone():
    before = graph.capture(lambda x: (x + 1) * 2, torch.arange(4))
    assert not graph.fuse_pointwise(before).done


def test_an_overwritten_value_is_not_fused_past_the_write():
    def program(x):
        y = x + 1
        z = y * 2
        y.zero_()
        return z * 3, y

    before = captured(program, (4,))
    after = graph.fuse_pointwise(before).graph
    assert graph.largest_difference(before, after, torch.ones(4)) == 0


# --- in place


@pytest.mark.parametrize(
    ("program", "edge", "reason"),
    [
        (lambda x: x.relu(), ("x", "relu"), "belongs to the caller"),
        (lambda x: (x.exp().view(-1).relu(), x)[0], None, ""),
        (lambda x: (y := x.exp()).relu() + y, ("exp", "relu"), "add reads exp later"),
        (lambda x: (v := (y := x.exp()).view(-1), y.relu())[1].view(-1) + v, ("exp", "relu"),
         "add reads view later"),
        (lambda x: (y := x.exp()) + y.t(), ("exp", "add"), "also reads t"),
        (lambda x: (y := x.exp()) + y, None, ""),
        (lambda x: x.exp()[0] + x, ("select", "add"), "shape"),
        (lambda x: x.sum(0, keepdim=True).expand(4, 4) + x, ("expand", "add"), "strides"),
        (lambda x: (x > 0).mul(x), ("gt", "mul"), "dtype"),
        (lambda x: x.exp().t() + x, None, ""),
        (lambda x: (y := x.exp(), y.relu()), ("exp", "relu"), "output reads exp later"),
    ],
)  # fmt: skip
def test_in_place(program, edge, reason):
    before = captured(program, (4, 4))
    rewrite = graph.reinplace(before)
    if edge is None:
        assert rewrite.done
    else:
        assert reason in refusals(rewrite)[edge]
    assert graph.largest_difference(before, rewrite.graph, torch.randn(4, 4)) == 0


def test_what_backward_saved_is_not_written_over():
    before = captured(lambda x: x.sin().exp().relu(), (4,))
    assert len(graph.reinplace(before).done) == 2
    rewrite = graph.reinplace(before, saved={"exp"})
    assert refusals(rewrite)["exp", "relu"] == "backward reads exp"


def test_dropout_in_evaluation_may_hand_back_its_input():
    def program(x):
        y = x.exp()
        kept = nn.functional.dropout(y, training=False)
        return y.relu(), kept

    before = captured(program, (4,))
    assert not any("exp" in line for line in graph.reinplace(before).done)


# --- common subexpressions, dead code, functions


def test_random_numbers_are_drawn_twice():
    rewrite = graph.share_common(captured(lambda x: torch.rand(4) - torch.rand(4) + x, (4,)))
    assert "draws its own" in refusals(rewrite)["rand", "rand_1"]


def test_two_results_stay_two():
    rewrite = graph.share_common(captured(lambda x: (x + 1, x + 1), (4,)))
    assert "the caller gets both" in refusals(rewrite)["add", "add_1"]


def test_numbers_of_two_types_are_not_the_same_argument():
    assert not graph.share_common(captured(lambda x: (x + 1) * (x + 1.0), (4,))).done
    assert graph.share_common(captured(lambda x: (x + 1) * (x + 1), (4,))).done


def test_a_write_to_a_result_that_nobody_reads_is_not_dead():
    def program(x):
        y = x + 1
        y.mul_(2)
        y.exp()
        return y

    before = captured(program, (4,))
    rewrite = graph.remove_dead(before)
    assert rewrite.done == ["exp is read by nobody"]


def test_a_write_that_a_view_shows_is_not_made_functional():
    def program(x):
        y = x + 1
        view = y[0]
        y.mul_(2)
        return view

    before = captured(program, (4,))
    rewrite = graph.functionalise(before)
    assert "shows the write" in refusals(rewrite)["add", "mul_"]
    assert graph.largest_difference(before, rewrite.graph, torch.ones(4)) == 0


def test_a_write_to_the_callers_tensor_is_not_made_functional():
    rewrite = graph.functionalise(captured(lambda x: x.mul_(2), (4,)))
    assert "sees the write" in refusals(rewrite)["x", "mul_"]


def test_the_proof_sees_a_written_input():
    before = captured(lambda x: x + 1, (4,))
    after = captured(lambda x: x.add_(1), (4,))
    with pytest.raises(ValueError, match="writes to input 0"):
        graph.largest_difference(before, after, torch.ones(4))
    with pytest.raises(ValueError, match="became"):
        graph.largest_difference(before, captured(lambda x: x[:2], (4,)), torch.ones(4))


def test_weights_that_the_graph_writes_to_are_not_folded():
    network = ConvNorm().eval()

    def program(x):
        y = network(x)
        network.layer.weight.mul_(2)  # so the next run has other weights
        return y

    rewrite = graph.fold_batch_norm(captured(program, (2, 3, 5, 5)))
    assert not rewrite.done
    assert list(refusals(rewrite).values()) == ["is written to in the graph"]
