"""Kernels are asked what PyTorch's own samples ask of PyTorch's: values, sizes, strides, errors.

Every call that reaches PyTorch's kernels, forward and backward, is repeated on labkit's.
"""

import pytest
import torch

import labkit.ops.all  # noqa: F401  defines the operators
from labkit.dispatch.default import dispatcher
from tests.ops.replay import calls_of, replay

FAMILIES = {
    "products": (
        "mm bmm mv dot vdot addmm addmv baddbmm addbmm addr matmul nn.functional.linear "
        "nn.functional.bilinear einsum tensordot kron inner outer",
        {"mm", "bmm", "mv", "dot", "vdot", "addmm", "addmv", "baddbmm", "addbmm", "addr",
         "_trilinear"},
    ),
    "convolutions": (
        "nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d "
        "nn.functional.conv_transpose1d nn.functional.conv_transpose2d "
        "nn.functional.conv_transpose3d nn.functional.unfold",
        {"convolution", "convolution_backward", "im2col", "col2im"},
    ),
    "pooling": (
        "nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d "
        "nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d "
        "nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d "
        "nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d "
        "nn.functional.adaptive_max_pool2d",
        {"max_pool2d_with_indices", "max_pool2d_with_indices_backward",
         "max_pool3d_with_indices", "max_pool3d_with_indices_backward", "avg_pool2d",
         "avg_pool2d_backward", "avg_pool3d", "avg_pool3d_backward", "_adaptive_avg_pool2d",
         "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d", "_adaptive_avg_pool3d_backward",
         "adaptive_max_pool2d", "adaptive_max_pool2d_backward"},
    ),
    "resizing and padding": (
        "nn.functional.interpolate.bilinear nn.functional.interpolate.linear "
        "nn.functional.interpolate.trilinear nn.functional.upsample_nearest "
        "nn.functional.upsample_bilinear nn.functional.pad.constant nn.functional.pad.reflect "
        "nn.functional.pad.replicate constant_pad_nd nn.functional.pixel_shuffle "
        "nn.functional.pixel_unshuffle",
        {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest2d_backward",
         "upsample_linear1d", "upsample_linear1d_backward", "upsample_bilinear2d",
         "upsample_bilinear2d_backward", "upsample_trilinear3d", "upsample_trilinear3d_backward",
         "constant_pad_nd", "pixel_shuffle", "pixel_unshuffle",
         *(f"{mode}_pad{rank}d{back}" for mode in ("reflection", "replication")
           for rank in (1, 2, 3) for back in ("", "_backward"))},
    ),
    "norms": (
        "nn.functional.batch_norm nn.functional.instance_norm nn.functional.layer_norm "
        "nn.functional.group_norm softmax log_softmax nn.functional.softmin "
        "nn.functional.scaled_dot_product_attention",
        {"native_batch_norm", "native_batch_norm_backward", "native_layer_norm",
         "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
         "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
         "_safe_softmax", "_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_flash_attention_for_cpu_backward"},
    ),
    "losses": (
        "nn.functional.mse_loss nn.functional.smooth_l1_loss nn.functional.huber_loss "
        "nn.functional.soft_margin_loss nn.functional.binary_cross_entropy "
        "nn.functional.binary_cross_entropy_with_logits nn.functional.nll_loss "
        "nn.functional.cross_entropy",
        {"mse_loss", "mse_loss_backward", "smooth_l1_loss", "smooth_l1_loss_backward",
         "huber_loss", "huber_loss_backward", "soft_margin_loss", "soft_margin_loss_backward",
         "binary_cross_entropy", "binary_cross_entropy_backward",
         "binary_cross_entropy_with_logits", "nll_loss_forward", "nll_loss_backward",
         "nll_loss2d_forward", "nll_loss2d_backward"},
    ),
    "joining": (
        "cat stack block_diag repeat repeat_interleave roll flip rot90",
        {"cat", "stack", "block_diag", "repeat", "repeat_interleave.Tensor", "roll", "flip",
         "rot90"},
    ),
    "indexing": (
        "gather scatter scatter_add scatter_reduce.sum scatter_reduce.prod scatter_reduce.mean "
        "scatter_reduce.amax scatter_reduce.amin index_select index_add index_copy index_fill "
        "index_reduce.prod index_reduce.mean index_reduce.amax index_reduce.amin take put "
        "masked_select masked_scatter masked_fill index_put __getitem__ nn.functional.embedding "
        "select_scatter slice_scatter diagonal_scatter as_strided_scatter narrow_copy "
        "diagonal_copy unfold select diagonal",
        {"gather", "scatter.src", "scatter.value", "scatter_add", "scatter_reduce.two",
         "index_select", "index_add", "index_copy", "index_fill.int_Scalar",
         "index_fill.int_Tensor", "index_reduce", "take", "put", "masked_select",
         "masked_scatter", "masked_scatter_backward", "masked_fill.Scalar", "masked_fill.Tensor",
         "index_put", "embedding", "embedding_dense_backward", "select_backward",
         "slice_backward", "diagonal_backward", "unfold_backward", "select_scatter",
         "slice_scatter", "diagonal_scatter", "as_strided_scatter", "narrow_copy",
         "diagonal_copy"},
    ),
}  # fmt: skip
"""Family -> entries of PyTorch's sample collection, and the operators they are to reach."""
ALSO = {"upsample_nearest1d_backward", "upsample_nearest3d", "index_fill_.int_Scalar"}
SAMPLES = {torch.float64: 7, torch.float32: 1, torch.int64: 1}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", SAMPLES, ids=str)
def test_a_kernel_answers_as_pytorchs_does(family, dtype):
    entries, operators = FAMILIES[family]
    reached, wrong = set(), []
    for entry in entries.split():
        for call in calls_of(entry, dtype, limit=SAMPLES[dtype], names=operators | ALSO):
            reached.add(call.name)
            difference = replay(call)
            if difference != "":
                wrong.append(f"{call.name} of {entry}: {difference}")
    assert not wrong, "\n".join(wrong[:5])
    if dtype is torch.float64:
        assert reached >= operators


def test_schemas_are_pytorchs():
    unequal = []
    for operator in list(dispatcher().operators.values()):
        if not operator.has_schema or operator.schema.namespace != "aten":
            continue
        name = operator.schema.operator_name.removeprefix("aten::")
        base, _, overload = name.partition(".")
        try:
            theirs = str(getattr(getattr(torch.ops.aten, base), overload or "default")._schema)
        except AttributeError:
            unequal.append(f"PyTorch has no {name}")
            continue
        if str(operator.schema) != theirs:
            unequal.append(f"{operator.schema}\n  {theirs}")
    assert not unequal, "\n".join(unequal)
