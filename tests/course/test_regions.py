"""Right and wrong answers to the exercises on parts of a frame."""

import torch

from labkit.course.checks import outcomes
from tests.course.answers import Answers, first_hint

answers = Answers("regions")

# --- warm-ups

answers.right("largest_change")(lambda old, new: int((new.int() - old.int()).abs().max()))
for why, wrong in {
    "wraps in uint8": lambda old, new: int((new - old).abs().max()),
    "brighter pixels only": lambda old, new: max(0, int((new.int() - old.int()).max())),
    "the mean": lambda old, new: int((new.int() - old.int()).abs().float().mean()),
    "int16 for int16": lambda old, new: int((new.short() - old.short()).abs().max()),
    "contiguous frames only": lambda old, new: int((new.view(-1).int() - old.view(-1)).abs().max()),
    "gives a tensor": lambda old, new: (new.int() - old.int()).abs().float().max(),
}.items():
    answers.wrong("largest_change", why)(wrong)

answers.right("halo_of")(lambda layers: sum(k // 2 * d for k, d in layers))
for why, wrong in {
    "the widest layer alone": lambda layers: max((k // 2 * d for k, d in layers), default=0),
    "both sides": lambda layers: 2 * sum(k // 2 * d for k, d in layers),
    "forgets the gaps": lambda layers: sum(k // 2 for k, _ in layers),
    "kernels added": lambda layers: sum(k * d for k, d in layers),
}.items():
    answers.wrong("halo_of", why)(wrong)


def touched(at, size, halo, count, more=0):
    first, last = (at - halo - more) // size, (at + halo + more) // size
    return list(range(max(0, first), min(count - 1, last) + 1))


answers.right("touched_blocks")(touched)
for why, wrong in {
    "its own block only": lambda at, size, halo, count: [at // size],
    "one pixel too far": lambda *case: touched(*case, more=1),
    "beyond the frame": lambda at, size, halo, count: list(
        range((at - halo) // size, (at + halo) // size + 1)
    ),
    "both neighbours always": lambda at, size, halo, count: [
        n for n in range(count) if abs(n - at // size) <= 1
    ],
}.items():
    answers.wrong("touched_blocks", why)(wrong)

# --- temporal_reuse


def biggest(old, new):
    return (new.double() - old.double()).abs().max()


def reused(frames, enhance, above, size, most, change=biggest, keep=torch.clone, give=torch.clone,
           again=None, fill=torch.empty, dtype=torch.float64, before=False):  # fmt: skip
    """Each switch breaks one thing."""
    seen = None
    for frame in frames:
        if seen is None or seen.shape != frame.shape:
            seen, result = keep(frame), enhance(frame).to(dtype)
            counts = fill(frame.shape).zero_() if fill is torch.empty else fill(frame.shape)
        else:
            places = [
                (slice(top, top + size), slice(left, left + size))
                for top in range(0, frame.shape[0], size)
                for left in range(0, frame.shape[1], size)
            ]
            moved = [change(seen[p], frame[p]) > above for p in places]
            if again:
                moved = [again(seen, frame, above)] * len(places)
            for place, moves in zip(places, moved, strict=True):
                if moves or counts[place].flatten()[0] >= most:
                    result[place] = enhance(frame[place]).to(dtype)
                    counts[place] = 0
                    if seen is not frame:
                        seen[place] = frame[place]
                else:
                    counts[place] += 1
            if before:
                seen = frame.clone()
        yield give(result)


answers.right("temporal_reuse")(lambda *case: reused(*case))
for why, switches in {
    "keeps a reference to a reused buffer": {"keep": lambda frame: frame},
    "wraps in uint8": {"change": lambda old, new: (new - old).abs().max()},
    "whole numbers only": {"change": lambda old, new: (new.short() - old.short()).abs().max()},
    "compares with the frame before": {"before": True},
    "one changed block, all computed": {"again": lambda old, new, above: biggest(old, new) > above},
    "yields the same tensor again and again": {"give": lambda result: result},
    "returns NaN or an uninitialised buffer where a value is expected": {
        "give": lambda result: result.clone().fill_(float("nan"))
    },
    "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere": {
        "dtype": torch.uint8
    },
}.items():
    answers.wrong("temporal_reuse", why)(lambda *case, switches=switches: reused(*case, **switches))
answers.wrong("temporal_reuse", "unlimited reuse")(
    lambda frames, enhance, above, size, most: reused(frames, enhance, above, size, 10**9)
)


@answers.wrong("temporal_reuse", "the whole film at once")
def at_once(frames, *case):
    return reused([frame.clone() for frame in frames], *case)


@answers.wrong("temporal_reuse", "global mean")
def global_mean(*case):
    return reused(*case, again=lambda old, new, above: (
        (new.double() - old.double()).abs().mean() > above))  # fmt: skip


@answers.wrong("temporal_reuse", "returns the right value but changes one of its inputs")
def into_the_frame(frames, enhance, above, size, most):
    def written():
        for frame in frames:
            yield frame.clone()
            frame.zero_()

    return reused(written(), enhance, above, size, most)


@answers.wrong("temporal_reuse", "keeps the size of the first frame")
def first_size(frames, enhance, above, size, most):
    def cut():
        shape = None
        for frame in frames:
            shape = shape or frame.shape
            yield frame[: shape[0], : shape[1]]

    return reused(cut(), enhance, above, size, most)


# --- roi_with_halo


def regions(trunk, halo, stride, image, boxes, background, align=True, pads=False, adds=False):
    result = background.clone()
    if adds:
        result.zero_()
    for top, left, bottom, right in boxes:
        first = [max(0, (edge * stride - halo) // stride) for edge in (top, left)]
        begin = [edge * stride for edge in first]
        if not align:
            begin = [max(0, edge * stride - halo) for edge in (top, left)]
        end = [(edge - 1) * stride + halo + 1 for edge in (bottom, right)]
        piece = image[..., begin[0] : end[0], begin[1] : end[1]]
        part = trunk(piece)[
            ..., top - first[0] : bottom - first[0], left - first[1] : right - first[1]
        ]
        if adds:
            result[..., top:bottom, left:right] += part
        elif part.shape == result[..., top:bottom, left:right].shape:
            result[..., top:bottom, left:right] = part
    return torch.where(result == 0, background, result) if adds else result


answers.right("roi_with_halo")(regions)


@answers.wrong("roi_with_halo", "no halo")
def no_halo(trunk, halo, *case):
    return regions(trunk, 0, *case)


@answers.wrong("roi_with_halo", "halo without stride alignment")
def unaligned(*case):
    return regions(*case, align=False)


@answers.wrong("roi_with_halo", "padding at the crop edge")
def padded(trunk, halo, stride, image, boxes, background):
    wide = torch.nn.functional.pad(image, [halo] * 4)
    result = background.clone()
    for top, left, bottom, right in boxes:
        piece = wide[
            ..., top * stride : (bottom - 1) * stride + 2 * halo + 1,
            left * stride : (right - 1) * stride + 2 * halo + 1,
        ]  # fmt: skip
        skip = -(-halo // stride)
        part = trunk(piece)[..., skip : skip + bottom - top, skip : skip + right - left]
        result[..., top : top + part.shape[2], left : left + part.shape[3]] = part
    return result


@answers.wrong("roi_with_halo", "overlapping boxes summed")
def summed(*case):
    return regions(*case, adds=True)


@answers.wrong("roi_with_halo", "the whole image")
def everything(trunk, halo, stride, image, boxes, background):
    result, whole = background.clone(), trunk(image)
    for top, left, bottom, right in boxes:
        result[..., top:bottom, left:right] = whole[..., top:bottom, left:right]
    return result


@answers.wrong("roi_with_halo", "writes into the background")
def into_the_background(trunk, halo, stride, image, boxes, background):
    result = regions(trunk, halo, stride, image, boxes, background)
    return background.copy_(result)


@answers.wrong("roi_with_halo", "is right only for square, even or contiguous shapes")
def square_only(trunk, halo, stride, image, boxes, background):
    side = min(image.shape[2:])
    boxes = [box for box in boxes if max(box[2:]) * stride <= side]
    return regions(trunk, halo, stride, image, boxes, background)


def test_mistakes_get_their_hints():
    exercises = answers.exercises
    wider = lambda new: new.short() if new.dtype == torch.uint8 else new  # noqa: E731
    said = first_hint(
        exercises["largest_change"], lambda o, n: int((wider(n) - wider(o)).abs().max())
    )
    assert "more than int16 holds" in said
    wraps_bytes = lambda o, n: int(  # noqa: E731
        ((n - o) if n.dtype == torch.uint8 else n.int() - o.int()).abs().max()
    )
    assert "in bytes 10 - 200" in first_hint(exercises["largest_change"], wraps_bytes)
    assert "there are other numbers" in first_hint(
        exercises["temporal_reuse"],
        lambda *case: reused(
            *case, change=lambda old, new: (new.short() - old.short()).abs().max()
        ),
    )
    assert "rim" in first_hint(exercises["roi_with_halo"], no_halo)
    assert "multiple of stride" in first_hint(exercises["roi_with_halo"], unaligned)
    reuse = exercises["temporal_reuse"]
    assert "same tensor" in first_hint(reuse, lambda *case: reused(*case, keep=lambda f: f))
    assert "changed later" in first_hint(reuse, lambda *case: reused(*case, give=lambda f: f))
    in_float = lambda *case: reused(*case, dtype=torch.float32)  # noqa: E731
    assert "another type" in first_hint(reuse, in_float)
    at_the_limit = lambda *case: reused(  # noqa: E731
        *case, change=lambda old, new: biggest(old, new) + 1e-9
    )
    assert "not more than" in first_hint(reuse, at_the_limit)


def test_a_wrapped_difference_is_not_called_one_of_brighter_pixels():
    steps = answers.exercises["largest_change"]
    hints = [steps.hint(index) for index in range(len(steps.hints))]
    seen = [
        one
        for seed in range(20)
        for outcome in outcomes(steps, lambda o, n: int((n - o).abs().max()), seed)
        for one in outcome.failures
        if one.inputs[0].dtype == torch.int16
    ]
    assert not [one for one in seen for hint in hints if hint.fits(one) and "darker" in hint.text]


test_answers = answers.tests()
