from labkit.course.exercises import convolution_repair
from labkit.course.exercises._broken_pictures import RIGHT, WRONG
from labkit.course.exercises._conv_steps import CONSTANT
from labkit.course.exercises.convolution_repair import FIRST, ORDERS
from tests.course.answers import Answers, first_hint

answers = Answers("convolution_repair")

REPAIRED = """extern "C" __global__
void conv2d(const float* x, const float* w, float* y, Conv conv) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= (long long)conv.N * conv.K * conv.P * conv.Q) return;
    const int q = i % conv.Q, p = i / conv.Q % conv.P;
    const int k = i / conv.Q / conv.P % conv.K, n = i / conv.Q / conv.P / conv.K;
    const int channels = conv.C / conv.groups, first = k / (conv.K / conv.groups) * channels;
    float sum = 0;
    for (int c = 0; c < channels; ++c)
        for (int r = 0; r < conv.R; ++r)
            for (int s = 0; s < conv.S; ++s) {
                const int h = p * conv.stride_h - conv.pad_h + r * conv.dilation_h;
                const int v = q * conv.stride_w - conv.pad_w + s * conv.dilation_w;
                if (h < 0 || h >= conv.H || v < 0 || v >= conv.W) continue;
                sum += x[((n * conv.C + first + c) * conv.H + h) * conv.W + v] *
                       w[((k * channels + c) * conv.R + r) * conv.S + s];
            }
    y[i] = sum;
}
"""


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


answers.right("repair_the_conv")(changed(REPAIRED))
answers.right("repair_the_conv")(
    changed(
        REPAIRED,
        ("if (h < 0 || h >= conv.H || v < 0 || v >= conv.W) continue;", ""),
        (
            "sum += x[",
            "if ((unsigned)h < (unsigned)conv.H && (unsigned)v < (unsigned)conv.W) sum += x[",
        ),
    )
)


def wrong(why, *changes):
    answers.wrong("repair_the_conv", why)(changed(REPAIRED, *changes))


wrong("groups ignored", ("conv.C / conv.groups", "conv.C"), ("conv.K / conv.groups", "conv.K"))
wrong("groups ignored", ("k / (conv.K / conv.groups) * channels", "0"))
wrong("dilation ignored", (" + r * conv.dilation_h", " + r"), (" + s * conv.dilation_w", " + s"))
wrong(
    "right for square kernels only", ("s < conv.S", "s < conv.R"), ("* conv.S + s", "* conv.R + s")
)
wrong("right for square kernels only", ("* conv.S + s", "* conv.R + s"))
wrong("right for square kernels only", ("p * conv.stride_h", "p * conv.stride_w"))
wrong(
    "padding by clamped edge",
    (
        "if (h < 0 || h >= conv.H || v < 0 || v >= conv.W) continue;",
        "const int hh = min(max(h, 0), conv.H - 1), vv = min(max(v, 0), conv.W - 1);",
    ),
    ("conv.H + h) * conv.W + v]", "conv.H + hh) * conv.W + vv]"),
)
wrong(
    "reads outside but multiplies by zero",
    (
        "if (h < 0 || h >= conv.H || v < 0 || v >= conv.W) continue;",
        "const float in = h >= 0 && h < conv.H && v >= 0 && v < conv.W;",
    ),
    ("sum += x[", "sum += in * x["),
)
wrong(
    "only for sizes that divide the block",
    ("if (i >= (long long)conv.N * conv.K * conv.P * conv.Q) return;", ""),
)
wrong(
    ORDERS,
    (
        "const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;",
        "__shared__ long long first_i;\n"
        "    if (threadIdx.x == 0) first_i = blockIdx.x * (long long)blockDim.x;\n"
        "    const long long i = first_i + threadIdx.x;",
    ),
)
wrong(
    FIRST,
    ('extern "C"', '__device__ float kept[1 << 14]; __device__ int have;\nextern "C"'),
    (
        "y[i] = sum;",
        "if (!have) kept[i % (1 << 14)] = sum;\n    __syncthreads();\n"
        "    if (i == 0) have = 1;\n    y[i] = kept[i % (1 << 14)];",
    ),
)


