"""Right answers pass, wrong ones fail: blocks by hand, what an output sees, bytes that stay."""

import pytest
import torch
from torch.nn import functional as F

from tests.course.answers import Answers, first_hint

answers = Answers("resnet_efficientnet")


@answers.right("mean_gate")
def mean_gate(x, dy):
    m = sum(x) / len(x)
    d_m = sum(a * b for a, b in zip(x, dy, strict=True))
    return [d * m + d_m / len(x) for d in dy]


@answers.wrong("mean_gate", "takes m for a constant")
def constant_gate(x, dy):
    return [d * sum(x) / len(x) for d in dy]


@answers.wrong("mean_gate", "forgets the product")
def no_product(x, dy):
    return [sum(a * b for a, b in zip(x, dy, strict=True)) / len(x)] * len(x)


@answers.wrong("mean_gate", "does not divide by the length")
def whole_gate(x, dy):
    d_m = sum(a * b for a, b in zip(x, dy, strict=True))
    return [d * sum(x) / len(x) + d_m for d in dy]


@answers.wrong("mean_gate", "gives the mean's gradient the mean of dy")
def mean_of_dy(x, dy):
    return [d * sum(x) / len(x) + sum(dy) / len(x) for d in dy]


@answers.wrong("mean_gate", "halves it for every length")
def halves(x, dy):
    d_m = sum(a * b for a, b in zip(x, dy, strict=True))
    return [d * sum(x) / len(x) + d_m / 2 for d in dy]


@answers.wrong("mean_gate", "gives each number its own product's part")
def own_part(x, dy):
    return [d * sum(x) / len(x) + d * v / len(x) for v, d in zip(x, dy, strict=True)]


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
}.items():
    answers.wrong("receptive_field", why)(lambda windows, how=how: field(windows, **how))


def move(part, saved, *, share=0.1, unbiased=True, square=False):
    _, made, mean, _ = saved
    var = made.var((0, 2, 3), unbiased=unbiased and not square)
    if square:
        count = made.shape[0] * made.shape[2] ** 2
        var *= count / (count - 1)
    part.bn.running_mean.lerp_(mean, share)
    part.bn.running_var.lerp_(var, share)


def block(*, skip=True, mask="y", keeps=(), around="shortcut", last=True, between=True,
          d_around="sum", again=False, writes=False, moves="training", share=0.1, unbiased=True,
          square=False, constants=True):  # fmt: skip
    def keep_block(x, first, second, shortcut):
        norm, saved_1 = first.run(x)
        hidden = norm.relu() if between else norm.clone()
        branch, saved_2 = second.run(hidden)
        way, saved_3 = shortcut.run(x) if shortcut else (x, None)
        for part, saved in ((first, saved_1), (second, saved_2), (shortcut, saved_3)):
            if part and moves != "never" and (part.training or moves == "always"):
                move(part, saved, share=share, unbiased=unbiased, square=square)
        total = branch + way + (x.mean() if around == "both" and shortcut else 0)
        y = total.relu() if last else total
        if again:
            return y, x
        more = tuple({"branch": branch, "norm": norm}[name] for name in keeps)
        return y, (
            saved_1,
            hidden,
            saved_2,
            y,
            saved_3,
            branch if mask == "branch" else None,
            *more,
        )

    def block_back(dy, saved, first, second, shortcut):
        if again:
            saved = block()[0](saved, first, second, shortcut)[1] + (None,)
        saved_1, hidden, saved_2, y, saved_3, branch, *_ = saved
        if moves == "again" and first.training:
            move(first, saved_1)
            move(second, saved_2)
        fixed = constants and not first.training
        shown = branch if mask == "branch" else hidden if mask == "hidden" else y
        d_sum = dy * (shown > 0) if last and shown.shape == dy.shape else dy.clone()
        if writes:
            dy.mul_(y > 0)
        d_norm = second.back(d_sum, saved_2, constants=fixed)
        d_norm = d_norm * (hidden > 0) if between else d_norm
        dx = first.back(d_norm, saved_1, constants=fixed)
        if not skip:
            return dx
        if not shortcut:
            return dx + d_sum
        if around == "jumps":
            return dx + d_sum.mean()
        return dx + shortcut.back(dy if d_around == "y" else d_sum, saved_3, constants=fixed)

    return keep_block, block_back


answers.right("residual_backward")(block())


