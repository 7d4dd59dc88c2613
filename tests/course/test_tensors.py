import pytest
import torch

from labkit.course.exercise import Case
from labkit.course.exercises import tensors
from tests.course.answers import CATCHES, Answers, catches, first_hint

answers = Answers("tensors")
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"
LITERAL = "returns the literal answer of the example in the statement"


# --- kind and number_dtype


@answers.right("kind")
def kind_of(name):
    kinds = ["bool", "int", "float", "complex"]
    return next(at for at in (3, 2, 1, 0) if kinds[at] in name)


@answers.wrong("kind", "takes uint8 for a bool")
def unsigned_is_bool(name):
    return 0 if name in ("bool", "uint8") else kind_of(name)


@answers.wrong("kind", "takes bfloat16 for no float")
def no_brain_float(name):
    return 1 if name == "bfloat16" else kind_of(name)


@answers.wrong("kind", "knows three kinds")
def three_kinds(name):
    return min(2, kind_of(name))


@answers.right("number_dtype")
def number_dtype(number, default):
    wide = {"float32": "complex64", "float64": "complex128"}
    return {bool: "bool", int: "int64", float: default, complex: wide[default]}[type(number)]


@answers.wrong("number_dtype", "takes True for an int")
def no_bools(number, default):
    return "int64" if isinstance(number, int) else number_dtype(number, default)


@answers.wrong("number_dtype", "ignores the default dtype")
def always_single(number, default):
    return number_dtype(number, "float32")


@answers.wrong("number_dtype", "looks at the value")
def whole_is_int(number, default):
    whole = isinstance(number, float) and number == int(number)
    return "int64" if whole else number_dtype(number, default)


# --- promote

INTS = ["uint8", "int8", "int16", "int32", "int64"]
WIDTH = {
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex32": 16,
    "complex64": 32,
    "complex128": 64,
}
COMPLEX = {16: "complex32", 32: "complex64", 64: "complex128"}


def kind(name):
    return 0 if name == "bool" else 1 if name in INTS else 2 if "float" in name else 3


def with_width(complex_, width):
    return COMPLEX[width] if complex_ else f"float{width}"


def join(a, b):
    """The smallest dtype that holds what both hold."""
    if a is None or b is None or a == b:
        return a or b
    if kind(a) < kind(b):
        a, b = b, a
    if kind(a) == 1:
        unsigned = "uint8" in (a, b) and "int8" in (a, b)
        return a if kind(b) == 0 else "int16" if unsigned else max(a, b, key=INTS.index)
    if kind(b) < 2:
        return a
    if "bfloat16" in (a, b) and WIDTH[a] == WIDTH[b] == 16:
        return with_width(kind(a) == 3, 32)
    wide = max(WIDTH[a], WIDTH[b])
    return a if WIDTH[a] == wide and kind(a) == 2 else with_width(kind(a) == 3, wide)


def over(high, low):
    """The higher category decides, unless the lower one is of a higher kind."""
    if high is None or low is None or kind(low) <= kind(high):
        return high or low
    if kind(high) == 2:
        return join(high, "complex32")
    return low


@answers.right("promote")
def promote(operands, default):
    number = {
        bool: "bool",
        int: "int64",
        float: default,
        complex: "complex64" if default == "float32" else "complex128",
    }
    joined = {"dimensioned": None, "zero-dim": None, "number": None}
    for category, what in operands:
        name = number[type(what)] if category == "number" else what
        joined[category] = join(joined[category], name)
    return over(joined["dimensioned"], over(joined["zero-dim"], joined["number"]))


def names(operands, default):
    number = {bool: "bool", int: "int64", float: default, complex: "complex64"}
    return [number[type(what)] if kind == "number" else what for kind, what in operands]


@answers.wrong("promote", "promotes by item size")
def by_item_size(operands, default):
    return max(names(operands, default), key=lambda name: getattr(torch, name).itemsize)


@answers.wrong("promote", "lets Python numbers widen")
def numbers_widen(operands, default):
    widened = [
        ("zero-dim", names([operand], "float64")[0]) if operand[0] == "number" else operand
        for operand in operands
    ]
    return promote(widened, default)


@answers.wrong("promote", "ignores the default dtype for bool + float number")
def ignores_the_default(operands, default):
    return promote(operands, "float32")


@answers.wrong("promote", "knows no complex dtype")
def stops_at_complex(operands, default):
    if any("complex" in name for name in names(operands, default)):
        raise StopIteration
    return promote(operands, default)


@answers.wrong("promote", "treats 0-dim like dimensioned")
def treats_all_tensors_alike(operands, default):
    alike = [("dimensioned" if k == "zero-dim" else k, what) for k, what in operands]
    return promote(alike, default)


