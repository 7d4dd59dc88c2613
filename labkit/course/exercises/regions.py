"""A film whose frames hardly change: compute the parts that did, and equal the whole."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._region_steps import halo_of, largest_change, touched_blocks

NOTEBOOK = "5_optimization/6_algorithm"

# --- temporal_reuse

Film = tuple[list[Tensor], float, int, int]


def _a_film(rng: Rng, size: int, bytes_too: bool = True, sizes_too: bool = True,
            one_block: bool = False) -> Film:  # fmt: skip
    block = rng.randint(2, 4)
    shape = [rng.randint(1, 4 + size), rng.randint(1, 4 + size)]
    if one_block:
        block, shape = 9, [rng.randint(1, 9), rng.randint(1, 9)]
    dtype = rng.choice((torch.uint8, torch.uint8, torch.float64)) if bytes_too else torch.float64
    shares = size in (2, 5)  # from 0 to 1
    dtype = torch.float64 if shares else dtype
    frame = torch.randint(0, 256, shape, generator=rng.generator())
    film = [frame]
    for _ in range(3 + size):
        frame = frame.clone()
        if sizes_too and rng.chance(0.15):  # another camera
            shape = [rng.randint(1, 4 + size), rng.randint(1, 4 + size)]
            frame = torch.randint(0, 256, shape, generator=rng.generator())
        elif rng.chance(0.15):  # a cut
            frame = 255 - frame
        elif rng.chance(0.4):  # the light
            frame = (frame + rng.choice((-2, 2))).clamp(0, 255)
        else:  # something small
            frame[rng.randrange(shape[0]), rng.randrange(shape[1])] = rng.randint(0, 255)
        film.append(frame)
    above, scale = (rng.choice((0.125, 0.25)), 256) if shares else (rng.choice((0, 3, 5)), 1)
    return (
        [frame.to(dtype) / scale if shares else frame.to(dtype) for frame in film],
        above,
        block,
        rng.randint(1, 4),
    )


@handed_out
def _made(piece: Tensor) -> Tensor:
    return piece.double() * 2 + 1


def _drive_reuse(answer: Any, film: list[Tensor], above: float, size: int, most: int) -> Any:
    """The results, the pixels that were given to `enhance`, and what was changed."""
    given, taken, changed = 0, 0, False

    def camera() -> Any:
        nonlocal changed, taken
        buffer = film[0].clone()
        for frame in film:
            buffer = buffer.copy_(frame) if buffer.shape == frame.shape else frame.clone()
            taken += 1
            yield buffer
            changed = changed or not torch.equal(buffer, frame)

    def enhance(piece: Tensor) -> Tensor:
        nonlocal given
        given += piece.numel()
        return _made(piece)

    results, yielded, ahead = [], [], False
    for number, result in enumerate(answer(camera(), enhance, above, size, most), 1):
        results.append(result)
        yielded.append(result.clone() if isinstance(result, Tensor) else result)
        ahead = ahead or taken > number
    later = any(isinstance(now, Tensor) and not torch.equal(now, then)
                for now, then in zip(results, yielded, strict=True))  # fmt: skip
    return {"results": results, "pixels enhanced": given, "a frame was changed": changed,
            "a result changed later": later, "frames were taken ahead": ahead}  # fmt: skip


def _reused(film: list[Tensor], above: float, size: int, most: int) -> Any:
    results, given = list[Tensor](), 0
    seen, ages = film[0][:0], dict[tuple[int, int], int]()
    for frame in film:
        anew = seen.shape != frame.shape
        if anew:
            seen, ages = frame.clone(), {}
        result = _made(frame) if anew else results[-1].clone()
        for top in range(0, frame.shape[0], size):
            for left in range(0, frame.shape[1], size):
                place = slice(top, top + size), slice(left, left + size)
                moved = (frame[place].double() - seen[place].double()).abs().max() > above
                age = ages.get((top, left), 0) + 1
                if anew or moved or age > most:
                    result[place], seen[place], age = _made(frame[place]), frame[place], 0
                    given += frame[place].numel()
                ages[top, left] = age
        results.append(result)
    return {"results": results, "pixels enhanced": given, "a frame was changed": False,
            "a result changed later": False, "frames were taken ahead": False}  # fmt: skip


def _first_wrong(case: Case, got: Any, right: Any) -> Any:
    from labkit import show

    if not isinstance(got, dict) or len(got["results"]) != len(right["results"]):
        return None
    for at, (mine, true) in enumerate(zip(got["results"], right["results"], strict=True)):
        if mine.shape != true.shape or not torch.equal(mine, true):
            pictures = {"frame": case.inputs[0][at], "your_result": mine, "right": true}
            return show.pictures(**{f"{name}_{at}": each for name, each in pictures.items()})
    return None


def _at_the_limit(e: Any) -> bool:
    """Whether some pixel of the film changed by just `above`, and more than needed was computed."""
    film, above, *_ = e.inputs
    pairs = [(a, b) for a, b in pairwise(film) if a.shape == b.shape]
    meets = any(bool(((b.double() - a.double()).abs() == above).any()) for a, b in pairs)
    return meets and e.value["pixels enhanced"] > e.right["pixels enhanced"]


temporal_reuse = Exercise(
    id="regions.temporal_reuse",
    case=_a_film,
    expected=_reused,
    drive=_drive_reuse,
    picture=_first_wrong,
    show=lambda film, above, size, most: (
        f"{len(film)} frames, {str(film[0].dtype)[6:]}, {tuple(film[0].shape)} first; "
        f"above {above}, size {size}, most {most}"),
    minutes=15,
    cases=50,
    stages=(
        Stage("one block", case=lambda rng, size: _a_film(rng, size, False, False, True), cases=20),
        Stage("blocks", case=lambda rng, size: _a_film(rng, size, False, False), cases=20),
        Stage("bytes", case=lambda rng, size: _a_film(rng, size, True, False), cases=30),
        Stage("other sizes"),
    ),
    rules=("torch may be used, labkit not",),
    banned=("labkit.*",),
    hints=(
        Hint("You wrote into a frame. It is the camera's.",
             when=lambda e: e.value["a frame was changed"]),
        Hint("A film is longer than the memory: yield each result before you take the next frame.",
             when=lambda e: e.value["frames were taken ahead"]),
        Hint("Between 0.0 and 1.0 there are other numbers: as int16 they are all 0.",
             when=lambda e: not float(e.inputs[1]).is_integer()),
        Hint("In bytes 10 - 200 is 66: make them wider before you subtract.", stage="bytes",
             when=lambda e: e.inputs[0][0].dtype == torch.uint8),
        Hint("Nothing ever changes for you. The camera writes each frame into the same tensor: "
             "keep a clone().",
             when=lambda e: e.value["pixels enhanced"] == e.inputs[0][0].numel()
             < e.right["pixels enhanced"]),
        Hint("Results that were right changed later: yield a clone(), and write into another one.",
             when=lambda e: e.value["a result changed later"]),
        Hint("`enhance` gives float64, and a result of yours is of another type.",
             when=lambda e: any(one.dtype != torch.float64 for one in e.value["results"])),
        Hint("A difference of just `above` is not more than `above`.", when=_at_the_limit),
        Hint("You computed more than needed. Look at each block alone.", stage="blocks",
             when=lambda e: e.value["pixels enhanced"] > e.right["pixels enhanced"]),
        Hint("A result was kept too long. Which frame do you compare with, and how often was the "
             "block reused already?",
             when=lambda e: e.value["pixels enhanced"] < e.right["pixels enhanced"]),
        Hint("Where the shape differs from what you remember, begin anew.", stage="other sizes"),
        "Keep what each block was computed from (a clone), its result, and a count.",
        "For each block: compute it when the largest difference is above, or its count is `most`; "
        "then its count is 0 again. Otherwise the count grows by one.",
    ),
    must_fail=(
        "global mean",
        "keeps a reference to a reused buffer",
        "wraps in uint8",
        "whole numbers only",
        "the whole film at once",
        "unlimited reuse",
        "compares with the frame before",
        "one changed block, all computed",
        "yields the same tensor again and again",
        "returns the right value but changes one of its inputs",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "returns NaN or an uninitialised buffer where a value is expected",
        "keeps the size of the first frame",
    ),
)  # fmt: skip

# --- roi_with_halo

Layers = list[tuple[int, Tensor]]


def _a_region(rng: Rng, size: int, strides: bool = True, borders: bool = True,
              many: bool = True) -> tuple[Any, ...]:  # fmt: skip
    layers: Layers = []
    for _ in range(rng.randint(1, 3)):
        kernel = rng.choice((1, 3, 3, 5))
        weight = torch.randint(1, 4, (1, 1, kernel, kernel), generator=rng.generator()).double()
        layers.append((rng.choice((1, 2)) if strides else 1, weight))
    least = 1 if borders else 24
    shape = 1, 1, least + rng.randint(0, 8 + 2 * size), least + rng.randint(0, 8 + 2 * size)
    image = torch.randint(-3, 4, shape, generator=rng.generator()).double()
    whole = _trunk(layers, image)
    margin = 0 if borders else min(8, (min(whole.shape[2:]) - 1) // 2)
    boxes = [_a_box(rng, whole, margin) for _ in range(rng.randint(0, 3) if many else 1)]
    return layers, image, boxes, torch.full_like(whole, -1.0)


def _a_box(rng: Rng, whole: Tensor, margin: int) -> tuple[int, int, int, int]:
    height, width = whole.shape[2:]
    top, left = rng.randint(margin, height - margin - 1), rng.randint(margin, width - margin - 1)
    return top, left, rng.randint(top + 1, height - margin), rng.randint(left + 1, width - margin)


@handed_out
def _trunk(layers: Layers, image: Tensor) -> Tensor:
    for stride, weight in layers:
        # the bias makes a result beside a border differ from a border of zeros
        image = F.conv2d(image, weight, weight.new_ones(1), stride, weight.shape[-1] // 2)
    return image


@handed_out
def _reach(layers: Layers) -> tuple[int, int]:
    """(halo, stride) of all layers together, in pixels of the image."""
    halo, stride = 0, 1
    for step, weight in layers:
        halo += weight.shape[-1] // 2 * stride
        stride *= step
    return halo, stride


def _drive_region(
    answer: Any, layers: Layers, image: Tensor, boxes: Any, background: Tensor
) -> Any:
    given = 0

    def trunk(piece: Tensor) -> Tensor:
        nonlocal given
        given += piece.shape[-2] * piece.shape[-1]
        return _trunk(layers, piece)

    result = answer(trunk, *_reach(layers), image, boxes, background)
    return {"result": result, "pixels given to the trunk": given}


def _pasted(layers: Layers, image: Tensor, boxes: Any, background: Tensor) -> Tensor:
    result, whole = background.clone(), _trunk(layers, image)
    for top, left, bottom, right in boxes:
        result[..., top:bottom, left:right] = whole[..., top:bottom, left:right]
    return result


def _judge_region(case: Case, got: Any) -> Any:
    if isinstance(got, Raised) or not isinstance(got["result"], Tensor):
        return "roi_with_halo returns a tensor like background"
    layers, image, boxes, _ = case.inputs
    right, result = _pasted(*case.inputs), got["result"]
    if result.shape != right.shape or result.dtype != right.dtype:
        return Wrong("shape and dtype are background's", (tuple(right.shape), right.dtype))
    if not torch.equal(result, right):
        wrong = (result != right)[0, 0].nonzero().tolist()
        return Wrong(f"every number is right; wrong at {wrong[:6]}")
    halo, stride = _reach(layers)
    least = 0
    for box in boxes:
        sides = [
            min(image.shape[2 + way], (box[way + 2] - 1) * stride + halo + 1)
            - max(0, (box[way] * stride - halo) // stride * stride)
            for way in (0, 1)
        ]
        least += sides[0] * sides[1]
    if got["pixels given to the trunk"] > least:
        return Wrong("the trunk gets no more pixels than it needs", least)
    return None


def _off_by(case: Case, got: Any, right: Any) -> Any:
    from labkit import show

    right = _pasted(*case.inputs)
    if not isinstance(got, dict) or got["result"].shape != right.shape:
        return None
    return show.pictures(yours=got["result"][0, 0], off_by=(got["result"] - right).abs()[0, 0])


roi_with_halo = Exercise(
    id="regions.roi_with_halo",
    case=_a_region,
    judge=_judge_region,
    drive=_drive_region,
    picture=_off_by,
    show=lambda layers, image, boxes, background: (
        f"image {tuple(image.shape)}, result {tuple(background.shape)}, (halo, stride) "
        f"{_reach(layers)}, boxes {boxes}"),
    rung="boss",
    minutes=30,
    cases=80,
    stages=(
        Stage("inside", case=lambda rng, size: _a_region(rng, size, False, False, False)),
        Stage("borders", case=lambda rng, size: _a_region(rng, size, False, True, False)),
        Stage("many boxes", case=lambda rng, size: _a_region(rng, size, False)),
        Stage("strides"),
    ),
    rules=("torch may be used, labkit not",),
    banned=("labkit.*",),
    hints=(
        Hint("Only a rim of each box is wrong: its pixels read neighbours that were cut off.",
             when=lambda e: "wrong at" in e.property, stage="inside"),
        Hint("At the border of the image the halo ends: a slice must not begin before 0, and zeros "
             "of your own are something else than the padding of each layer.", stage="borders"),
        Hint("Is the whole image given to the trunk, or more than the halo?",
             when=lambda e: "no more pixels" in e.property),
        Hint("Set the numbers of each box in a clone of the background; do not add them.",
             stage="many boxes"),
        Hint("Result pixel o stands at image pixel o * stride. Begin the piece at a multiple of "
             "stride, or every number is another one.", stage="strides"),
        "The piece begins at top * stride - halo, or 0; it ends behind "
        "(bottom - 1) * stride + halo.",
        "first = max(0, (top * stride - halo) // stride); the piece begins at first * stride, and "
        "its results begin at result row first.",
    ),
    must_fail=(
        "no halo",
        "halo without stride alignment",
        "padding at the crop edge",
        "overlapping boxes summed",
        "the whole image",
        "writes into the background",
        "is right only for square, even or contiguous shapes",
    ),
)  # fmt: skip

EXERCISES = (largest_change, halo_of, touched_blocks, temporal_reuse, roi_with_halo)
