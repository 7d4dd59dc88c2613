import json
import re
import sys
from pathlib import Path

import pytest
import torch

import labkit as lab
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.course.exercises.source_tree_and_one_call import prepare
from labkit.dispatch.explain import explain
from labkit.ops.iterator import tensor_iterator
from tests.course.answers import CATCHES, FIRST, Answers, first_hint

answers = Answers("source_tree_and_one_call")
LITERAL = "returns the literal answer of the example in the statement"

# --- who called whom


@answers.right("depths")
def depths(events):
    found, inside = [], 0
    for event, name in events:
        if event == "call":
            found.append((inside, name))
            inside += 1
        else:
            inside -= 1
    return found


@answers.wrong("depths", "never comes back up")
def only_deeper(events):
    return list(enumerate(name for event, name in events if event == "call"))


@answers.wrong("depths", "counts the call itself")
def from_one(events):
    return [(depth + 1, name) for depth, name in depths(events)]


@answers.wrong("depths", "lists what returns, in the order of the returns")
def at_the_return(events):
    found, inside = [], 0
    for event, name in events:
        inside += 1 if event == "call" else -1
        if event == "return":
            found.append((inside, name))
    return found


# --- loops that are left


@answers.right("loops")
def loops_left(sizes, steps):
    left = len(sizes)
    for dim in range(1, len(sizes)):
        if all(step[dim] == sizes[dim - 1] * step[dim - 1] for step in steps):
            left -= 1
    return left


@answers.wrong("loops", "asks the first operand alone")
def first_alone(sizes, steps):
    return loops_left(sizes, steps[:1])


@answers.wrong("loops", "joins where any operand goes on")
def any_operand(sizes, steps):
    left = len(sizes)
    for dim in range(1, len(sizes)):
        left -= any(step[dim] == sizes[dim - 1] * step[dim - 1] for step in steps)
    return left


@answers.wrong("loops", "takes the sizes from the outside")
def from_the_outside(sizes, steps):
    return loops_left(sizes[::-1], [step[::-1] for step in steps])


# --- the path of a call

NO_ITERATOR = ("aten::ones", "aten::empty.memory_format", "aten::full", "aten::mm", "aten::t")


@answers.right("path_of_a_call")
def path_of_a_call(call):
    op, args, kwargs = prepare(call)
    with torch.set_grad_enabled(call["grad_mode"]):
        walk = explain(op, *args, **kwargs)
    node = walk.result.grad_fn
    return {
        "hops": [hop["slot"] for hop in walk.hops],
        "node": None if node is None else type(node).__name__,
        "loops": loops(call),
    }


def loops(call):
    if call["op"] in NO_ITERATOR:
        return None
    impls = [lab.empty_strided(sizes, strides).impl for sizes, strides, _ in call["tensors"]]
    name, _, overload = call["op"].partition(".")
    if overload == "out":
        return tensor_iterator.build(impls[:-1], impls[-1:]).ndim
    return tensor_iterator.build(impls, impls[:1] if name.endswith("_") else (None,)).ndim


def without(*slots, when=lambda call: True):
    def answer(call):
        path = path_of_a_call(call)
        if when(call):
            path["hops"] = [slot for slot in path["hops"] if slot not in slots]
        return path

    return answer


EXAMPLE = {"hops": ["AutogradCPU", "CPU"], "node": "AddBackward0", "loops": 1}

for why, answer in [
    ("same path for every operator", lambda call: path_of_a_call(call) | {"hops": EXAMPLE["hops"]}),
    ("forgets ADInplaceOrView for in-place", without("ADInplaceOrView")),
    (
        "Autograd hop under no_grad removed (it stays)",
        without("AutogradCPU", when=lambda call: not call["grad_mode"]),
    ),
    ("misses BackendSelect for factories", without("BackendSelect")),
    (
        "counts loops for every operator",
        lambda call: path_of_a_call(call) | ({"loops": 1} if loops(call) is None else {}),
    ),
    ("runs the call with gradients on", lambda call: path_of_a_call(call | {"grad_mode": True})),
    (LITERAL, lambda call: EXAMPLE),
]:
    answers.wrong("path_of_a_call", why)(answer)

