"""The small steps of the checkpoint chapter: saved tensors in half the bytes, and segments."""

from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT


def _numbers(rng: Rng, size: int) -> tuple[torch.Tensor]:
    return (torch.randn(1 + size, 2, generator=rng.generator()),)


def _drive_half(answer: Any, x: torch.Tensor) -> dict[str, Any]:
    """What is kept for backward, what comes back, and the gradient."""
    pack, unpack = answer
    seen: dict[str, Any] = {"kept": [], "back": []}

    def packing(tensor: torch.Tensor) -> Any:
        seen["kept"].append(pack(tensor))
        return seen["kept"][-1]

    def unpacking(kept: Any) -> Any:
        seen["back"].append(unpack(kept))
        return seen["back"][-1]

    leaf = x.clone().requires_grad_()
    with saved_tensors_hooks(packing, unpacking):
        y = leaf.sin().exp()
    y.sum().backward()
    return {
        "dtypes kept": [one.dtype for one in seen["kept"]],
        "dtypes handed back": [one.dtype for one in seen["back"]],
        "gradient": leaf.grad,
    }


def _half(x: torch.Tensor) -> dict[str, Any]:
    back = x.to(torch.float16).to(torch.float32).cos()
    result = x.sin().exp().to(torch.float16).to(torch.float32)
    return {
        "dtypes kept": [torch.float16] * 2,
        "dtypes handed back": [torch.float32] * 2,
        "gradient": result * back,
    }


def _dtypes(which: str) -> Any:
    def differ(evidence: Evidence) -> bool:
        return bool(evidence.value[which] != evidence.right[which])

    return differ


pack_half = Exercise(
    id="checkpoint.pack_half",
    case=_numbers,
    expected=_half,
    drive=_drive_half,
    tolerance=1e-5,
    rung="warm-up",
    cases=20,
    minutes=3,
    hints=(
        Hint("What is kept should have the dtype torch.float16.", when=_dtypes("dtypes kept")),
        Hint(
            "unpack_half has to give back a torch.float32 tensor, as the operation saved it.",
            when=_dtypes("dtypes handed back"),
        ),
        "tensor.to(dtype) returns the numbers in another dtype.",
        "Both functions return a tensor.",
    ),
    must_fail=(
        "keeps the tensor as it is",
        "hands back half precision",
        "keeps half of the numbers",
    ),
)


def _fewest(n: int) -> int:
    return min((k + 2 * n // k, k) for k in range(1, n + 1) if n % k == 0)[1]


best_segments = Exercise(
    id="checkpoint.best_segments",
    case=lambda rng, size: (rng.choice((1, 2, 3, 7, 12, 18, 24, 30, 36, 48, 60, 64, 72, 97, 100)),),
    expected=_fewest,
    rung="warm-up",
    cases=40,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "That is how many tensors are alive. Return the number of segments.",
            when=lambda e: e.value == e.right + 2 * e.inputs[0] // e.right,
        ),
        Hint(
            "{got} does not divide the number of layers.",
            when=lambda e: isinstance(e.value, int) and e.inputs[0] % max(1, e.value) != 0,
        ),
        Hint(
            "k may be n itself, one layer in each segment: range(1, n + 1).",
            when=lambda e: e.right == e.inputs[0],
        ),
        Hint(
            "Two k are equal here. min(..., key=...) returns the first of equals.",
            when=lambda e: e.right * e.value == 2 * e.inputs[0],
        ),
        "First the list of all k from 1 to n with n % k == 0.",
        "Then the one with the smallest k + 2n/k: min(..., key=...).",
    ),
    must_fail=(
        "takes the root, whether or not it divides",
        "returns the number of tensors",
        "takes the larger of two equals",
        "forgets the factor 2",
        "leaves n itself out",
    ),
)