for why, how in {
    "no skip gradient": {"skip": False},
    "ReLU mask from the wrong tensor": {"mask": "hidden"},
    "recomputes everything": {"again": True},
    "mutates the input": {"writes": True},
    "keeps the branch as well": {"keeps": ("branch",)},
    "lets the gradient jump the shortcut": {"around": "jumps"},
    "adds x beside the shortcut": {"around": "both"},
    "forgets the last ReLU": {"last": False},
    "no ReLU between the parts": {"between": False},
    "gives the shortcut the gradient of y": {"d_around": "y"},
    "statistics from biased variance": {"unbiased": False},
    "never moves the statistics": {"moves": "never"},
    "moves the statistics in evaluation": {"moves": "always"},
    "moves the statistics again in backward": {"moves": "again"},
    "swaps the shares of old and new": {"share": 0.9},
    "takes the batch's formula in evaluation": {"constants": False},
    "takes every image for a square": {"square": True},
}.items():
    answers.wrong("residual_backward", why)(block(**how))


def bottleneck(*, strict=True, drop=1.0, adds=True, end=False, gate="looked", act=F.silu, half=True,
               without="", whole=False, writes=False, along="batch", alone=False, over=(2, 3),
               shapes=True):  # fmt: skip
    def mbconv(x, w, norm, stride, keep):
        def normed(name, image):
            return image if name == without else norm(name, image)

        wide = F.silu(normed("wider", F.conv2d(x, w["wider"]))) if "wider" in w else x
        pad = w["around"].shape[2] // 2 if half else 1
        made = F.conv2d(wide, w["around"], None, stride, pad, 1, wide.shape[1])
        looked = F.silu(normed("around", made))
        means = (looked if gate == "looked" else wide).mean(over, keepdim=True)
        gated = looked * F.conv2d(act(F.conv2d(means, w["reduce"])), w["expand"]).sigmoid()
        y = normed("narrow", F.conv2d(gated, w["narrow"]))
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
    "the gate reads the input of around": {"gate": "wide"},
    "ReLU in the gate": {"act": torch.relu},
    "a padding of 1 for every kernel": {"half": False},
    "leaves out a norm": {"without": "around"},
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
    w["expand"].sigmoid_()
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
        ("mean_gate", constant_gate, "through the product"),
        ("mean_gate", no_product, "through the mean"),
        ("mean_gate", whole_gate, "one part in len(x)"),
        ("mean_gate", halves, "one part in len(x)"),
        ("mean_gate", own_part, "the same share"),
        ("wide_bytes", lambda *given: wide_bytes(*given) // 4, "four bytes"),
        ("wide_bytes", four_before, "the other way round"),
        ("wide_bytes", lambda n, c, s, r, d: wide_bytes(n, c, s, 6, d), "channels * ratio"),
        ("wide_bytes", lambda *given: float(wide_bytes(*given)), "return an int"),
        ("receptive_field", lambda windows: field(windows, early=True), "has used it"),
        ("receptive_field", lambda windows: field(windows, pairs="full ones"), "an empty list"),
        ("wide_bytes", down_bytes, "round up"),
        ("receptive_field", lambda windows: field(windows, pads=False), "that is the padding"),
        ("residual_backward", block(skip=False), "what comes around"),
        ("residual_backward", block(keeps=("branch",)), "can do without"),
        ("residual_backward", block(last=False), "y is not right"),
        ("residual_backward", block(writes=True), "changed a tensor"),
        ("residual_backward", block(d_around="y"), "into shortcut.back"),
        ("residual_backward", block(again=True), "called once"),
        ("residual_backward", block(unbiased=False), "divided by n - 1"),
        ("residual_backward", block(square=True), "a running_var is not"),
        ("residual_backward", block(moves="never"), "moves them once"),
        ("residual_backward", block(moves="again"), "block_back leaves them alone"),
        ("residual_backward", block(moves="always"), "Only training moves them"),
        ("residual_backward", block(constants=False), "has to be told"),
        ("mbconv", bottleneck(without="around"), "with groups"),
        ("mbconv", bottleneck(gate="wide"), 'norm of "narrow"'),
        ("mbconv", bottleneck(act=torch.relu), "reduce, SiLU, expand"),
        ("mbconv", bottleneck(half=False), "k // 2"),
        ("mbconv", bottleneck(shapes=False), "different shapes"),
        ("mbconv", bottleneck(adds=False), "Look at the end"),
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
        ("residual_backward", block(skip=False), "GraphView"),
        ("mbconv", bottleneck(end=True), "GraphView"),
    ],
)
def test_what_went_wrong_is_drawn(name, wrong, shown):
    exercise = answers.exercises[name]
    case = exercise.make(5, exercise.cases - 1, exercise.sizes)
    got = exercise.drive(wrong, *case.inputs) if exercise.drive else wrong(*case.inputs)
    assert shown in repr(exercise.picture(case, got, exercise.right(case)))
