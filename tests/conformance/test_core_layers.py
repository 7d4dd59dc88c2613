"""The comparisons of views, indexing and promotion: they pass, and they can fail."""

import textwrap

import pytest
import torch

import labkit
from labkit.conformance import indexing, report, sides, views
from labkit.core import promotion as promotion_rules
from labkit.core import strides as stride_rules
from labkit.ops.indexing import advanced_indexing
from labkit.ops.shape import view
from tests.seeds import seeds

SMALL = {"views": {"chains": "1200"}, "indexing": {"expressions": "1200"},
         "promotion": {"lists": "400"}}  # fmt: skip


def differences(layer, seed):
    comparisons = list(report.run(layer, seed, "small", **SMALL[layer]))
    assert all(each.compared for each in comparisons)
    return [each for each in comparisons if not each.passed]


@pytest.mark.parametrize("seed", seeds(0, 20_260_727))
@pytest.mark.parametrize("layer", SMALL)
def test_everything_is_equal(layer, seed):
    assert differences(layer, seed) == []


def test_the_full_corpora_have_the_promised_size():
    assert views.CHAINS["full"] >= 300_000
    assert indexing.EXPRESSIONS["full"] >= 100_000


def keep_stride_in_expand(sizes, strides, target):
    new_sizes, new_strides = EXPAND(sizes, strides, target)
    return new_sizes, tuple([stride or 1 for stride in new_strides])


EXPAND = stride_rules.expand_strides


@pytest.mark.parametrize(
    ("layer", "module", "name", "broken"),
    [
        ("views", stride_rules, "expand_strides", keep_stride_in_expand),
        ("views", view, "maybe_wrap_dim", lambda dim, ndim: abs(dim) % max(ndim, 1)),
        ("views", stride_rules, "infer_dense_strides", lambda sizes, strides: strides),
        ("indexing", advanced_indexing, "iteration_order", lambda shape, _: [*range(len(shape))]),
        ("indexing", advanced_indexing, "_wrapped", lambda index, size: 0),
        ("promotion", promotion_rules, "_combine", lambda a, b: a or b),
        ("promotion", promotion_rules, "can_cast", lambda a, b: True),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found_and_shown(monkeypatch, layer, module, name, broken):
    monkeypatch.setattr(module, name, broken)
    found = differences(layer, 1)
    assert found
    assert "torch" in found[0].first_difference
    assert "labkit" in found[0].first_difference


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("layer", "module", "name", "broken"),
    [
        ("views", stride_rules, "expand_strides", keep_stride_in_expand),
        ("indexing", advanced_indexing, "output_strides", lambda shape, _: (1,) * len(shape)),
    ],
)
def test_the_printed_program_repeats_the_difference(monkeypatch, layer, module, name, broken):
    monkeypatch.setattr(module, name, broken)
    found = differences(layer, 3)[0].first_difference
    program = textwrap.dedent(found[: found.index("\n  strides:")])
    strides = []
    for m in (torch, labkit):
        names = {"m": m}
        exec(program, names)
        strides.append(names["y"].stride())
    assert f"  strides: torch {strides[0]}, labkit {strides[1]}" in found
    assert strides[0] != strides[1]


@pytest.mark.parametrize("elements", [0, 4096, 6720])
def test_both_sides_have_all_the_elements(elements):
    """What is written into a tensor without elements may itself have more than 4,096."""
    theirs, ours = sides.pair(elements, labkit.uint16)
    assert len(theirs) == len(ours) == elements
    assert ours.storage().nbytes == 2 * elements
    assert ours.tolist() == theirs.tolist()
