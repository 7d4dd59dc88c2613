"""An inverted bottleneck, written with torch: its weights are given, its norms are called."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._graph_steps import drawn

F64 = torch.float64


class CopiesSeen(TorchDispatchMode):  # type: ignore[misc]
    """Inside, every operator is noted that writes a whole tensor again, in any layout."""

    COPIES = ("aten::clone", "aten::_to_copy", "aten::copy_")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op._schema.name in self.COPIES:
            self.seen.append(op._schema.name)
        return op(*args, **(kwargs or {}))


class OneThread:
    """Inside, torch computes by one thread: with images this small, more wait for each other."""

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.before)


def same(a: Any, b: Any) -> bool:
    """Tensors, or lists of them, that agree up to rounding."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return (
        isinstance(a, torch.Tensor)
        and a.shape == b.shape
        and torch.allclose(a, b, rtol=1e-6, atol=1e-8)
    )


def _bottleneck(
    rng: Rng, size: int, ratio: int = 0, same: float = 0.7, keep: float = 0.6
) -> tuple[Any, ...]:
    """Seed, channels, out, ratio, taps, stride, height, width, whether branches are dropped.

    A block that steps may still hand on the shape it was given: an image of one place.
    """
    channels = 1 + rng.randint(0, 2 + size // 2)
    out = channels if rng.chance(same) else channels + 1
    stride = rng.choice((1, 2))
    largest = 0 if stride == 2 and rng.chance(0.5) else size
    return (
        rng.getrandbits(40), channels, out, ratio or rng.choice((1, 2, 3)), rng.choice((3, 5)),
        stride, 1 + rng.randint(0, largest), 1 + rng.randint(0, largest), rng.chance(keep),
    )  # fmt: skip


@handed_out
def _given(
    seed: int, channels: int, out: int, ratio: int, taps: int, stride: int, height: int,
    width: int, keep: bool,
) -> tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor], Any]:  # fmt: skip
    """x, the weights, the norms' numbers, keep."""
    draw = torch.Generator().manual_seed(seed)
    wide, reduced = channels * ratio, max(1, channels // 4)
    shapes = {"expand": (wide, channels, 1, 1)} if ratio > 1 else {}
    shapes |= {"depthwise": (wide, 1, taps, taps), "squeeze": (reduced, wide, 1, 1)}
    shapes |= {"excite": (wide, reduced, 1, 1), "project": (out, wide, 1, 1)}
    weights = {n: torch.randn(shape, generator=draw, dtype=F64) for n, shape in shapes.items()}
    norms: dict[str, torch.Tensor] = {
        name: torch.randn((2, weights[name].shape[0], 1, 1), generator=draw, dtype=F64)
        for name in ("expand", "depthwise", "project")
        if name in weights
    }
    x = torch.randn((3, channels, height, width), generator=draw, dtype=F64)
    kept = torch.rand(3, generator=draw, dtype=F64) < 0.6
    return x, weights, norms, kept.to(F64) / 0.6 if keep else None


def _bottleneck_truth(*question: Any) -> dict[str, Any]:
    x, w, norms, keep = _given(*question)
    stride = question[5]
    seen: dict[str, Any] = {}

    def norm(name: str, image: torch.Tensor) -> torch.Tensor:
        seen[name] = image
        scale, shift = norms[name]
        return image * scale + shift

    with OneThread():
        wide = F.silu(norm("expand", F.conv2d(x, w["expand"]))) if "expand" in w else x
        half, channels = w["depthwise"].shape[2] // 2, wide.shape[1]
        made = F.conv2d(wide, w["depthwise"], None, stride, half, 1, channels)
        looked = F.silu(norm("depthwise", made))
        few = F.silu(F.conv2d(looked.mean((2, 3), keepdim=True), w["squeeze"]))
        gated = looked * torch.sigmoid(F.conv2d(few, w["excite"]))
        y = norm("project", F.conv2d(gated, w["project"]))
    if stride == 1 and y.shape == x.shape:
        y = x + (y if keep is None else y * keep[:, None, None, None])
    return {"norms": seen, "result": y, "changed": [], "copies": []}


def _drive_bottleneck(answer: Any, *question: Any) -> Any:
    x, w, norms, keep = _given(*question)
    given = {"x": x, **w} | ({} if keep is None else {"keep": keep})
    was = {name: one.clone() for name, one in given.items()}
    seen: dict[str, Any] = {}

    def norm(name: str, image: torch.Tensor) -> torch.Tensor:
        if name not in norms:
            raise ValueError(f"there is no norm behind {name!r}; there are {sorted(norms)}")
        seen[name] = image
        scale, shift = norms[name]
        return image * scale + shift

    with OneThread(), CopiesSeen() as copies:
        y = answer(x, dict(w), norm, question[5], keep)
    changed = [name for name, one in given.items() if not torch.equal(one, was[name])]
    return {"norms": seen, "result": y, "changed": changed, "copies": copies.seen}


def _wrong_norm(name: str) -> Callable[[Any], bool]:
    """Whether the first difference is in what this norm was given, or not given."""

    def wrong(e: Any) -> bool:
        before = [n for n in ("expand", "depthwise", "project") if n in e.right["norms"]]
        given = e.value["norms"]
        bad = [n for n in before if not same(given.get(n), e.right["norms"][n])]
        return bool(bad) and bad[0] == name

    return wrong


def _bottleneck_picture(case: Any, got: Any, right: Any) -> Any:
    """The block's steps; marked is the first norm that was given something wrong, or the end."""
    steps = ["expand", "depthwise", "gate", "project", "result"]
    steps = steps if "expand" in right["norms"] else steps[1:]
    reads: dict[str, list[str]] = {"x": []}
    for before, step in zip(["x", *steps], steps, strict=False):
        reads[step] = [before]
    reads["project"].append("depthwise")  # the gate multiplies it
    norms = got["norms"] if isinstance(got, dict) else {}
    wrong = [n for n in steps if n in right["norms"] and not same(norms.get(n), right["norms"][n])]
    return drawn(reads, wrong[:1] or ["result"])


def _keep_meets_width(e: Any) -> bool:
    """Whether the factors were laid along the width: a shape that no image has, or an error."""
    if not e.inputs[8]:
        return False
    if e.kind == "raised":
        return "must match the size of tensor" in e.got
    return not _norms_differ(e) and not _fits(e)


def _norms_differ(e: Any) -> bool:
    return any(not same(e.value["norms"].get(n), one) for n, one in e.right["norms"].items())


def _kept_without_sum(e: Any) -> bool:
    channels, out, stride = e.inputs[1], e.inputs[2], e.inputs[5]
    return e.inputs[8] and (stride != 1 or channels != out) and _fits(e) and not _norms_differ(e)


def _fits(e: Any) -> bool:
    return bool(e.value["result"].shape == e.right["result"].shape)


def _added_across_a_stride(e: Any) -> bool:
    x, _, _, keep = _given(*e.inputs)
    branch = e.right["result"]
    kept = branch if keep is None else branch * keep[:, None, None, None]
    return e.inputs[5] != 1 and any(same(e.value["result"], x + one) for one in (branch, kept))


def _not_added(e: Any) -> bool:
    return _sums(e) and same(e.value["result"], e.right["result"] - _given(*e.inputs)[0])


def _silu_last(e: Any) -> bool:
    x, _, _, keep = _given(*e.inputs)
    around = x if _sums(e) else torch.zeros_like(e.right["result"])
    return keep is None and same(e.value["result"], around + F.silu(e.right["result"] - around))


def _x_dropped(e: Any) -> bool:
    x, _, _, keep = _given(*e.inputs)
    dropped = x * (keep[:, None, None, None] - 1)
    return _sums(e) and same(e.value["result"], e.right["result"] + dropped)


def _sums(e: Any) -> bool:
    """Whether the input is added."""
    _, channels, out, _, _, stride, *_ = e.inputs
    return bool(stride == 1 and channels == out)


def _bottleneck_in_words(
    seed: int, channels: int, out: int, ratio: int, taps: int, stride: int, height: int,
    width: int, keep: bool,
) -> str:  # fmt: skip
    kept = "keep: three factors" if keep else "keep: None"
    return (
        f"x [3, {channels}, {height}, {width}] to {out} channels, ratio {ratio}, depthwise "
        f"{taps} x {taps}, stride {stride}, {kept} (seed {seed})"
    )


mbconv = Exercise(
    id="inverted_bottleneck.mbconv",
    show=_bottleneck_in_words,
    case=_bottleneck,
    expected=_bottleneck_truth,
    drive=_drive_bottleneck,
    tolerance=1e-8,
    stages=(
        Stage("ratio 1", case=lambda rng, size: _bottleneck(rng, size, 1, 0, 0), cases=8),
        Stage("expand", case=lambda rng, size: _bottleneck(rng, size, 3, 0, 0), cases=8),
        Stage("sum", case=lambda rng, size: _bottleneck(rng, size, 0, 0.8, 0), cases=15),
        Stage("keep"),
    ),
    cases=40,
    sizes=5,
    minutes=15,
    hints=(
        Hint("You changed what you were given: x, a weight or keep, as `changed` says. Make a new "
             "tensor instead.", when=lambda e: bool(e.value["changed"])),
        Hint("You copied a tensor, as `copies` says. `contiguous`, `clone` and `to` write it once "
             "more in each call; a layout belongs to the whole network, and is chosen once.",
             when=lambda e: bool(e.value["copies"])),
        Hint("What the norm of \"expand\" was given is not right: it is the convolution of x "
             "alone.", when=_wrong_norm("expand")),
        Hint("What the norm of \"depthwise\" was given is not right. It is a convolution with "
             "groups, with the block's stride, and k // 2 zeros at each side.",
             when=_wrong_norm("depthwise")),
        Hint("groups is the number of channels of the image that goes into \"depthwise\".",
             when=lambda e: e.kind == "raised" and "groups=" in e.got),
        Hint("What the norm of \"project\" was given is not right. The gate multiplies the image "
             "behind \"depthwise\", after its SiLU, and reads its means, entry by entry: squeeze, "
             "SiLU, excite, sigmoid.", when=_wrong_norm("project")),
        Hint("A k x k kernel is larger than this image and your zeros: k // 2 belong at each side.",
             when=lambda e: e.kind == "raised" and "Kernel size can't be greater" in e.got),
        Hint("Two images of different shapes cannot be added: there the input is left out.",
             when=lambda e: (
                 e.kind == "raised" and not e.inputs[8] and "must match the size" in e.got)),
        Hint("keep has one factor for each entry of the batch, and multiplies its whole image: "
             "keep.reshape(-1, 1, 1, 1).", when=_keep_meets_width, stage="keep"),
        Hint("The input is not added here, so keep does nothing.", when=_kept_without_sum,
             stage="keep"),
        Hint("x is not added here: the stride is 2, although the shapes are equal.",
             when=_added_across_a_stride),
        Hint("x is added here, and is missing: the stride is 1, and the shapes are equal.",
             when=_not_added),
        Hint("Behind the last norm there is no SiLU.", when=_silu_last),
        Hint("keep multiplies the branch alone; x is added afterwards.", when=_x_dropped,
             stage="keep"),
        Hint("All norms were given the right images, but the end is not right: x, and what the "
             "last norm gave, multiplied by keep where there is one.", when=_fits),
        "In order: expand, norm, SiLU, depthwise, norm, SiLU, times the gate, project, norm, sum.",
    ),
    must_fail=(
        "skip although stride is 2", "drop scales in evaluation", "always adds no input",
        "SiLU behind the last norm", "the gate reads the input of depthwise", "ReLU in the gate",
        "a padding of 1 for every kernel", "leaves out a norm", "drops the whole sum",
        "mutates the input", "mutates a weight", "mutates keep", "lays keep along the width",
        "multiplies by keep without a sum", "adds images of different shapes",
        "takes the means over the batch", "converts the layout per call", "copies the input",
    ),
    picture=_bottleneck_picture,
)  # fmt: skip
