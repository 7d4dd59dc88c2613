"""Two rules of memory layout: the banks of a column, and the strides of channels last."""

from labkit.course.exercise import Exercise, Hint
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST

# --- column_waves

PITCHES = range(1, 130)


def _waves(pitch: int) -> int:
    banks = [lane * pitch % 32 for lane in range(32)]
    return max(map(banks.count, banks))


column_waves = Exercise(
    id="memory_layout.column_waves",
    rung="warm-up",
    case=lambda rng, size: (rng.choice((32, 33, 34, 40, 48, 64, rng.choice(PITCHES))),),
    expected=_waves,
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "For a pitch of {input} your answer is {got}. In which bank is the word of lane 1, and "
            "which other lanes meet it there?",
            when=lambda e: isinstance(e.value, int),
        ),
        "Lane t reads word t * pitch, and word w lies in bank w % 32.",
        "List the 32 banks, and count the one that occurs most often.",
        "max(banks.count(bank) for bank in banks)",
    ),
    must_fail=(
        "counts the banks instead",
        "any pitch but 32 is free",
        "even pitches take 2",
        FIRST,
        CONSTANT,
    ),
)

# --- channels_last_strides


def _channels_last(sizes: tuple[int, int, int, int]) -> tuple[int, ...]:
    _, channels, height, width = sizes
    return channels * height * width, 1, channels * width, channels


channels_last_strides = Exercise(
    id="memory_layout.channels_last_strides",
    rung="warm-up",
    case=lambda rng, size: (tuple(rng.randint(1, 3 + size) for _ in range(4)),),
    expected=_channels_last,
    cases=60,
    minutes=4,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Your strides are right for row-major memory. Here the channels of one pixel lie side "
            "by side.",
            when=lambda e: isinstance(e.value, tuple) and e.value[-1:] == (1,),
        ),
        Hint(
            "The channels are right. Which number comes after the last channel of a pixel: one of "
            "the next column, or of the next row?",
            when=lambda e: e.value[1] == 1,
        ),
        "Which number lies beside x[n, c, h, w] in memory? Its dimension has stride 1.",
        "Go from the fastest dimension to the slowest: c, w, h, n. Each stride is the product of "
        "the sizes before it.",
        "(c * h * w, 1, c * w, c)",
    ),
    must_fail=(
        "gives row-major strides",
        "swaps height and width",
        "takes the batch for fastest",
        FIRST,
        CONSTANT,
    ),
)