@answers.wrong("promote", "keeps the width of complex from below")
def own_width(operands, default):
    """A complex result keeps the width it has in its own category."""
    parts = [[one for one in operands if one[0] == category] for category in tensors.CATEGORIES]
    said = [promote(part, default) for part in parts if part]
    found = [name for name in said if name.startswith("complex")]
    return found[0] if found else promote(operands, default)


@answers.wrong("promote", "takes the last of several numbers")
def the_last_number(operands, default):
    *_, last = [operand for operand in operands if operand[0] == "number"] or [None]
    kept = [one for one in operands if one[0] != "number" or one is last]
    return promote(kept, default)


@answers.wrong("promote", "a table for the printed examples")
def a_table(operands, default):
    table = {("int8", 200): "int8", ("int8", "int64"): "int8", ("bool", 1.5): "float32"}
    return table.get(tuple(what for _, what in operands), "float32")


@answers.wrong("promote", BANNED)
def asks_torch(operands, default):
    made = [
        what if kind == "number" else torch.zeros(1, dtype=getattr(torch, what))
        for kind, what in operands
    ]
    return str(torch.result_type(made[0], made[-1])).removeprefix("torch.")


@answers.wrong("promote", ELSEWHERE)
def single_precision_only(operands, default):
    result = promote(operands, default)
    return {"float64": "float32", "complex128": "complex64"}.get(result, result)


@answers.right("share_or_copy")
def share_or_copy(call):
    if call["step"] < 0:
        return "raises", "negative_strides"
    if call["call"] == "tensor":
        return "copies", "always_copies"
    if call["source"] == "list":
        return "copies", "no_buffer"
    if call["device"] != "cpu":
        return "copies", "other_device"
    if call["dtype"] not in (None, call["source_dtype"]):
        return "copies", "other_dtype"
    return "shares", "same_memory"


def with_changes(**changes):
    return lambda call: share_or_copy(call | changes)


@answers.wrong("share_or_copy", "asks for the dtype before the device")
def dtype_first(call):
    other = call["dtype"] not in (None, call["source_dtype"])
    found = share_or_copy(call)
    return ("copies", "other_dtype") if found[1] == "other_device" and other else found


@answers.wrong("share_or_copy", "refuses a list")
def refuses_lists(call):
    found = share_or_copy(call)
    return ("raises", "no_buffer") if found[1] == "no_buffer" else found


@answers.wrong("share_or_copy", "copies what must not be changed")
def copies_read_only(call):
    found = share_or_copy(call)
    return found if call["writable"] or found[0] == "raises" else ("copies", found[1])


@answers.wrong("share_or_copy", "from_numpy always shares")
def from_numpy_shares(call):
    shares = call["call"] == "from_numpy"
    return ("shares", "same_memory") if shares else share_or_copy(call)


@answers.wrong("share_or_copy", "as_tensor always copies")
def as_tensor_copies(call):
    copies = call["call"] == "as_tensor" and call["step"] > 0
    return ("copies", "always_copies") if copies else share_or_copy(call)


answers.wrong("share_or_copy", "ignores a dtype change")(with_changes(dtype=None))
answers.wrong("share_or_copy", "ignores device")(with_changes(device="cpu"))
answers.wrong("share_or_copy", LITERAL)(lambda call: ("shares", "same_memory"))
answers.wrong("share_or_copy", CATCHES)(
    catches(lambda call: share_or_copy(call | {"step": 1 / (call["step"] + 1)}), ("copies", ""))
)


def packed(sizes, order):
    """Dense strides; `order` lists the axes from the slowest to the fastest."""
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(sizes[axis], 1)
    return tuple(strides)


def walks(sizes, strides, order):
    """Whether these strides are the dense ones of that order; axes of size 1 do not count."""
    wanted = packed(sizes, order)
    return 0 in sizes or all(strides[a] == wanted[a] for a in order if sizes[a] != 1)


def put(values, axis, *new):
    return (*values[:axis], *new, *values[axis + 1 :])


NUMBER = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
NHWC = (0, 2, 3, 1)
ONE_AXIS = ("transpose", "select", "narrow", "squeeze")


def created(name, arguments, options):
    sizes = arguments[0]
    dtype = "float32"
    if name == "eye":
        sizes = arguments
    elif name == "arange":
        dtype, sizes = NUMBER[type(sizes)], (int(sizes),)
    elif name == "full":
        dtype = NUMBER[type(arguments[1])]
    return sizes, packed(sizes, range(len(sizes))), 0, options.get("dtype", dtype)


