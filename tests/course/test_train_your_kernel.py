"""Right and wrong answers to the exercises of the chapter that trains on its own kernel."""

from labkit.course.checks import outcomes
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises.train_your_kernel import line_backward
from tests.course.answers import Answers, first_hint

answers = Answers("train_your_kernel")


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


# --- who_saw


@answers.right("who_saw")
def who_saw(h, taps, outputs, stride, pad):
    return [(p, r) for p in range(outputs) for r in range(taps) if p * stride - pad + r == h]


@answers.right("who_saw")
def by_tap(h, taps, outputs, stride, pad):
    found = []
    for r in range(taps):
        far = h + pad - r
        if far >= 0 and far % stride == 0 and far // stride < outputs:
            found.append((far // stride, r))
    return sorted(found)


for why, answer in [
    (
        "ignores the padding",
        lambda h, taps, outputs, stride, pad: by_tap(h, taps, outputs, stride, 0),
    ),
    ("ignores the stride", lambda h, taps, outputs, stride, pad: by_tap(h, taps, outputs, 1, pad)),
    (
        "divides and keeps the remainder's outputs",
        lambda h, taps, outputs, stride, pad: sorted(
            ((h + pad - r) // stride, r)
            for r in range(taps)
            if 0 <= (h + pad - r) // stride < outputs
        ),
    ),
    (
        "names outputs that do not exist",
        lambda h, taps, outputs, stride, pad: by_tap(h, taps, outputs + 9, stride, pad),
    ),
]:
    answers.wrong("who_saw", why)(answer)


@answers.wrong("who_saw", "names the tap first")
def tap_first(*inputs):
    return sorted((r, p) for p, r in who_saw(*inputs))


# --- line_backward


def line(row=lambda p, r, stride, pad, dilation: p * stride - pad + r * dilation, tests=True):
    def answer(x, w, dy, stride, pad, dilation):
        dx, dw = [0] * len(x), [0] * len(w)
        for p in range(len(dy)):
            for r in range(len(w)):
                h = row(p, r, stride, pad, dilation)
                if h < len(x) and (h >= 0 or not tests):
                    dx[h] += dy[p] * w[r]
                    dw[r] += dy[p] * x[h]
        return dx, dw

    return answer


answers.right("line_backward")(line())
answers.wrong("line_backward", "reads the end of the list in the padding")(line(tests=False))
answers.wrong("line_backward", "forgets the stride")(
    line(lambda p, r, stride, pad, dilation: p - pad + r * dilation)
)
answers.wrong("line_backward", "forgets the dilation")(
    line(lambda p, r, stride, pad, dilation: p * stride - pad + r)
)


@answers.wrong("line_backward", "turns the kernel once too often")
def turned(x, w, dy, stride, pad, dilation):
    dx, _ = line()(x, w[::-1], dy, stride, pad, dilation)
    return dx, line()(x, w, dy, stride, pad, dilation)[1]


@answers.wrong("line_backward", "keeps the last product only")
def assigns(x, w, dy, stride, pad, dilation):
    dx, dw = [0] * len(x), [0] * len(w)
    for p in range(len(dy)):
        for r in range(len(w)):
            h = p * stride - pad + r * dilation
            if 0 <= h < len(x):
                dx[h], dw[r] = dy[p] * w[r], dy[p] * x[h]
    return dx, dw


def test_the_line_is_what_pytorch_computes():
    import torch
    from torch.nn.functional import conv1d

    x, w, dy, stride, pad, dilation = [1, -2, 3, 4, 5], [2, -1, 3], [7, -4], 3, 2, 2
    leaves = [torch.tensor([[values]], dtype=torch.double) for values in (x, w)]
    for leaf in leaves:
        leaf.requires_grad_()
    y = conv1d(*leaves, stride=stride, padding=pad, dilation=dilation)
    dx, dw = torch.autograd.grad(y, leaves, torch.tensor([[dy]], dtype=torch.double))
    right = line_backward.expected(x, w, dy, stride, pad, dilation)
    assert right == (dx.flatten().tolist(), dw.flatten().tolist())


def test_a_slip_in_the_order_or_in_the_pad_is_named():
    exercises = answers.exercises

    def by_taps(h, taps, outputs, stride, pad):
        return sorted(who_saw(h, taps, outputs, stride, pad), key=lambda pair: pair[1])

    def unpadded(x, w, dy, stride, pad, dilation):
        return line()(x, w, dy, stride, 0, dilation)

    assert "sorted" in first_hint(exercises["who_saw"], by_taps)
    swapped = first_hint(exercises["line_backward"], lambda *inputs: line()(*inputs)[::-1])
    assert "dx comes first" in swapped
    assert "the pad is missing" in first_hint(exercises["line_backward"], unpadded)


@answers.right("line_backward")
def in_floats(*inputs):
    return tuple([float(one) for one in gradient] for gradient in line()(*inputs))


@answers.wrong("line_backward", "makes whole numbers of the products")
def in_whole_numbers(*inputs):
    return tuple([int(one) for one in gradient] for gradient in line()(*inputs))


def test_lost_halves_are_told_so():
    hint = first_hint(answers.exercises["line_backward"], in_whole_numbers)
    assert "Halves are lost" in hint


def test_what_is_missing_shows_in_its_own_stage_and_in_the_last():
    stages = {
        "padding": line(tests=False),
        "stride": line(lambda p, r, stride, pad, dilation: p - pad + r * dilation),
        "dilation": line(lambda p, r, stride, pad, dilation: p * stride - pad + r),
    }
    for missing, answer in stages.items():
        found = {one.name: one.state for one in outcomes(line_backward, answer, seed=3)}
        wrong = [name for name, state in found.items() if state == "wrong"]
        assert wrong == [missing, "together"]


# --- conv_backward

BACKWARD = """extern "C" __global__
void backward_input(const float* dy, const float* w, float* dx, Conv conv) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= conv.N * conv.C * conv.H * conv.W) return;
    const int v = i % conv.W, h = i / conv.W % conv.H;
    const int c = i / conv.W / conv.H % conv.C, n = i / conv.W / conv.H / conv.C;
    const int channels = conv.C / conv.groups, outputs = conv.K / conv.groups;
    const int group = c / channels;
    float sum = 0;
    for (int k = group * outputs; k < (group + 1) * outputs; ++k)
        for (int r = 0; r < conv.R; ++r)
            for (int s = 0; s < conv.S; ++s) {
                const int down = h + conv.pad_h - r * conv.dilation_h;
                const int across = v + conv.pad_w - s * conv.dilation_w;
                if (down < 0 || across < 0) continue;
                if (down % conv.stride_h || across % conv.stride_w) continue;
                const int p = down / conv.stride_h, q = across / conv.stride_w;
                if (p >= conv.P || q >= conv.Q) continue;
                sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *
                       w[((k * channels + c % channels) * conv.R + r) * conv.S + s];
            }
    dx[i] = sum;
}

extern "C" __global__
void backward_weight(const float* x, const float* dy, float* dw, Conv conv) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int channels = conv.C / conv.groups, outputs = conv.K / conv.groups;
    if (i >= conv.K * channels * conv.R * conv.S) return;
    const int s = i % conv.S, r = i / conv.S % conv.R;
    const int c = i / conv.S / conv.R % channels, k = i / conv.S / conv.R / channels;
    const int from = k / outputs * channels + c;
    float sum = 0;
    for (int n = 0; n < conv.N; ++n)
        for (int p = 0; p < conv.P; ++p)
            for (int q = 0; q < conv.Q; ++q) {
                const int h = p * conv.stride_h - conv.pad_h + r * conv.dilation_h;
                const int v = q * conv.stride_w - conv.pad_w + s * conv.dilation_w;
                if (h < 0 || h >= conv.H || v < 0 || v >= conv.W) continue;
                sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *
                       x[((n * conv.C + from) * conv.H + h) * conv.W + v];
            }
    dw[i] = sum;
}

extern "C" __global__ void backward_bias(const float* dy, float* db, Conv conv) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= conv.K) return;
    float sum = 0;
    for (int n = 0; n < conv.N; ++n)
        for (int i = 0; i < conv.P * conv.Q; ++i)
            sum += dy[(n * conv.K + k) * conv.P * conv.Q + i];
    db[k] = sum;
}
"""

answers.right("conv_backward")(changed(BACKWARD))
answers.right("conv_backward")(  # every output asked instead of every tap
    changed(
        BACKWARD,
        (
            BACKWARD[BACKWARD.index("        for (int r") : BACKWARD.index("    dx[i]")],
            """        for (int p = 0; p < conv.P; ++p)
            for (int q = 0; q < conv.Q; ++q) {
                const int down = h + conv.pad_h - p * conv.stride_h;
                const int across = v + conv.pad_w - q * conv.stride_w;
                const int r = down / conv.dilation_h, s = across / conv.dilation_w;
                if (down < 0 || r * conv.dilation_h != down || r >= conv.R) continue;
                if (across < 0 || s * conv.dilation_w != across || s >= conv.S) continue;
                sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *
                       w[((k * channels + c % channels) * conv.R + r) * conv.S + s];
            }
""",
        ),
    )
)


def wrong(why, *changes):
    answers.wrong("conv_backward", why)(changed(BACKWARD, *changes))


REMAINDER = "                if (down % conv.stride_h || across % conv.stride_w) continue;\n"
wrong("stride above 1 wrong", (REMAINDER, ""))
wrong(
    "stride above 1 wrong",
    (REMAINDER, ""),
    ("p = down / conv.stride_h, q = across / conv.stride_w", "p = down, q = across"),
)
wrong(
    "weight flipped twice",
    ("* conv.R + r) * conv.S + s];\n            }\n    dx", "* conv.R + conv.R - 1 - r) * conv.S + "
     "conv.S - 1 - s];\n            }\n    dx"),
)  # fmt: skip
wrong(
    "atomics with random order beyond tolerance",
    ("float sum = 0;\n    for (int n = 0; n < conv.N; ++n)\n        for (int p", "dw[i] = 0;\n"
     "    for (int n = 0; n < conv.N; ++n)\n        for (int p"),
    ("sum += dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *\n                       x[",
     "atomicAdd(dw + i, dy[((n * conv.K + k) * conv.P + p) * conv.Q + q] *\n        x["),
    ("conv.H + h) * conv.W + v];", "conv.H + h) * conv.W + v]);"),
    ("    dw[i] = sum;\n", ""),
)  # fmt: skip
wrong("groups mixed", ("const int from = k / outputs * channels + c;", "const int from = c;"))
wrong(
    "groups mixed",
    ("int k = group * outputs; k < (group + 1) * outputs;", "int k = 0; k < conv.K;"),
)
wrong(
    "bias gradient over the wrong axes",
    ("dy[(n * conv.K + k) * conv.P * conv.Q + i]", "dy[(k * conv.N + n) * conv.P * conv.Q + i]"),
)
wrong(
    "bias gradient over the wrong axes",
    ("for (int n = 0; n < conv.N; ++n)\n        for (int i", "for (int n = 0; n < 1; ++n)\n"
     "        for (int i"),
)  # fmt: skip
wrong(
    "returns NaN or an uninitialised buffer where a value is expected",
    ("    dx[i] = sum;", "    if (sum != 0) dx[i] = sum;"),
)
wrong(
    FIRST,
    ('extern "C" __global__ void backward_bias', "__device__ float kept[512];\n"
     '__device__ int have;\nextern "C" __global__ void backward_bias'),
    ("    db[k] = sum;", "    if (have == 0) kept[k % 512] = sum;\n    __syncthreads();\n"
     "    have = 1;\n    db[k] = kept[k % 512];"),
)  # fmt: skip
wrong(
    "is right only for square, even or contiguous shapes",
    ("s < conv.S; ++s) {\n                const int down", "s < conv.R; ++s) {\n"
     "                const int down"),
)  # fmt: skip
wrong(
    "is right only for square, even or contiguous shapes",
    ("conv.C + from) * conv.H + h) * conv.W", "conv.C + from) * conv.W + h) * conv.W"),
)  # fmt: skip

test_answers = answers.tests()


def test_turned_pairs_are_called_turned():
    assert "turned" in first_hint(answers.exercises["who_saw"], tap_first)
