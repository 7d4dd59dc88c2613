"""Right answers pass, wrong ones fail: two readers, moving statistics, a block by hand."""

import pytest

from tests.course.answers import Answers, first_hint

answers = Answers("residual_block")


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


def moving(*, new=0.1, unbiased=True, over=(0, 2, 3), first=False, root=False):
    def moved(mean, var, made):
        made = made[:1] if first else made
        fresh = made.var(over, unbiased=unbiased)
        fresh = fresh.sqrt() if root else fresh
        return mean * (1 - new) + new * made.mean(over), var * (1 - new) + new * fresh

    return moved


answers.right("moved")(moving())
for why, how in {
    "takes the biased variance": {"unbiased": False},
    "swaps the shares": {"new": 0.9},
    "forgets the old ones": {"new": 1.0},
    "takes all channels together": {"over": (0, 1, 2, 3)},
    "takes one entry of the batch": {"first": True},
    "gives the deviation for the variance": {"root": True},
}.items():
    answers.wrong("moved", why)(moving(**how))


@answers.wrong("moved", "moves the statistics in place")
def moved_in_place(mean, var, made):
    return mean.lerp_(made.mean((0, 2, 3)), 0.1), var.lerp_(made.var((0, 2, 3)), 0.1)


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
        fixed = constants == "always" or (constants and not first.training)
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
        if around == "left out":
            return dx + d_sum
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
    "leaves shortcut.back out": {"around": "left out"},
    "forgets the last ReLU": {"last": False},
    "no ReLU between the parts": {"between": False},
    "gives the shortcut the gradient of y": {"d_around": "y"},
    "statistics from biased variance": {"unbiased": False},
    "never moves the statistics": {"moves": "never"},
    "moves the statistics in evaluation": {"moves": "always"},
    "moves the statistics again in backward": {"moves": "again"},
    "swaps the shares of old and new": {"share": 0.9},
    "takes the batch's formula in evaluation": {"constants": False},
    "takes mean and variance for constants in training": {"constants": "always"},
    "takes every image for a square": {"square": True},
}.items():
    answers.wrong("residual_backward", why)(block(**how))


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("mean_gate", constant_gate, "through the product"),
        ("mean_gate", no_product, "through the mean"),
        ("mean_gate", whole_gate, "one part in len(x)"),
        ("mean_gate", halves, "one part in len(x)"),
        ("mean_gate", own_part, "the same share"),
        ("moved", moving(unbiased=False), "by n - 1"),
        ("moved", moving(new=0.9), "nine tenths from the old"),
        ("moved", moving(new=1.0), "the batch's own"),
        ("moved", moving(over=(0, 1, 2, 3)), "for each channel"),
        ("moved", moved_in_place, "make new tensors"),
        ("residual_backward", block(skip=False), "what comes around"),
        ("residual_backward", block(keeps=("branch",)), "can do without"),
        ("residual_backward", block(last=False), "y is not right"),
        ("residual_backward", block(writes=True), "changed a tensor"),
        ("residual_backward", block(d_around="y"), "into shortcut.back"),
        ("residual_backward", block(around="left out"), "passes shortcut.back"),
        ("residual_backward", block(again=True), "called once"),
        ("residual_backward", block(unbiased=False), "divided by n - 1"),
        ("residual_backward", block(square=True), "a running_var is not"),
        ("residual_backward", block(moves="never"), "moves them once"),
        ("residual_backward", block(moves="again"), "block_back leaves them alone"),
        ("residual_backward", block(moves="always"), "Only training moves them"),
        ("residual_backward", block(constants=False), "has to be told"),
        ("residual_backward", block(constants="always"), "must not be told"),
    ],
)
def test_the_hint_is_about_what_went_wrong(name, answer, words):
    assert words in first_hint(answers.exercises[name], answer)


@pytest.mark.parametrize(
    ("name", "wrong", "shown"),
    [
        ("residual_backward", block(skip=False), "GraphView"),
    ],
)
def test_what_went_wrong_is_drawn(name, wrong, shown):
    exercise = answers.exercises[name]
    case = exercise.make(5, exercise.cases - 1, exercise.sizes)
    got = exercise.drive(wrong, *case.inputs) if exercise.drive else wrong(*case.inputs)
    assert shown in repr(exercise.picture(case, got, exercise.right(case)))
