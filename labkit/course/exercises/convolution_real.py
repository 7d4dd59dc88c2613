"""A convolution as one product: its sizes, an entry of its matrix, and a piece gathered from x."""

import math
from typing import Any

import numpy as np

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._conv_cases import a_convolution
from labkit.course.exercises._gemm_rung import implicit_gemm_rung
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.shelf.conv_sizes import Conv

NOTEBOOK = "4_vision_low_level/5_convolution_real"

# --- product_size


def _shapes(rng: Rng, size: int) -> tuple[Any, ...]:
    conv = a_convolution(rng, size, 1)
    return conv.x, conv.w, conv.out_size


def _sizes(x: Any, w: Any, out: Any) -> tuple[int, int, int]:
    return w[0], x[0] * out[0] * out[1], w[1] * w[2] * w[3]


def _part(evidence: Evidence, at: int) -> bool:
    value = evidence.value
    return isinstance(value, tuple) and len(value) == 3 and value[at] != evidence.right[at]


product_size = Exercise(
    id="convolution_real.product_size",
    rung="warm-up",
    case=_shapes,
    expected=_sizes,
    cases=100,
    minutes=3,
    hints=(
        Hint(
            "The depth is what one output sums over: channels times taps.",
            when=lambda e: _part(e, 2),
        ),
        Hint("The columns are the positions of all images.", when=lambda e: _part(e, 1)),
        Hint("The left matrix has a row for each output channel.", when=lambda e: _part(e, 0)),
        "w is [output channels, channels, rows of taps, columns of taps].",
    ),
    must_fail=(
        "forgets the images",
        "forgets the taps",
        "takes the size of x for that of y",
        FIRST,
    ),
)

# --- matrix_entry


def _an_entry(rng: Rng, size: int) -> tuple[Any, ...]:
    conv = a_convolution(rng, size, 1)
    columns = conv.x[0] * math.prod(conv.out_size)
    return rng.randrange(conv.depth), rng.randrange(columns), conv


def _entry(
    d: int, column: int, conv: Conv, dilation: tuple[int, int] | None = None
) -> tuple[int, ...] | None:
    (rows, width), (p_count, q_count) = conv.w[2:], conv.out_size
    c, r, s = d // (rows * width), d // width % rows, d % width
    n, p, q = column // (p_count * q_count), column // q_count % p_count, column % q_count
    down, across = dilation or conv.dilation
    h = p * conv.stride[0] - conv.padding[0] + r * down
    v = q * conv.stride[1] - conv.padding[1] + s * across
    return (n, c, h, v) if _inside((n, c, h, v), conv) else None


def _inside(at: tuple[int, ...], conv: Conv) -> bool:
    return 0 <= at[2] < conv.x[2] and 0 <= at[3] < conv.x[3]


def _is_entry(evidence: Evidence) -> bool:
    return isinstance(evidence.value, tuple) and len(evidence.value) == 4


def _in_words(d: int, column: int, conv: Conv) -> str:
    return f"row {d}, column {column}; {_conv_words(conv)}"


def _conv_words(conv: Conv) -> str:
    steps = f"stride {conv.stride}, padding {conv.padding}, dilation {conv.dilation}"
    return f"x {list(conv.x)}, w {list(conv.w)}, {steps}, out_size {conv.out_size}"


matrix_entry = Exercise(
    id="convolution_real.matrix_entry",
    rung="warm-up",
    case=_an_entry,
    expected=_entry,
    show=_in_words,
    cases=150,
    minutes=4,
    hints=(
        Hint(
            "Two taps that follow each other lie `dilation` apart in the image: r * dilation, "
            "s * dilation.",
            when=lambda e: e.value == _entry(e.inputs[0], e.inputs[1], e.inputs[2], (1, 1)),
        ),
        Hint(
            "This tap lies in the padding: the answer is None.",
            when=lambda e: e.right is None and _is_entry(e) and not _inside(e.value, e.inputs[2]),
        ),
        Hint(
            "Whether the tap lies in the image is off. Take d apart with s the fastest, the column "
            "with q the fastest. Rows and columns of the image count from 0.",
            when=lambda e: (e.right is None) != (e.value is None),
        ),
        Hint(
            "The image or the channel is off. A channel has R * S rows of the matrix, an image "
            "P * Q columns.",
            when=lambda e: _is_entry(e) and e.value[:2] != e.right[:2],
        ),
        Hint(
            "Row or column in the image is off. Take d apart with s the fastest, then "
            "p * stride - padding + r * dilation, and the same with q and s.",
            when=lambda e: _is_entry(e) and e.value[2:] != e.right[2:],
        ),
        "Take d apart from the right: s = d % S, r = d // S % R, c = d // (R * S). The column is "
        "taken apart in the same way, with Q and P.",
    ),
    must_fail=(
        "row and column of the taps swapped",
        "takes the height of x for that of y",
        "ignores the padding",
        "forgets the stride",
        "forgets the dilation",
        FIRST,
    ),
)

