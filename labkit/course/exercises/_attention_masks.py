"""Attention masks in three forms, judged by the attention calls that read them."""

import math
from typing import Any

import torch
from torch.nn import functional

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._never_right import FIRST

FORMS = ("blocks", "allows", "adds")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def _in_form(blocked: torch.Tensor, form: str, dtype: torch.dtype) -> torch.Tensor:
    if form == "adds":
        return torch.zeros(blocked.shape, dtype=dtype).masked_fill_(blocked, -math.inf)
    return blocked.clone() if form == "blocks" else ~blocked


def _blocked(mask: torch.Tensor, form: str) -> torch.Tensor:
    return mask if form == "blocks" else ~mask if form == "allows" else mask < 0


def _mask_case(rng: Rng, size: int) -> tuple[Any, ...]:
    batch = (rng.randint(1, 3),) if rng.chance(0.6) else ()
    queries, keys = rng.randint(1, 2 + size // 2), rng.randint(1, 2 + size // 2)
    if rng.chance(0.05):
        queries, keys = rng.choice(((0, keys), (queries, 0)))
    blocked = torch.rand((*batch, queries, keys), generator=rng.generator()) < rng.random()
    if rng.chance(0.3):
        blocked |= torch.ones(queries, keys, dtype=torch.bool).triu(1)
    if queries and rng.chance(0.4):
        blocked[..., rng.randint(0, queries - 1), :] = True
    form, wanted = rng.choice(FORMS), rng.choice(FORMS)
    mask = _in_form(blocked, form, rng.choice(FLOATS))
    if rng.chance(0.3):  # the same numbers, walked the other way round
        mask = mask.transpose(-1, -2).contiguous().transpose(-1, -2)
    return mask, form, wanted, rng.choice(FLOATS)


def _attention(mask: torch.Tensor, form: str) -> torch.Tensor:
    """The real call that reads masks of this form, in float64: [batch, query, 2]."""
    batch = mask.shape[0] if mask.dim() == 3 else 1
    noise = torch.Generator().manual_seed(5)
    shape = (batch, max(mask.shape[-2:]), 2)
    query, key = (torch.randn(shape, generator=noise, dtype=torch.float64) for _ in range(2))
    query, key = query[:, : mask.shape[-2]], key[:, : mask.shape[-1]]
    given = mask.double() if mask.is_floating_point() else mask
    if form != "blocks":
        return functional.scaled_dot_product_attention(query, key, key, attn_mask=given)
    one = torch.eye(2, dtype=torch.float64)
    result, _ = functional.multi_head_attention_forward(
        query.transpose(0, 1), key.transpose(0, 1), key.transpose(0, 1), 2, 1,
        one.repeat(3, 1), None, None, None, False, 0.0, one, None,
        need_weights=False, attn_mask=given,
    )  # fmt: skip
    return result.transpose(0, 1)


def _judge_mask(case: Case, got: Any) -> str | Wrong | None:
    mask, form, wanted, dtype = case.inputs
    blocked = _blocked(mask, form)
    full = blocked.all(-1)
    rows = full.nonzero().tolist()
    right = _in_form(blocked, wanted, dtype)
    both = right, rows
    if isinstance(got, Raised):
        return Wrong("the function answers for every mask", both)
    if not isinstance(got, tuple | list) or len(got) != 2 or not isinstance(got[0], torch.Tensor):
        return Wrong("the answer is a pair (mask, rows)", both)
    converted, reported = got
    if converted.layout != torch.strided or converted.device.type != "cpu":
        return Wrong("the mask is a dense tensor on the CPU", both)
    if converted.dtype != right.dtype:
        return Wrong(f"a mask that {wanted} has dtype {right.dtype}", both)
    if converted.shape != right.shape:
        return Wrong(f"the mask keeps its shape {tuple(right.shape)}", both)
    if wanted == "adds" and bool(converted.isnan().any()):
        return Wrong("-inf where blocked, 0 elsewhere, and never NaN", both)
    if mask.numel():
        some = ~full.expand(_batch(mask), -1)
        seen = _attention(converted, wanted)[some]
        meant = _attention(blocked, "blocks")[some]
        if not torch.allclose(seen, meant, rtol=1e-9, atol=1e-12):
            return Wrong("the attention call that reads this form gives the same output", both)
    if not torch.equal(converted, right):
        meaning = "True means what this form says"
        return Wrong("-inf where blocked, 0 elsewhere" if wanted == "adds" else meaning, both)
    if not isinstance(reported, tuple | list) or [list(_row(row)) for row in reported] != rows:
        return Wrong("the fully blocked rows are reported, in order", both)
    return None


def _batch(mask: torch.Tensor) -> int:
    return mask.shape[0] if mask.dim() == 3 else 1


def _row(row: Any) -> tuple[Any, ...]:
    """A row's index; anything that is no sequence of ints matches no row."""
    plain = isinstance(row, tuple | list) and all(type(place) is int for place in row)
    return tuple(row) if plain else (None,)


def _shown_mask(mask: torch.Tensor, form: str, wanted: str, dtype: torch.dtype) -> str:
    return f"mask {mask.tolist()} ({mask.dtype}) that {form}, wanted: one that {wanted}, {dtype}"


def _smaller_mask(mask: torch.Tensor, form: str, wanted: str, dtype: torch.dtype) -> Any:
    for dim in range(mask.dim()):
        if mask.shape[dim] > 1:
            yield mask.narrow(dim, 0, mask.shape[dim] - 1).clone(), form, wanted, dtype
    if mask.dim() == 3 and mask.shape[0] == 1:
        yield mask[0].clone(), form, wanted, dtype


def _property(evidence: Any, text: str) -> bool:
    return text in evidence.property


causal_mask_adapter = Exercise(
    id="indexing.causal_mask_adapter",
    case=_mask_case,
    judge=_judge_mask,
    smaller=_smaller_mask,
    show=_shown_mask,
    cases=150,
    sizes=8,
    minutes=7,
    stages=(
        Stage("bool to bool", only=lambda mask, form, wanted, dtype: "adds" not in (form, wanted)),
        Stage("floats, batches, dtypes"),
    ),
    hints=(
        Hint(
            "One of the two outputs changed: {input}. Is the True of the one form the True of the "
            "other?",
            when=lambda evidence: (
                _property(evidence, "same output") or _property(evidence, "True means")
            ),
        ),
        Hint(
            "A row is fully blocked when no key of it takes part. Its softmax is 0/0, so it must "
            "be reported: with its batch, if there is one, and also when it has no key at all.",
            when=lambda evidence: _property(evidence, "reported"),
        ),
        Hint(
            "An additive mask has the dtype asked for, and exactly two values: 0 and -inf. Mind "
            "that 0 * -inf is NaN, and that the lowest finite number of one dtype is no number "
            "of another.",
            when=lambda evidence: (
                _property(evidence, "dtype")
                or _property(evidence, "-inf")
                or (evidence.kind == "raised" and evidence.inputs[2] == "adds")
            ),
        ),
        "Write down what True means in each call.",
        "-inf where blocked, 0 elsewhere, and all-blocked rows make 0/0. Go through one tensor, "
        "blocked, and make every form from it.",
    ),
    must_fail=(
        "inverts for both",
        "adds 1 instead of minus infinity",
        "returns NaN rows silently",
        "float mask in the wrong dtype",
        "ignores the batch axis",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        FIRST,
        "returns NaN or an uninitialised buffer where a value is expected",
    ),
)
