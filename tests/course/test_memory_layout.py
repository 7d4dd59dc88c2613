"""Right and wrong answers to the exercises of the memory layout."""

import math
import sys
from itertools import pairwise

import torch

from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercises import find
from tests.course.answers import Answers, first_hint

answers = Answers("memory_layout")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"
SQUARE = "is right only for square, even or contiguous shapes"

# --- reorder_kernel

SOURCE = r"""
constexpr int kPitch = sizeof(ITEM) < 4 ? 34 : 33;

extern "C" __global__ void nchw_to_nhwc(const ITEM* x, ITEM* y, int channels, int pixels) {
    __shared__ ITEM tile[32 * kPitch];
    const long long image = static_cast<long long>(blockIdx.z) * channels * pixels;
    const int first_channel = blockIdx.y * 32, first_pixel = blockIdx.x * 32;
    int channel = first_channel + threadIdx.y, pixel = first_pixel + threadIdx.x;
    if (channel < channels && pixel < pixels) {
        tile[threadIdx.y * kPitch + threadIdx.x] =
            x[image + static_cast<long long>(channel) * pixels + pixel];
    }
    __syncthreads();
    channel = first_channel + threadIdx.x, pixel = first_pixel + threadIdx.y;
    if (channel < channels && pixel < pixels) {
        y[image + static_cast<long long>(pixel) * channels + channel] =
            tile[threadIdx.x * kPitch + threadIdx.y];
    }
}
"""


