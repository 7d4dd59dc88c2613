"""Kernels are asked what PyTorch's own samples ask of PyTorch's: values, sizes, strides, errors.

Every call that reaches PyTorch's kernels, forward and backward, is repeated on labkit's.
"""

import pytest
import torch

import labkit.ops.all  # noqa: F401  defines the operators
from tests.ops.replay import calls_of, replay

FAMILIES = {
    "products": (
        "mm bmm mv dot addmm baddbmm matmul nn.functional.linear",
        {"mm", "bmm", "mv", "dot", "addmm", "baddbmm"},
    ),
    "convolutions": (
        "nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d",
        {"convolution", "convolution_backward"},
    ),
    "pooling": (
        "nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d",
        {"max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
         "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward"},
    ),
    "norms": (
        "nn.functional.batch_norm nn.functional.layer_norm softmax log_softmax "
        "nn.functional.softmin",
        {"native_batch_norm", "native_batch_norm_backward", "native_layer_norm",
         "native_layer_norm_backward", "_softmax", "_log_softmax",
         "_softmax_backward_data", "_log_softmax_backward_data"},
    ),
    "losses": (
        "nn.functional.mse_loss nn.functional.nll_loss nn.functional.cross_entropy",
        {"mse_loss", "mse_loss_backward", "nll_loss_forward", "nll_loss_backward",
         "nll_loss2d_forward", "nll_loss2d_backward"},
    ),
    "joining": (
        "cat stack flip",
        {"cat", "stack", "flip"},
    ),
    "indexing": (
        "masked_fill index_put __getitem__ nn.functional.embedding "
        "unfold select diagonal",
        {"masked_fill.Scalar", "masked_fill.Tensor",
         "index_put", "embedding", "embedding_dense_backward", "select_backward",
         "slice_backward", "diagonal_backward", "unfold_backward"},
    ),
}  # fmt: skip
"""Family -> entries of PyTorch's sample collection, and the operators they are to reach."""
SAMPLES = {torch.float64: 7, torch.float32: 1, torch.int64: 1}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", SAMPLES, ids=str)
def test_a_kernel_answers_as_pytorchs_does(family, dtype):
    entries, operators = FAMILIES[family]
    reached, wrong = set(), []
    for entry in entries.split():
        for call in calls_of(entry, dtype, limit=SAMPLES[dtype], names=operators):
            reached.add(call.name)
            difference = replay(call)
            if difference != "":
                wrong.append(f"{call.name} of {entry}: {difference}")
    assert not wrong, "\n".join(wrong[:5])
    if dtype is torch.float64:
        assert reached >= operators