# --- the index

FUNCTION = re.compile(r"- func: ([\w.]+)\(")
DEFINE = re.compile(r"#define (\w+)")
TYPE = re.compile(r"(?:struct|class) (?:C10_API |TORCH_API )?(\w+)(?!.*;$)")


def declarations(files):
    for path, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if path.endswith(".yaml"):
                if found := FUNCTION.match(line):
                    yield f"aten::{found[1]}", (path, number)
            elif found := DEFINE.match(line) or TYPE.match(line):
                yield found[1], (path, number)


@answers.right("find_the_file")
def find_the_file(files):
    return dict(declarations(files)).__getitem__


@answers.wrong("find_the_file", "first textual hit")
def first_hit(files):
    right = find_the_file(files)

    def find(symbol):
        for path, text in files.items():
            if symbol.removeprefix("aten::") in text:
                before = text[: text.index(symbol.removeprefix("aten::"))]
                return path, before.count("\n") + 1
        return right(symbol)

    return find


@answers.wrong("find_the_file", "ignores overload names")
def any_overload(files):
    table = {}
    for symbol, place in declarations(files):
        table.setdefault(symbol.partition(".")[0], place)
    return lambda symbol: table[symbol.partition(".")[0]]


@answers.wrong("find_the_file", "rescans for each query")
def rescans(files):
    return lambda symbol: dict(declarations(files))[symbol]


@answers.wrong("find_the_file", "case-insensitive")
def any_case(files):
    table = {symbol.lower(): place for symbol, place in declarations(files)}
    return lambda symbol: table[symbol.lower()]


@answers.wrong("find_the_file", "finds a mention, not the declaration")
def forward_declarations(files):
    table = dict(declarations(files))
    for path, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if found := re.match(r"(?:struct|class) (?:C10_API |TORCH_API )?(\w+)", line):
                table[found[1]] = path, number
    return table.__getitem__


@answers.wrong("find_the_file", TOO_SLOW)
def searches_a_list(files):
    known = list(declarations(files))

    def find(symbol):
        for name, place in known:
            if name == symbol:
                return place
        raise KeyError(symbol)

    return find


@answers.wrong("find_the_file", FIRST, make=True)
def remembers_the_first_tree():
    kept = []

    def answer(files):
        kept.append(find_the_file(files))
        return kept[0]

    return answer


@answers.wrong("find_the_file", CATCHES)
def never_raises(files):
    return dict(declarations(files)).get


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("counts loops for every operator", "ones, empty, full, mm and t are None"),
        ("runs the call with gradients on", "Who records the node?"),
        ("Autograd hop under no_grad removed (it stays)", "one hop short: AutogradCPU"),
        ("misses BackendSelect for factories", "A call without a tensor argument"),
    ],
)
def test_the_hint_is_about_the_part_that_is_wrong(why, said):
    (make,) = [make for name, make in answers.wrongs["path_of_a_call"] if name == why]
    assert said in first_hint(answers.exercises["path_of_a_call"], make())


NOTEBOOK = Path(__file__).parents[2] / "notebooks/2_core_code/7_source_tree_and_one_call.ipynb"


def test_the_chapter_hears_all_five_parts_of_a_call():
    """Its table names functions of labkit: one that is called otherwise now would be missing."""
    cells = {
        cell["id"]: "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"]
    }
    chapter = {"Path": Path, "sys": sys}
    for part in ("sc-listen", "sc-parts", "sc-v2"):
        exec(cells[part], chapter)
    x, row = lab.ones(2, 3, requires_grad=True), lab.ones(3)
    heard = chapter["python_parts"](lambda: x + row)
    calls = [part for event, part in heard if event == "call"]
    assert calls == ["binding", "dispatcher", "autograd", "iterator", "loop"]