def launch(n, c, h, w):
    return (-(-h * w // 32), -(-c // 32), n), (32, 32)


answers.right("reorder_kernel")((SOURCE, launch))

NAIVE = r"""
extern "C" __global__ void nchw_to_nhwc(const ITEM* x, ITEM* y, int channels, int pixels) {
    const long long image = static_cast<long long>(blockIdx.z) * channels * pixels;
    const int channel = blockIdx.y * 32 + threadIdx.y, pixel = blockIdx.x * 32 + threadIdx.x;
    if (channel < channels && pixel < pixels) {
        y[image + static_cast<long long>(pixel) * channels + channel] =
            x[image + static_cast<long long>(channel) * pixels + pixel];
    }
}
"""
NOTHING = r"""
extern "C" __global__ void nchw_to_nhwc(const ITEM* x, ITEM* y, int channels, int pixels) {}
"""


def changed(old, new):
    assert old in SOURCE
    return SOURCE.replace(old, new)


GUARD = "    if (channel < channels && pixel < pixels) {"
for why, answer in [
    ("naive transpose", (NAIVE, launch)),
    (
        "padded declaration but unpadded index",
        (
            changed("threadIdx.y * kPitch", "threadIdx.y * 32").replace(
                "threadIdx.x * kPitch", "threadIdx.x * 32"
            ),
            launch,
        ),
    ),
    (
        "tile guard with an early return before the barrier",
        (changed(GUARD, "    if (channel >= channels || pixel >= pixels) return;\n    {"), launch),
    ),
    ("only multiples of 32", (changed(GUARD, "    {"), launch)),
    ("only multiples of 32", (SOURCE, lambda n, c, h, w: ((h * w // 32, c // 32, n), (32, 32)))),
    ("a pitch of 33 items for every type", (changed("sizeof(ITEM) < 4 ? 34 : 33", "33"), launch)),
    ("a pitch of 34 items for every type", (changed("sizeof(ITEM) < 4 ? 34 : 33", "34"), launch)),
    (ORDERS, (changed("    __syncthreads();\n", ""), launch)),
    (SQUARE, (changed("pixel) * channels + channel] =", "pixel) * pixels + channel] ="), launch)),
]:
    answers.wrong("reorder_kernel", why)(answer)


@answers.wrong("reorder_kernel", "copies through the host", make=True)
def copied_by_python():
    def launch(n, c, h, w):
        frame = sys._getframe(1)
        picture = frame.f_globals["Picture"]

        def done(*case):
            made = picture(*case)
            made.y[:] = made.x.transpose(0, 2, 3, 1)
            frame.f_globals["Picture"] = picture
            return made

        frame.f_globals["Picture"] = done
        return (1,), (1,)

    return NOTHING, launch


# --- format_of

ORDERS_OF = {"channels_last": (1, 3, 2, 0), "channels_last_3d": (1, 4, 3, 2, 0)}


def dense(sizes, strides, order):
    expected = 1
    for dim in order:
        if sizes[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= sizes[dim]
    return True


def wanted_orders(rank):
    orders = {"contiguous": tuple(reversed(range(rank)))}
    return orders | {name: order for name, order in ORDERS_OF.items() if len(order) == rank}


def flattens(sizes, strides):
    longer = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    pairs = pairwise(longer)
    return 0 in sizes or all(outer[1] == inner[0] * inner[1] for outer, inner in pairs)


def answer_with(dense, empty=True, flattens=flattens, wanted=wanted_orders):
    def format_of(sizes, strides):
        formats = [
            name
            for name, order in wanted(len(sizes)).items()
            if dense(sizes, strides, order) or (name == "contiguous" and empty and 0 in sizes)
        ]
        copies = [name for name in wanted(len(sizes)) if name not in formats]
        return formats, copies if flattens(sizes, strides) else [*copies, "flatten"]

    return format_of


format_of = answers.right("format_of")(answer_with(dense))


def literal(sizes, strides, order):
    expected = 1
    for dim in order:
        if strides[dim] != expected:
            return False
        expected *= sizes[dim]
    return True


def channels_everywhere(rank):
    names = {4: "channels_last", 5: "channels_last"}
    return {
        names.get(rank, name) if name != "contiguous" else name: order
        for name, order in wanted_orders(rank).items()
    }


def four_only(rank):
    return {
        name: order for name, order in wanted_orders(rank).items() if name != "channels_last_3d"
    }


def as_contiguous(sizes, strides):
    return 0 in sizes or dense(sizes, strides, tuple(reversed(range(len(sizes)))))


def ends_in_1(sizes, strides):
    longer = [stride for size, stride in zip(sizes, strides, strict=True) if size != 1]
    return 0 in sizes or (flattens(sizes, strides) and longer[-1:] in ([], [1]))


def ones_are_long(sizes, strides, order):
    """Skips no axis, but forgives the outermost one."""
    return literal(sizes, strides, order[:-1])


for why, answer in [
    ("compares strides literally", answer_with(literal)),
    ("ignores size-1", answer_with(ones_are_long)),
    ("empty tensor is neither", answer_with(dense, empty=False)),
    ("3-d formats confused", answer_with(dense, wanted=channels_everywhere)),
    ("flattens only what is contiguous", answer_with(dense, flattens=as_contiguous)),
    ("flattens only with a last stride of 1", answer_with(dense, flattens=ends_in_1)),
    ("knows no format of five dimensions", answer_with(dense, wanted=four_only)),
]:
    answers.wrong("format_of", why)(answer)


@answers.wrong("format_of", BANNED)
def asks_torch(sizes, strides):
    x = torch.empty_strided(sizes, strides)
    return (["contiguous"] if x.is_contiguous() else []), format_of(sizes, strides)[1]


@answers.wrong("format_of", BANNED)
def asks_labkit(sizes, strides):
    from labkit.core.memory_format import is_contiguous

    return format_of(sizes, strides) if is_contiguous(sizes, strides) else ([], [])


@answers.wrong("format_of", FIRST, make=True)
def remembers_the_first_format():
    kept = []

    def first(sizes, strides):
        kept.append(format_of(sizes, strides))
        return kept[0]

    return first


@answers.wrong("format_of", CONSTANT)
def the_example(sizes, strides):
    return ["channels_last"], ["contiguous", "flatten"]


# --- the warm-ups


@answers.right("column_waves")
def column_waves(pitch):
    return math.gcd(pitch, 32)


@answers.right("column_waves")
def by_counting(pitch):
    banks = [t * pitch % 32 for t in range(32)]
    return max(banks.count(bank) for bank in banks)


for why, answer in [
    ("counts the banks instead", lambda pitch: len({t * pitch % 32 for t in range(32)})),
    ("any pitch but 32 is free", lambda pitch: 32 if pitch == 32 else 1),
    ("even pitches take 2", lambda pitch: 32 if pitch % 32 == 0 else 2 - pitch % 2),
    (CONSTANT, lambda pitch: 32),
]:
    answers.wrong("column_waves", why)(answer)


@answers.right("channels_last_strides")
def channels_last_strides(sizes):
    _, c, h, w = sizes
    return c * h * w, 1, c * w, c


def swapped(sizes):
    _, c, h, w = sizes
    return c * h * w, 1, c, h * c


for why, answer in [
    ("gives row-major strides", lambda s: (s[1] * s[2] * s[3], s[2] * s[3], s[3], 1)),
    ("swaps height and width", swapped),
    ("takes the batch for fastest", lambda s: (1, s[0], s[0] * s[1] * s[3], s[0] * s[1])),
    (CONSTANT, lambda s: (48, 1, 12, 3)),
]:
    answers.wrong("channels_last_strides", why)(answer)

test_answers = answers.tests()


def test_torch_agrees_on_the_strides_of_channels_last():
    for sizes in ((2, 3, 4, 5), (2, 2, 7, 3)):
        x = torch.empty(sizes, memory_format=torch.channels_last)
        assert x.stride() == channels_last_strides(sizes)


def test_a_kernel_without_padding_passes_the_stages_before():
    unpadded = changed("sizeof(ITEM) < 4 ? 34 : 33", "32")
    parts = outcomes(find("memory_layout.reorder_kernel"), (unpadded, launch), 11)
    assert [one.state for one in parts] == ["done", "done", "wrong", "wrong", "wrong"]


def test_what_is_said_of_a_kernel_is_short():
    (evidence,) = failing_cases(find("memory_layout.reorder_kernel"), (NAIVE, launch), 11)[:1]
    assert "of float, thread order" in evidence.input and "array(" not in evidence.got


def test_a_slip_earns_the_hint_about_it():
    formats, kernel = find("memory_layout.format_of"), find("memory_layout.reorder_kernel")
    assert "Only `flatten`" in first_hint(formats, answer_with(dense, flattens=as_contiguous))
    assert "Only `flatten`" in first_hint(formats, answer_with(dense, flattens=ends_in_1))
    assert "channels_last_3d" in first_hint(formats, answer_with(dense, wanted=four_only))
    pitch = changed("sizeof(ITEM) < 4 ? 34 : 33", "34")
    assert "an odd number" in first_hint(kernel, (pitch, launch))
    unpadded = changed("threadIdx.y * kPitch", "threadIdx.y * 32")
    unpadded = unpadded.replace("threadIdx.x * kPitch", "threadIdx.x * 32")
    assert "Padding counts where it is in the address" in first_hint(kernel, (unpadded, launch))
    bare = changed("sizeof(ITEM) < 4 ? 34 : 33", "32")
    assert "all lanes of a column meet in one bank" in first_hint(kernel, (bare, launch))
    strides = find("memory_layout.channels_last_strides")
    assert "The channels are right" in first_hint(strides, swapped)