# --- gather

PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}


def _a_piece(rng: Rng, size: int, *options: str, images: int = 0, ragged: bool = True) -> Any:
    conv = a_convolution(rng, max(size, 3), 1)
    steps = conv._asdict() | {name: one for name, one in PLAIN.items() if name not in options}
    conv = Conv(**steps)
    height, width = (conv.x[2 + i] + conv.dilation[i] * conv.w[2 + i] for i in (0, 1))
    conv = conv._replace(x=(images or conv.x[0], conv.x[1], height, width))
    columns = conv.x[0] * math.prod(conv.out_size)
    more = 5 if ragged else 0
    rows = np.arange(conv.depth + more)[_window(rng, conv.depth + more)]
    places = np.arange(columns + more)[_window(rng, columns + more)]
    x = np.random.default_rng(rng.getrandbits(30)).integers(1, 90, conv.x).astype(np.float32)
    return x, rows, places, conv


def _window(rng: Rng, count: int) -> slice:
    start = rng.randrange(count)
    return slice(start, start + rng.randint(1, 9))


def _with(*options: str, images: int = 0) -> Any:
    """Pieces inside the matrix, with no other options than these."""
    return lambda rng, size: _a_piece(rng, size, *options, images=images, ragged=False)


def _piece(x: Any, rows: Any, columns: Any, conv: Conv) -> Any:
    found = np.zeros((len(rows), len(columns)), x.dtype)
    last = conv.x[0] * math.prod(conv.out_size)
    for i, d in enumerate(rows):
        for j, column in enumerate(columns):
            if d < conv.depth and column < last and (at := _entry(d, column, conv)):
                found[i, j] = x[at]
    return found


def _pieces_drawn(case: Case, got: Any, right: Any) -> Any:
    """Your piece, each entry right or wrong, and the piece as it should be."""
    from labkit.widgets.cuda.tile_view import TileView

    wanted = _piece(*case.inputs)
    if not isinstance(got, np.ndarray) or got.shape != wanted.shape:
        return TileView([{"name": "the piece", "values": wanted}], title="as it should be")
    status = np.where(got == wanted, "right", "wrong")
    yours = {"name": "your piece", "values": got, "status": status}
    return TileView([yours, {"name": "as it should be", "values": wanted}])


def _piece_words(x: Any, rows: Any, columns: Any, conv: Conv) -> str:
    return (
        f"rows {rows[0]} to {rows[-1]}, columns {columns[0]} to {columns[-1]}; {_conv_words(conv)}"
    )


gather = Exercise(
    id="convolution_real.gather",
    case=lambda rng, size: _a_piece(rng, size, *PLAIN),
    expected=_piece,
    show=_piece_words,
    picture=_pieces_drawn,
    stages=(
        Stage("one image", case=_with(images=1), cases=10),
        Stage("many images", case=_with(), cases=10),
        Stage("stride", case=_with("stride"), cases=10),
        Stage("dilation", case=_with("dilation"), cases=10),
        Stage("padding", case=_with("padding"), cases=10),
        Stage("past the end"),
    ),
    cases=60,
    minutes=12,
    banned=("torch.*",),
    hints=(
        Hint("The piece has the dtype of x.", when=lambda e: e.property.startswith("dtype")),
        Hint("Start from the plain case: h = p + r and v = q + s.", stage="one image"),
        Hint("The image number is the column divided by P * Q.", stage="many images"),
        Hint("Row p begins p * stride rows further down.", stage="stride"),
        Hint("Tap r lies r * dilation rows below the first one.", stage="dilation"),
        Hint(
            "Where h or v lies outside, the entry is 0. An index of -1 is no error in NumPy: it "
            "reads the last row.",
            stage="padding",
        ),
        Hint(
            "Rows from conv.depth on and columns from N P Q on are 0, and nothing is read there.",
            stage="past the end",
        ),
        "Your matrix_entry in two loops is an answer. Faster: d = rows[:, None], "
        "column = columns[None, :], and NumPy does the loops.",
    ),
    must_fail=(
        "reads the last row where the padding is",
        "fails past the end",
        "forgets the images",
        "returns the piece turned",
        "returns float64 whatever x is",
        "forgets the dilation",
        FIRST,
    ),
)

EXERCISES = (product_size, matrix_entry, gather, implicit_gemm_rung)