TILED = """extern "C" __global__
void conv2d_tile(const float* x, const float* w, float* y, Conv conv) {
    extern __shared__ float tile[];
    const int tw = blockDim.x, th = blockDim.y, t = threadIdx.y * tw + threadIdx.x;
    const int rows = th + conv.R - 1, cols = tw + conv.S - 1;
    const int n = blockIdx.z / conv.K, k = blockIdx.z % conv.K;
    const int first_p = blockIdx.y * th, first_q = blockIdx.x * tw;
    const int p = first_p + threadIdx.y, q = first_q + threadIdx.x;
    float sum = 0;
    for (int c = 0; c < conv.C; ++c) {
        const float* plane = x + (n * conv.C + c) * conv.H * conv.W;
        for (int i = t; i < rows * cols; i += tw * th) {
            const int h = first_p - conv.pad_h + i / cols, v = first_q - conv.pad_w + i % cols;
            const bool in = h >= 0 && h < conv.H && v >= 0 && v < conv.W;
            tile[i] = in ? plane[h * conv.W + v] : 0;
        }
        __syncthreads();  // loaded
        for (int r = 0; r < conv.R; ++r)
            for (int s = 0; s < conv.S; ++s)
                sum += tile[(threadIdx.y + r) * cols + threadIdx.x + s] *
                       w[((k * conv.C + c) * conv.R + r) * conv.S + s];
        __syncthreads();  // used
    }
    if (p < conv.P && q < conv.Q) y[((n * conv.K + k) * conv.P + p) * conv.Q + q] = sum;
}
"""
LOAD = TILED[TILED.index("        for (int i = t;") : TILED.index("        __syncthreads();  // l")]
GUARD = "    if (p < conv.P && q < conv.Q) y["

answers.right("halo_tile")(changed(TILED))
answers.right("halo_tile")(
    changed(
        TILED,
        (
            "for (int i = t; i < rows * cols; i += tw * th) {",
            "for (int j = threadIdx.y; j < rows; j += th)\n"
            "        for (int l = threadIdx.x; l < cols; l += tw) {\n"
            "            const int i = j * cols + l;",
        ),
    )
)


def wrong_tile(why, *changes):
    answers.wrong("halo_tile", why)(changed(TILED, *changes))


wrong_tile(
    "each thread loads its own cell (no reuse)",
    (
        "sum += tile[(threadIdx.y + r) * cols + threadIdx.x + s] *",
        """{
                const int h = p - conv.pad_h + r, v = q - conv.pad_w + s;
                const bool in = h >= 0 && h < conv.H && v >= 0 && v < conv.W;
                tile[t] = in ? plane[h * conv.W + v] : 0;
                sum += tile[t] *""",
    ),
    ("* conv.S + s];\n", "* conv.S + s]; }\n"),
    ("        __syncthreads();  // loaded\n", ""),
    (
        TILED[
            TILED.index("        for (int i = t;") : TILED.index("        __syncthreads();  // l")
        ],
        "",
    ),
)
wrong_tile(
    "halo corners missing",
    (
        "const bool in =",
        "const bool corner = i / cols >= th && i % cols >= tw;\n"
        "            const bool in = !corner &&",
    ),
)
wrong_tile(
    "barrier inside the guard",
    ("    float sum = 0;\n", "    if (p >= conv.P || q >= conv.Q) return;\n    float sum = 0;\n"),
)
wrong_tile(
    "barrier inside the guard",
    ("        __syncthreads();  // used", "        if (p < conv.P && q < conv.Q) __syncthreads();"),
)
wrong_tile("second barrier missing", ("        __syncthreads();  // used\n", ""))
wrong_tile(
    "tile sized to the test",
    ("extern __shared__ float tile[];", "__shared__ float tile[10 * 34];"),
    ("th + conv.R - 1, cols = tw + conv.S - 1", "10, cols = 34"),
)
wrong_tile(ORDERS, ("        __syncthreads();  // loaded\n", ""))
wrong_tile(
    "returns NaN or an uninitialised buffer where a value is expected",
    (GUARD, "    if (p < conv.P - 1 && q < conv.Q - 1) y["),
)
wrong_tile(
    "returns NaN or an uninitialised buffer where a value is expected",
    ("tile[i] = in ? plane[h * conv.W + v] : 0;", "if (in) tile[i] = plane[h * conv.W + v];"),
)


PLACES = {
    "tile count": "int tiles",
    "tile index": "tile_p =",
    "stride": "int h",
    "padding": "(h <",
    "bounds": "(v <",
    "weight layout": "w[",
    "pitch": "y[",
}


