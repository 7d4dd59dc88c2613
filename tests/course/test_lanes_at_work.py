"""Right and wrong answers to the exercises of lanes and warps at work."""

import pytest

from labkit import course
from labkit.course.exercises import lanes_at_work
from tests.course.answers import Answers, first_hint

answers = Answers("lanes_at_work")
CONSTANT = "returns the literal answer of the example in the statement"


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


# --- adding, by_registers


@answers.right("adding")
def adding(step):
    return min(8, 256 // (2 * step))


@answers.right("by_registers")
def by_registers(registers, threads):
    a_warp = -(-registers * 32 // 256) * 256
    return 65536 // a_warp // 4 * 4 // (threads // 32)


for name, why, answer in [
    ("adding", "counts the lanes", lambda step: 256 // (2 * step)),
    ("adding", "all warps always", lambda step: 8),
    ("adding", "whole warps of adding lanes", lambda step: -(-256 // (2 * step) // 32)),
    ("adding", CONSTANT, lambda step: 2),
    (
        "by_registers",
        "divides all registers by those of a block",
        lambda registers, threads: 65536 // (registers * threads),
    ),
    (
        "by_registers",
        "ignores the fours",
        lambda registers, threads: 65536 // (-(-registers * 32 // 256) * 256) // (threads // 32),
    ),
    (
        "by_registers",
        "ignores the portions",
        lambda registers, threads: 65536 // (registers * 32) // 4 * 4 // (threads // 32),
    ),
    (
        "by_registers",
        "ignores the fours",
        lambda registers, threads: 65536 // (-(-registers // 8) * 8 * threads),
    ),
    (
        "by_registers",
        "at most 32 blocks",
        lambda registers, threads: min(32, by_registers(registers, threads)),
    ),
    ("by_registers", CONSTANT, lambda registers, threads: 3),
]:
    answers.wrong(name, why)(answer)

# --- block_sum

SUM = r"""extern "C" __global__
void block_sum(const float* x, float* out, int n) {
    __shared__ float part[8];
    int t = threadIdx.x;
    float v = 0;
    for (int i = t; i < n; i += 256) v += x[i];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
    if (t % 32 == 0) part[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 8 ? part[t] : 0;
        for (int step = 4; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
        if (t == 0) out[0] = v;
    }
}
"""
LAST = SUM[SUM.index("    if (t < 32) {") :]
ONE_ADDS = """    if (t == 0) {
        for (int w = 1; w < 8; ++w) v += part[w];
        out[0] = v;
    }
}
"""
answers.right("block_sum")(lambda: SUM)
answers.right("block_sum")(changed(SUM, (LAST, ONE_ADDS)))
answers.right("block_sum")(changed(SUM, ("__shfl_down_sync", "__shfl_xor_sync")))

TREE = r"""extern "C" __global__
void block_sum(const float* x, float* out, int n) {
    __shared__ float sums[256];
    int t = threadIdx.x;
    float v = 0;
    for (int i = t; i < n; i += 256) v += x[i];
    sums[t] = v;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) sums[t] += sums[t + step];
        __syncthreads();
    }
    if (t == 0) out[0] = sums[0];
}
"""
ATOMICS = r"""extern "C" __global__
void block_sum(const float* x, float* out, int n) {
    int t = threadIdx.x;
    float v = 0;
    if (t == 0) out[0] = 0;
    for (int i = t; i < n; i += 256) v += x[i];
    __syncthreads();
    atomicAdd(out, v);
}
"""
ONE_WARP = r"""extern "C" __global__
void block_sum(const float* x, float* out, int n) {
    int t = threadIdx.x;
    if (t >= 32) return;
    float v = 0;
    for (int i = t; i < n; i += 32) v += x[i];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
    if (t == 0) out[0] = v;
}
"""
ONE_THREAD = r"""extern "C" __global__
void block_sum(const float* x, float* out, int n) {
    double v = 0;
    if (threadIdx.x) return;
    for (int i = 0; i < n; ++i) v += x[i];
    out[0] = v;
}
"""
WHOLE = [("    float v = 0;", "    int v = 0;")]
LOOP = "for (int i = t; i < n; i += 256) v += x[i];"
HALVED = "for (int half = n / 2; t < half && half < n; half = n) v = x[t] + x[t + half];"
for why, answer in [
    ("atomics in float", lambda: ATOMICS),
    ("no sync between shuffle phases", changed(SUM, ("    __syncthreads();\n", ""))),
    ("takes 256 numbers only", changed(SUM, (LOOP, "if (t < n) v = x[t];"))),
    ("assumes a power of two", changed(SUM, (LOOP, HALVED))),
    ("loses minus infinity", changed(SUM, ("v += x[i];", "v += x[i] < -1e30f ? 0 : x[i];"))),
    (
        "cuts large numbers off",
        changed(SUM, ("v += x[i];", "v += fabsf(x[i]) < 1e30f ? fminf(x[i], 1e5f) : x[i];")),
    ),
    ("adds in whole numbers", changed(SUM, *WHOLE)),
    ("loses NaN", changed(SUM, ("v += x[i];", "v += x[i] == x[i] ? x[i] : 0;"))),
    (
        "full mask in a partial warp",
        changed(SUM, ("    float v = 0;\n", "    float v = 0;\n    if (t >= n) return;\n")),
    ),
    ("a tree in shared memory", lambda: TREE),
    (
        "two barriers in a row",
        changed(SUM, ("    __syncthreads();\n", "    __syncthreads();\n" * 2)),
    ),
    ("no barrier", changed(SUM, ("    __syncthreads();\n", ""))),
    ("one warp does all", lambda: ONE_WARP),
    ("one thread does all", lambda: ONE_THREAD),
    ("adds to what was in out", changed(SUM, ("out[0] = v", "out[0] += v"))),
    ("writes to x", changed(SUM, ("v += x[i];", "{ v += x[i]; ((float*)x)[i] = 0; }"))),
    ("writes to x", changed(SUM, ("out[0] = v;", "out[0] = v, ((float*)x)[0] = 99;"))),
    (
        "a piece for each thread",
        changed(
            SUM,
            ("int i = t; i < n; i += 256", "int i = t * per; i < n && i < t * per + per; ++i"),
            ("    float v", "    int per = (n + 255) / 256;\n    float v"),
        ),
    ),
    ("ends after 2048 numbers", changed(SUM, ("i < n;", "i < n && i < 2048;"))),
    (
        "reads some numbers twice",
        changed(SUM, ("v += x[i];", "v += 0 * x[i / 2] + x[i];")),
    ),
]:
    answers.wrong("block_sum", why)(answer)

# --- pick_a_block


def room(registers, shared, threads):
    used = -(-(shared + 1024) // 128) * 128
    return {
        "registers": by_registers(registers, threads),
        "shared": 233472 // used,
        "warps": 64 // (threads // 32),
        "blocks": 32,
    }


def picking(room=room, shape=True, sizes=range(32, 1025, 32), last=False, full=0, less=0):
    """An answer that leaves something out."""

    def pick_a_block(registers, shared, per_thread, n):
        found = []
        for threads in sizes:
            limits = room(registers, shared + per_thread * threads, threads)
            names = list(reversed(limits)) if last else list(limits)
            limiter = min(names, key=limits.__getitem__)
            blocks = 132 * limits[limiter]
            needed = -(-(n - less) // threads)
            if shape and needed < blocks + full:
                blocks, limiter = needed, "shape"
            found.append((blocks * threads, threads, limiter))
        most = max(one[0] for one in found)
        return next(one[1:] for one in found if one[0] == most)

    return pick_a_block


answers.right("pick_a_block")(picking())
mine = course.yours(by_registers, by_registers)  # as the chapter's `room` has it
answers.right("pick_a_block")(
    picking(lambda *asked: room(*asked) | {"registers": mine(asked[0], asked[2])})
)


def without_portions(registers, shared, threads):
    return room(registers, shared, threads) | {"registers": 65536 // (registers * threads)}


for why, answer in [
    ("always 256", picking(sizes=(256,))),
    ("the largest block", picking(sizes=(1024,))),
    ("ignores shared bytes", picking(lambda r, s, t: room(r, 0, t))),
    ("ignores the portions of registers", picking(without_portions)),
    ("ignores the shape", picking(shape=False)),
    ("the largest of equals", picking(sizes=range(1024, 31, -32))),
    ("names the last of equal limits", picking(last=True)),
    ("shape where the device is full", picking(full=1)),
    ("one element less", picking(less=1)),
    (CONSTANT, lambda *_: (128, "registers")),
]:
    answers.wrong("pick_a_block", why)(answer)

test_answers = answers.tests()

OF_NVIDIA = [
    (203, 116000, 576, 0), (98, 231000, 928, 0), (171, 232448, 96, 1), (70, 1, 800, 1),
    (8, 7168, 960, 2), (128, 49152, 160, 3), (4, 17000, 608, 3), (203, 1000, 64, 4),
    (22, 1000, 384, 5), (37, 128, 288, 5), (130, 1, 64, 6), (14, 128, 288, 7), (247, 127, 32, 8),
    (15, 1, 192, 10), (95, 128, 64, 10), (37, 17000, 128, 12), (23, 7168, 128, 16),
    (114, 0, 32, 16), (69, 128, 32, 28), (11, 1, 32, 32),
]  # fmt: skip
"""(registers, shared bytes, threads, blocks) by the calculator in CUDA's cuda_occupancy.h, 9.0."""


@pytest.mark.parametrize(("registers", "shared", "threads", "blocks"), OF_NVIDIA)
def test_the_four_limits_are_those_of_the_calculator(registers, shared, threads, blocks):
    assert min(lanes_at_work._room(registers, shared, threads)) == blocks


def test_a_text_that_does_not_compile_is_told_so():
    assert "did not run" in first_hint(lanes_at_work.block_sum, lambda: "hello")


@pytest.mark.parametrize(
    "change", [*WHOLE, ("out[0] = v", "out[0] += v"), ("x[i];", "x[i] == x[i] ? x[i] : 0;")]
)
def test_a_sum_of_something_else_is_told_what_is_added(change):
    assert "as they are, as floats" in first_hint(lanes_at_work.block_sum, changed(SUM, change))


def test_lanes_outside_the_mask_are_told_of_it():
    narrow = changed(
        SUM,
        ("if (t < 32) {\n        v = t < 8 ? part[t] : 0;", "if (t < 8) {\n        v = part[t];"),
        ("step = 4; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff",
         "step = 4; step > 0; step /= 2) v += __shfl_down_sync(0xff"),
    )  # fmt: skip
    assert "only from lanes in it" in first_hint(lanes_at_work.block_sum, narrow)


def test_a_partial_warp_is_told_of_its_lanes():
    early = changed(SUM, ("    float v = 0;\n", "    float v = 0;\n    if (n && t >= n) return;\n"))
    assert "all lanes in its mask" in first_hint(lanes_at_work.block_sum, early)
