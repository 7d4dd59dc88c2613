"""Right answers pass, wrong ones fail: products, bytes that stay, a block, what an output sees."""

import pytest
import torch
from torch.nn import functional as F

from tests.course.answers import Answers, first_hint

answers = Answers("inverted_bottleneck")


def products(*, reads=1, sides=2, places=2, parts=("expand", "depthwise", "project"), ratio=None):
    def block_products(channels, size, own_ratio, taps):
        wide = channels * (ratio or own_ratio)
        each = {"expand": channels * wide, "project": wide * channels}
        each["depthwise"] = wide * (wide if reads == "all" else 1) * taps**sides
        return size**places * sum(each[part] for part in parts)

    return block_products


answers.right("block_products")(products())
for why, how in {
    "takes the middle for an ordinary convolution": {"reads": "all"},
    "forgets a side of the filter": {"sides": 1},
    "counts one place": {"places": 0},
    "counts one row of places": {"places": 1},
    "leaves the last convolution out": {"parts": ("expand", "depthwise")},
    "leaves the middle out": {"parts": ("expand", "project")},
    "takes every ratio for 6": {"ratio": 6},
}.items():
    answers.wrong("block_products", why)(products(**how))


@answers.right("wide_bytes")
def wide_bytes(images, channels, size, ratio, stride):
    after = -(-size // stride)
    return 4 * images * channels * ratio * (3 * size**2 + 4 * after**2)


answers.wrong("wide_bytes", "counts numbers")(lambda *given: wide_bytes(*given) // 4)
answers.wrong("wide_bytes", "forgets the ratio")(
    lambda n, c, size, ratio, stride: wide_bytes(n, c, size, 1, stride)
)
answers.wrong("wide_bytes", "takes every stride for 2")(
    lambda n, c, size, ratio, stride: wide_bytes(n, c, size, ratio, 2)
)
answers.wrong("wide_bytes", "returns a float")(lambda *given: float(wide_bytes(*given)))
answers.wrong("wide_bytes", "takes all seven at the full size")(
    lambda n, c, size, ratio, stride: wide_bytes(n, c, size, ratio, 1)
)


@answers.wrong("wide_bytes", "rounds down")
def down_bytes(n, c, size, ratio, stride):
    return 4 * n * c * ratio * (3 * size**2 + 4 * (size // stride) ** 2)


answers.wrong("wide_bytes", "divides the width alone")(
    lambda n, c, size, ratio, stride: (
        4 * n * c * ratio * (3 * size**2 + 4 * size * -(-size // stride))
    )
)


@answers.wrong("wide_bytes", "puts four before the stride")
def four_before(n, c, size, ratio, stride):
    return 4 * n * c * ratio * (4 * size**2 + 3 * (-(-size // stride)) ** 2)


def field(windows, *, strides=True, dilates=True, pads=True, pairs="both", early=False, half=False):
    def walk(windows, low, high, step):
        for one in windows:
            if isinstance(one, list):
                if pairs == "full ones":
                    one = [branch for branch in one if branch]
                if pairs == "alone":
                    low, high, step = 0, 0, 1
                a = walk(one[0], low, high, step)
                b = walk(one[1], *a) if pairs == "in a row" else walk(one[1], low, high, step)
                if pairs == "first":
                    b = a
                low, high, step = min(a[0], b[0]), max(a[1], b[1]), b[2]
                continue
            taps, stride, padding, dilation = one
            dilation, padding = dilation if dilates else 1, padding if pads else 0
            if half:
                padding = min(padding, (taps - 1) * dilation // 2)
            used = step * stride if early else step if strides else 1
            low -= padding * used
            high += ((taps - 1) * dilation - padding) * used
            step *= stride
        return low, high, step

    return walk(windows, 0, 0, 1)


answers.right("receptive_field")(lambda windows: field(windows))
for why, how in {
    "adds kernels without strides": {"strides": False},
    "ignores dilation": {"dilates": False},
    "ignores the other branch": {"pairs": "first"},
    "is off by one for even kernels": {"half": True},
    "ignores padding": {"pads": False},
    "takes the stride too early": {"early": True},
    "runs the branches one after the other": {"pairs": "in a row"},
    "leaves an empty branch out": {"pairs": "full ones"},
    "forgets what lies before a pair": {"pairs": "alone"},
}.items():
    answers.wrong("receptive_field", why)(lambda windows, how=how: field(windows, **how))


def bottleneck(*, strict=True, drop=1.0, adds=True, end=False, gate="looked", act=F.silu, half=True,
               without="", whole=False, writes=False, along="batch", alone=False, over=(2, 3),
               shapes=True, groups=True):  # fmt: skip
    def mbconv(x, w, norm, stride, keep):
        def normed(name, image):
            return image if name == without else norm(name, image)

        wide = F.silu(normed("expand", F.conv2d(x, w["expand"]))) if "expand" in w else x
        pad = w["depthwise"].shape[2] // 2 if half else 1
        made = F.conv2d(wide, w["depthwise"], None, stride, pad, 1, wide.shape[1] if groups else 1)
        looked = F.silu(normed("depthwise", made))
        means = (looked if gate == "looked" else wide).mean(over, keepdim=True)
        gated = looked * F.conv2d(act(F.conv2d(means, w["squeeze"])), w["excite"]).sigmoid()
        y = normed("project", F.conv2d(gated, w["project"]))
        y = F.silu(y) if end else y
        if writes:
            x += 0.5
        factor = drop if keep is None else keep if along == "width" else keep[:, None, None, None]
        if not adds or (shapes and x.shape != y.shape) or (strict and stride != 1):
            return y * factor if alone and keep is not None else y
        return (x + y) * factor if whole else x + y * factor

    return mbconv


answers.right("mbconv")(bottleneck())
for why, how in {
    "skip although stride is 2": {"strict": False},
    "drop scales in evaluation": {"drop": 0.8},
    "always adds no input": {"adds": False},
    "SiLU behind the last norm": {"end": True},
    "the gate reads the input of depthwise": {"gate": "wide"},
    "ReLU in the gate": {"act": torch.relu},
    "a padding of 1 for every kernel": {"half": False},
    "leaves out a norm": {"without": "depthwise"},
    "drops the whole sum": {"whole": True},
    "mutates the input": {"writes": True},
    "lays keep along the width": {"along": "width"},
    "multiplies by keep without a sum": {"alone": True},
    "adds images of different shapes": {"shapes": False},
    "takes the means over the batch": {"over": (0, 2, 3)},
}.items():
    answers.wrong("mbconv", why)(bottleneck(**how))


@answers.wrong("mbconv", "mutates a weight")
def gate_in_place(x, w, norm, stride, keep):
    y = bottleneck()(x, w, norm, stride, keep)
    w["excite"].sigmoid_()
    return y


@answers.wrong("mbconv", "mutates keep")
def keep_in_place(x, w, norm, stride, keep):
    y = bottleneck()(x, w, norm, stride, keep)
    if keep is not None:
        keep.clamp_(max=1)
    return y


@answers.wrong("mbconv", "converts the layout per call")
def channels_last_per_call(x, w, norm, stride, keep):
    last = x.to(memory_format=torch.channels_last)
    return bottleneck()(last, w, norm, stride, keep).contiguous()


@answers.wrong("mbconv", "copies the input")
def of_a_copy(x, w, norm, stride, keep):
    return bottleneck()(x.clone(), w, norm, stride, keep)


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("block_products", products(reads="all"), "reads one channel"),
        ("block_products", products(sides=1), "taps * taps times"),
        ("block_products", products(places=1), "size * size places"),
        ("block_products", products(parts=("expand", "depthwise")), "one is missing"),
        ("wide_bytes", lambda *given: wide_bytes(*given) // 4, "four bytes"),
        ("wide_bytes", four_before, "the other way round"),
        ("wide_bytes", lambda n, c, s, r, d: wide_bytes(n, c, s, 6, d), "channels * ratio"),
        ("wide_bytes", lambda *given: float(wide_bytes(*given)), "return an int"),
        ("receptive_field", lambda windows: field(windows, early=True), "has used it"),
        ("receptive_field", lambda windows: field(windows, pairs="full ones"), "an empty list"),
        ("wide_bytes", down_bytes, "round up"),
        ("receptive_field", lambda windows: field(windows, pads=False), "that is the padding"),
        ("mbconv", bottleneck(without="depthwise"), "with groups"),
        ("mbconv", bottleneck(gate="wide"), 'norm of "project"'),
        ("mbconv", bottleneck(act=torch.relu), "squeeze, SiLU, excite"),
        ("mbconv", bottleneck(half=False), "k // 2"),
        ("mbconv", bottleneck(shapes=False), "different shapes"),
        ("receptive_field", lambda windows: field(windows, pairs="alone"), "is forgotten"),
        ("mbconv", bottleneck(adds=False), "is missing"),
        ("mbconv", bottleneck(strict=False), "the stride is 2"),
        ("mbconv", bottleneck(end=True), "no SiLU"),
        ("mbconv", bottleneck(whole=True), "the branch alone"),
        ("mbconv", bottleneck(drop=0.8), "the end is not right"),
        ("mbconv", bottleneck(groups=False), "groups is the number"),
        ("mbconv", bottleneck(along="width"), "keep.reshape(-1, 1, 1, 1)"),
        ("mbconv", bottleneck(alone=True), "keep does nothing"),
        ("mbconv", of_a_copy, "chosen once"),
    ],
)
def test_the_hint_is_about_what_went_wrong(name, answer, words):
    assert words in first_hint(answers.exercises[name], answer)


@pytest.mark.parametrize(
    ("name", "wrong", "shown"),
    [
        ("receptive_field", lambda windows: field(windows, pads=False), "TileView"),
        ("mbconv", bottleneck(end=True), "GraphView"),
    ],
)
def test_what_went_wrong_is_drawn(name, wrong, shown):
    exercise = answers.exercises[name]
    case = exercise.make(5, exercise.cases - 1, exercise.sizes)
    got = exercise.drive(wrong, *case.inputs) if exercise.drive else wrong(*case.inputs)
    assert shown in repr(exercise.picture(case, got, exercise.right(case)))


def test_the_example_of_mbconv_holds():
    numbers = {
        "depthwise": torch.full((1, 1, 3, 3), 20.0),
        "project": torch.full((1, 1, 1, 1), 0.3),
    }
    weights = numbers | {name: torch.zeros(1, 1, 1, 1) for name in ("squeeze", "excite")}
    x, given = torch.ones(1, 1, 1, 1), (weights, lambda name, image: image, 1)
    found = [bottleneck()(x, *given, keep).item() for keep in (None, torch.tensor([2.0]))]
    assert found == pytest.approx([4.0, 7.0])