def named(picture):
    p, q = picture.shape
    if picture[0, -1] == 0:
        return "tile index" if picture[-1, 0] == 0 else "tile count"
    if picture[-1, -1] == 0:
        return "pitch"
    top, left = picture[0, q // 2] == 1, picture[p // 2, 0] == 1
    return {
        (True, True): "?",
        (False, True): "padding",
        (False, False): "weight layout",
        (True, False): "stride" if picture[p // 2, q // 2] == 2 else "bounds",
    }[top, left]


def line_of(bug, source):
    return next(n for n, text in enumerate(source, start=1) if PLACES[bug] in text)


@answers.right("bug_by_picture")
def bug_by_picture(pictures, source):
    bugs = [named(picture) for picture in pictures]
    return [(bug, line_of(bug, source)) for bug in bugs]


@answers.wrong("bug_by_picture", "always out of bounds")
def always_bounds(pictures, source):
    return [("bounds", line_of("bounds", source))] * 6


@answers.wrong("bug_by_picture", "takes the test of y's column for that of x's")
def guard_of_the_outputs(pictures, source):
    guard = next(n for n, text in enumerate(source, start=1) if "q >= conv.Q" in text)
    pairs = bug_by_picture(pictures, source)
    return [(bug, guard if bug == "bounds" else line) for bug, line in pairs]


@answers.wrong("bug_by_picture", "line from the compiler message")
def line_of_the_load(pictures, source):
    """Where a sanitizer points: at the access, not at the line that made its address."""
    access = next(n for n, text in enumerate(source, start=1) if "= x[" in text)
    return [(named(picture), access) for picture in pictures]


@answers.wrong("bug_by_picture", "same class twice")
def no_holes_are_the_same(pictures, source):
    bugs = [named(picture) for picture in pictures]
    bugs = ["tile index" if bug == "tile count" else bug for bug in bugs]
    bugs = ["padding" if bug == "bounds" else bug for bug in bugs]
    return [(bug, line_of(bug, source)) for bug in bugs]


@answers.wrong("bug_by_picture", "returns the literal answer of the example in the statement")
def the_example(pictures, source):
    return [("weight layout", 17)] * 6


@answers.wrong("bug_by_picture", "catches every exception and returns a default")
def catches_everything(pictures, source):
    try:
        order = ["stride", "padding", "bounds", "weight layout", "pitch", "tile index"]
        return [(order[int(p.max()) * 7], 1) for p in pictures]
    except Exception:
        return [("bounds", 14)] * 6


@answers.right("tile_of")
def tile_of(z, columns):
    return z // columns, z % columns


answers.right("tile_of")(divmod)
for why, answer in [
    ("both from z", lambda z, columns: (z, z)),
    ("row and column swapped", lambda z, columns: (z % columns, z // columns)),
    ("divides by one less", lambda z, columns: divmod(z, max(columns - 1, 1))),
    (CONSTANT, lambda z, columns: (1, 1)),
]:
    answers.wrong("tile_of", why)(answer)


@answers.right("weight_place")
def weight_place(index, shape):
    (k, c, r, s), (_, channels, rows, columns) = index, shape
    return ((k * channels + c) * rows + r) * columns + s


@answers.right("weight_place")
def weight_place_in_a_loop(index, shape):
    place = 0
    for i, extent in zip(index, shape, strict=True):
        place = place * extent + i
    return place


def place(formula):
    def answer(index, shape):
        return formula(*index, *shape[1:])

    return answer


for why, formula in [
    ("channels fastest", lambda k, c, r, s, C, R, S: (k * R * S + r * S + s) * C + c),
    ("forgets the channels", lambda k, c, r, s, C, R, S: (k * R + r) * S + s),
    ("rows and columns swapped", lambda k, c, r, s, C, R, S: ((k * C + c) * R + s) * S + r),
    (CONSTANT, lambda *_: 23),
]:
    answers.wrong("weight_place", why)(place(formula))


@answers.right("tap_row")
def tap_row(p, r, stride, pad, dilation, height):
    row = p * stride - pad + r * dilation
    return row if 0 <= row < height else None


for why, answer in [
    ("forgets the stride", lambda p, r, stride, *rest: tap_row(p, r, 1, *rest)),
    ("forgets the dilation", lambda p, r, s, pad, dilation, h: tap_row(p, r, s, pad, 1, h)),
    ("tests one end only", lambda p, r, s, pad, d, h: tap_row(p, r, s, pad, d, 999)),
    ("adds the padding", lambda p, r, s, pad, d, h: tap_row(p, r, s, -pad, d, h)),
    (CONSTANT, lambda *_: 3),
]:
    answers.wrong("tap_row", why)(answer)


test_answers = answers.tests()


def test_a_failing_case_is_drawn():
    case = convolution_repair.tile_of.make(1, 3, 2)
    diagonal = convolution_repair.tile_of.picture(case, [(z, z) for z in range(4)], [])
    assert diagonal.layers[0]["name"] == "blocks per tile"
    exercise = convolution_repair.repair_the_conv
    case = exercise.make(1, 60, 4)
    ignores = changed(REPAIRED, ("- conv.pad_h", ""), ("* conv.stride_h", ""))
    plane = exercise.picture(case, exercise.drive(ignores, *case.inputs), None)
    assert plane.title == "your output"
    case = convolution_repair.bug_by_picture.make(983_764, 0, 0)
    missed = [*case.truth[:2], ("none", 0), *case.truth[3:]]
    assert convolution_repair.bug_by_picture.picture(case, missed, case.truth).frame == 2


def test_no_output_of_a_picture_is_right_by_accident():
    """One wrong sum of this case is right within the rounding of float."""
    case = convolution_repair.bug_by_picture.make(983_764, 26, 5)
    pictures = dict(zip((bug for bug, _ in case.truth), case.inputs[0], strict=True))
    assert (pictures["stride"][0] == RIGHT).all()
    assert (pictures["stride"][1:] == WRONG).all()


def test_a_wrong_stride_earns_the_hint_about_it():
    exercise = answers.exercises["repair_the_conv"]
    turned = changed(REPAIRED, ("p * conv.stride_h", "p * conv.stride_w"))
    assert "counts rows" in first_hint(exercise, turned)