def viewed(sizes, strides, offset, dtype, name, arguments, options):
    axes = range(len(sizes))
    axis = arguments[0] % max(len(sizes), 1) if name in ONE_AXIS else 0
    if name.endswith("_like"):
        return sizes, strides, 0, options.get("dtype", dtype)
    if name == "to":
        return sizes, strides, offset if arguments[0] == dtype else 0, arguments[0]
    if name in ("contiguous", "channels_last"):
        order = axes if name == "contiguous" else NHWC
        same = walks(sizes, strides, order)
        return sizes, strides if same else packed(sizes, order), offset if same else 0, dtype
    if name in ("transpose", "permute"):
        order = [a % len(sizes) for a in arguments[0]] if name == "permute" else list(axes)
        if name == "transpose":
            other = arguments[1] % len(sizes)
            order[axis], order[other] = order[other], order[axis]
        return tuple(sizes[a] for a in order), tuple(strides[a] for a in order), offset, dtype
    if name == "select":
        offset += arguments[1] % sizes[axis] * strides[axis]
        return put(sizes, axis), put(strides, axis), offset, dtype
    if name == "narrow":
        return put(sizes, axis, arguments[2]), strides, offset + arguments[1] * strides[axis], dtype
    if name == "squeeze":
        if sizes and sizes[axis] == 1:
            sizes, strides = put(sizes, axis), put(strides, axis)
        return sizes, strides, offset, dtype
    if name == "unsqueeze":
        axis = arguments[0] % (len(sizes) + 1)
        sizes, strides = (*sizes[:axis], 1, *sizes[axis:]), (*strides[:axis], 1, *strides[axis:])
        return sizes, strides, offset, dtype
    new = len(arguments[0]) - len(sizes)
    kept = [s if n == m else 0 for n, m, s in zip(sizes, arguments[0][new:], strides, strict=True)]
    return arguments[0], (*[0] * new, *kept), offset, dtype


@answers.right("metadata_from_call")
def metadata_from_call(calls):
    meta = created(*calls[0])
    for call in calls[1:]:
        meta = viewed(*meta, *call)
    return meta


def step_by_step(rule):
    """The right answer with one more rule applied to what each call gives."""

    def answer(calls):
        meta = created(*calls[0])
        for call in calls[1:]:
            meta = rule(meta, viewed(*meta, *call), call)
        return meta

    return answer


def row_major(before, after, call):
    sizes, _, offset, dtype = after
    return sizes, packed(sizes, range(len(sizes))), offset, dtype


def select_without_offset(before, after, call):
    return (*after[:2], before[2], after[3]) if call[0] == "select" else after


def expand_with_ones(before, after, call):
    sizes, strides, offset, dtype = after
    if call[0] == "expand":
        strides = tuple(stride or 1 for stride in strides)
    return sizes, strides, offset, dtype


def full_like_is_row_major(before, after, call):
    return row_major(before, after, call) if call[0] == "full_like" else after


def contiguous_only(before, after, call):
    return row_major(before, after, call) if call[0] != "expand" else after


@answers.wrong("metadata_from_call", "gives full and arange the default dtype")
def always_the_default_dtype(calls):
    *layout, dtype = metadata_from_call(calls)
    name, _, options = calls[0]
    return *layout, "float32" if name in ("full", "arange") and not options else dtype


for why, rule in [
    ("row-major strides for everything", row_major),
    ("forgets the offset of select", select_without_offset),
    ("stride 1 for expanded dims", expand_with_ones),
    ("full_like loses the memory format", full_like_is_row_major),
    ("is right only for square, even or contiguous shapes", contiguous_only),
]:
    answers.wrong("metadata_from_call", why)(step_by_step(rule))


@answers.wrong("metadata_from_call", BANNED)
def makes_tensors(calls):
    tensor = torch.zeros(calls[0][1][0] if calls[0][0] == "zeros" else (2,))
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), "float32"


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("promote", own_width, "the width of the float above"),
        ("promote", the_last_number, "Numbers are joined"),
        ("promote", stops_at_complex, "know no complex dtype"),
        ("share_or_copy", dtype_first, "in the order of the task"),
        ("share_or_copy", refuses_lists, "copy what a list holds"),
        ("share_or_copy", copies_read_only, "torch only warns"),
    ],
)
def test_a_mistake_earns_its_own_hint(name, answer, said):
    for seed in (7, 8, 9):
        assert said in first_hint(answers.exercises[name], answer, seed)


def test_the_pictures_draw_a_wrong_answer():
    calls = [("zeros", ((2, 3),), {}), ("transpose", (0, 1), {})]
    exercise = tensors.metadata_from_call
    view = exercise.picture(Case((calls,)), ((3, 2), (2, 1), 0, "float32"), None)
    assert "yours" in repr(view) and "right" in repr(view)
    call = {"call": "as_tensor", "source_dtype": "float64", "dtype": "float32"}
    assert "as_tensor" in repr(tensors.share_or_copy.picture(Case((call,)), None, None))
