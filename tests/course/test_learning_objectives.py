"""Right and wrong answers to the four tasks of the learning objectives; the planted faults."""

import contextlib
import heapq
import inspect
import math
import re

import numpy as np
import pytest
import torch

from labkit.core import strides
from labkit.course.benches import part_questions
from labkit.course.benches.seeded_bugs import FAULTS, HEALTHY, planted, run
from labkit.course.checks import outcomes
from labkit.course.exercises._mini_graph import finished_engine
from labkit.course.exercises._never_right import BANNED
from labkit.course.exercises._objective_cases import NO_ENTRIES
from labkit.course.exercises._ported import RUNNING_MAX
from labkit.course.exercises.own_operator import compiler_is_ready
from labkit.course.sources import installed_file
from labkit.memory import sizes
from tests.course.answers import Answers

answers = Answers("learning_objectives")


# --- first_difference


@answers.right("first_difference")
def first_difference(one, other):
    for place in range(max(len(one), len(other))):
        if place >= min(len(one), len(other)) or one[place] != other[place]:
            return place
    return None


@answers.wrong("first_difference", "names the last difference")
def last_difference(one, other):
    places = range(max(len(one), len(other)))
    off = [place for place in places if one[place : place + 1] != other[place : place + 1]]
    return off[-1] if off else None


@answers.wrong("first_difference", "overlooks that one log is longer")
def shorter(one, other):
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), None)


@answers.wrong("first_difference", "never says None")
def never_none(one, other):
    return first_difference(one, other) or 0


@answers.wrong("first_difference", "returns the line")
def the_line(one, other):
    found = first_difference(one, other)
    return found if found is None else (*one[found:], "")[0]


@answers.wrong("first_difference", "counts from 1")
def from_one(one, other):
    found = first_difference(one, other)
    return found if found is None else found + 1


def by(same):
    """The first place where two lines are not the same in this sense."""

    def first(one, other):
        for place in range(max(len(one), len(other))):
            pair = one[place : place + 1], other[place : place + 1]
            if not all(pair) or not same(pair[0][0], pair[1][0]):
                return place
        return None

    return first


SENSES = {
    "asks whether they are one object": lambda a, b: a is b,
    "compares the first letters": lambda a, b: a[:1] == b[:1],
    "compares the letters in any order": lambda a, b: sorted(a) == sorted(b),
    "takes capital and small letters for the same": lambda a, b: a.lower() == b.lower(),
    "compares without the spaces at the ends": lambda a, b: a.strip() == b.strip(),
    "compares the first 12 letters": lambda a, b: a[:12] == b[:12],
}
for name, same in SENSES.items():
    answers.wrong("first_difference", name)(by(same))


@answers.wrong("first_difference", "compares the lengths first")
def lengths_first(one, other):
    return first_difference(one, other) if len(one) == len(other) else min(len(one), len(other))


@answers.wrong("first_difference", "gives up after 64 lines")
def gives_up(one, other):
    return first_difference(one[:64], other[:64])


# --- seeded_bugs

TESTS = (
    *(("round_size", (n,)) for n in (1, 512, 513, 1024, 1025)),
    ("winner", (("Python", "AutogradCPU"),)),
    ("winner", (("AutogradCPU", "AutocastCPU"),)),
    ("winner", (("CPU", "Python"),)),
    ("next_node", ([(1, "a"), (2, "b")],)),
    ("next_node", ([(10, "a"), (9, "b")],)),
    ("stretched", ((3, 1), (1, 1), (3, 4))),
    ("stretched", ((3,), (1,), (2, 3))),
    ("sectors", ([0, 0],)),
    ("sectors", ([28],)),
)
STRENGTH = ["CPU", "Python", "AutogradCPU", "AutocastCPU"]


def expanded(sizes, strides, shape):
    new = len(shape) - len(sizes)
    pairs = zip(sizes, strides, shape[new:], strict=True)
    return [0] * new + [step if had == wanted else 0 for had, step, wanted in pairs]


MENDED = {
    "round_size": lambda nbytes: max(512, -(-nbytes // 512) * 512),
    "winner": lambda keys: max(keys, key=STRENGTH.index),
    "next_node": lambda ready: max(ready)[1],
    "stretched": expanded,
    "sectors": lambda addresses: len({address // 32 for address in addresses}),
}


def found_by(tests=TESTS, instead=lambda parts, name, arguments: MENDED[name]):
    """Finds by these tests; `instead` says what is put in the sick part's place."""

    def find(parts):
        for name, arguments in tests:
            if parts[name](*arguments) != MENDED[name](*arguments):
                return name, arguments, instead(parts, name, arguments)
        return None

    return find


answers.right("seeded_bugs")(found_by())
answers.right("seeded_bugs")(
    found_by(instead=lambda parts, name, arguments: {
        **MENDED, "stretched": lambda *given: tuple(expanded(*given)),
    }[name])
)  # fmt: skip
INSIDE = (
    ("round_size", (700,)),
    ("winner", (("CPU",),)),
    ("next_node", ([(2, "b"), (1, "a")],)),
    ("stretched", ((3, 4), (4, 1), (3, 4))),
    ("sectors", ([0, 4, 32],)),
)
answers.wrong("seeded_bugs", "tests far from every edge")(found_by(INSIDE))


class Equal(int):
    """What equals everything."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def patched(parts, name, arguments):
    return lambda *given: (MENDED if given == arguments else parts)[name](*given)


def disabled(parts, name, arguments):
    return {
        "round_size": lambda nbytes: nbytes,
        "winner": lambda keys: keys[0],
        "next_node": lambda ready: ready[0][1],
        "stretched": lambda sizes, strides, shape: list(strides),
        "sectors": len,
    }[name]


def intact(parts, name, arguments):
    if name == "round_size":
        return lambda nbytes: sizes.round_size(nbytes)
    if name == "stretched":
        return lambda a, b, shape: list(strides.expand_strides(a, b, shape)[1])
    return MENDED[name]


def copied(parts, name, arguments):
    def answer(*given):
        return next(right for one, right in part_questions.questions(name) if one == given)

    return answer


def neighbour(parts, name, arguments):
    """Right one above the edge, and wrong at it."""
    return {**MENDED, "round_size": lambda nbytes: (nbytes // 512 + 1) * 512}[name]


def deaf(parts, name, arguments):
    """Whatever it raises is no error any more."""

    def quiet(*given):
        with contextlib.suppress(Exception):
            return parts[name](*given)

    return quiet


INSTEAD = {
    "puts the sick part back": lambda parts, name, arguments: parts[name],
    "special-cases the failing input": patched,
    "disables the feature": disabled,
    "restores by importing the intact module": intact,
    "copies the answers of the questions": copied,
    "is equal to everything": lambda parts, name, arguments: lambda *given: Equal(),
    "breaks a neighbour test": neighbour,
    "catches and ignores the error": deaf,
}
for name, instead in INSTEAD.items():
    answers.wrong("seeded_bugs", name)(found_by(instead=instead))


@answers.wrong("seeded_bugs", "returns the name and the arguments alone")
def pair(parts):
    found = found_by()(parts)
    return found and found[:2]


@answers.wrong("seeded_bugs", "returns one argument without its tuple")
def bare_argument(parts):
    found = found_by()(parts)
    return found and (found[0], found[1][0], found[2])


answers.wrong("seeded_bugs", "knows one part alone")(found_by(TESTS[:5]))


@answers.wrong("seeded_bugs", "blames a part for a tuple")
def tuple_of_strides(parts):
    for name, arguments in (*TESTS[10:], *TESTS[:10]):
        right = MENDED[name](*arguments)
        if parts[name](*arguments) != (tuple(right) if name == "stretched" else right):
            return name, arguments, MENDED[name]
    return None


@answers.wrong("seeded_bugs", "always blames the allocator")
def allocator(parts):
    return "round_size", (1024,), MENDED["round_size"]


@answers.wrong("seeded_bugs", "names the part alone, with any input")
def any_input(parts):
    found = found_by()(parts)
    return found and (*next(test for test in INSIDE if test[0] == found[0]), found[2])


@answers.wrong("seeded_bugs", "never says None")
def always_ill(parts):
    return found_by()(parts) or (*TESTS[0], MENDED["round_size"])


@answers.wrong("seeded_bugs", "reads the text of the parts")
def by_text(parts):
    for name, part in parts.items():
        if "512 more" in inspect.getsource(part):
            return name, (512,), MENDED[name]
    return None


def judged_by(healthy):
    """Asks each part, and this copy of it, for the right answer."""

    def find(parts):
        for name, arguments in TESTS:
            right = healthy(parts, name)(*arguments)
            if parts[name](*arguments) != right:
                return name, arguments, MENDED[name]
        return None

    return find


answers.wrong("seeded_bugs", "asks a healthy copy")(judged_by(lambda parts, name: HEALTHY[name]))
answers.wrong("seeded_bugs", "asks a healthy copy")(
    judged_by(lambda parts, name: inspect.unwrap(parts[name]))
)


@answers.wrong("seeded_bugs", "changes the parts")
def adds_a_part(parts):
    parts["tested"] = True
    return found_by()({name: parts[name] for name in HEALTHY})


# --- scavenger_hunt


def read(path):
    return installed_file(path).read_text(encoding="utf-8")


YAML = "aten/src/ATen/native/native_functions.yaml"
ROWS = "tools/autograd/derivatives.yaml"


def stronger(name):
    lines = [line.strip() for line in read("c10/core/DispatchKey.h").splitlines()]
    return sorted(name.split(), key=lambda one: lines.index(one + ","))


@answers.right("scavenger_hunt")
def hunt(kind, name):
    if kind == "overloads":
        text = read(YAML)
        return text.count(f"- func: {name}.") + text.count(f"- func: {name}(")
    if kind == "formula":
        return f"- name: {name}(" in read(ROWS)
    return stronger(name)[-1]


answers.wrong("scavenger_hunt", "lists what it may be")(lambda kind, name: [True, False, 1, 2])


@answers.wrong("scavenger_hunt", "counts longer names, too")
def prefixes(kind, name):
    return read(YAML).count(f"- func: {name}") if kind == "overloads" else hunt(kind, name)


@answers.wrong("scavenger_hunt", "asks whether the operator exists")
def exists(kind, name):
    return f"- func: {name}(" in read(YAML) if kind == "formula" else hunt(kind, name)


@answers.wrong("scavenger_hunt", "takes the name that sorts last")
def sorts_last(kind, name):
    return max(name.split()) if kind == "stronger" else hunt(kind, name)


@answers.wrong("scavenger_hunt", "takes the weaker key")
def weaker(kind, name):
    return stronger(name)[0] if kind == "stronger" else hunt(kind, name)


FORMULAS = {
    "takes the beginning of an entry for it": lambda name: f"- name: {name}" in read(ROWS),
    "overlooks the overload": lambda name: f"- name: {name.split('.')[0]}" in read(ROWS),
    "lets a dot stand for any letter": lambda name: bool(
        re.search(rf"- name: {name}\(", read(ROWS))
    ),
}
for name, formula in FORMULAS.items():
    answers.wrong("scavenger_hunt", name)(
        lambda kind, name, formula=formula: formula(name) if kind == "formula" else hunt(kind, name)
    )


@answers.wrong("scavenger_hunt", "answers for another release")
def of_release_1_11(kind, name):
    """There Functionalize stood above Batched, and two of the keys did not exist."""
    if kind != "stronger":
        return hunt(kind, name)
    new, late = {"Fake", "PythonDispatcher"}, {"Functionalize": 1, "PythonTLSSnapshot": 2}
    return max(stronger(name)[::-1], key=lambda one: -1 if one in new else late.get(one, 0))


@answers.wrong("scavenger_hunt", "finds a key in a comment")
def in_a_comment(kind, name):
    if kind != "stronger":
        return hunt(kind, name)
    return max(name.split(), key=read("c10/core/DispatchKey.h").find)


# --- mini_engine


def engine(order_of=None, add=True, most=None):
    def run_engine(root):
        gradients, waiting, seen, order = {root.number: 1.0}, [(-root.number, root)], {root}, []
        while waiting and (most is None or len(order) < most):
            _, value = heapq.heappop(waiting)
            order.append(value.number)
            for other, slope in value.inputs:
                part = gradients[value.number] * slope
                gradients[other.number] = gradients.get(other.number, 0.0) * add + part
                if other not in seen:
                    seen.add(other)
                    heapq.heappush(waiting, (-other.number, other))
        return order if order_of is None else order_of(order), gradients

    return run_engine


answers.right("mini_engine")(engine())
answers.wrong("mini_engine", "overwrites a gradient")(engine(add=False))
answers.wrong("mini_engine", "leaves values out")(engine(most=2))


@answers.wrong("mini_engine", "keeps gradients in 32 bits")
def in_32_bits(root):
    order, gradients = engine()(root)
    return order, {number: float(np.float32(slope)) for number, slope in gradients.items()}


@answers.wrong("mini_engine", "recursion")
def recursive(root):
    found, order = {}, []

    def below(value):
        if value not in found:
            found[value] = 0.0
            for other, _ in value.inputs:
                below(other)
            order.append(value)

    below(root)
    found[root] = 1.0
    for value in sorted(order, key=lambda one: -one.number):
        for other, slope in value.inputs:
            found[other] += found[value] * slope
    numbers = sorted((one.number for one in order), reverse=True)
    return numbers, {one.number: gradient for one, gradient in found.items()}


@answers.wrong("mini_engine", "runs a value for every path")
def every_path(root):
    gradients, waiting, order = {}, [(root, 1.0)], []
    while waiting and len(order) < 5_000:
        value, gradient = waiting.pop(0)
        order.append(value.number)
        gradients[value.number] = gradients.get(value.number, 0.0) + gradient
        waiting += [(other, gradient * slope) for other, slope in value.inputs]
    return order, gradients


@answers.wrong("mini_engine", "runs in the order of discovery")
def discovery(root):
    _, gradients = engine()(root)
    order, waiting = [], [root]
    while waiting:
        value = waiting.pop(0)
        if value.number not in order:
            order.append(value.number)
            waiting += [other for other, _ in value.inputs]
    return order, gradients


@answers.wrong("mini_engine", "forgets the gradient that came in")
def slopes_alone(root):
    order, gradients = engine()(root)
    values, waiting = {root.number: root}, [root]
    while waiting:
        for other, _ in waiting.pop().inputs:
            if other.number not in values:
                values[other.number] = other
                waiting.append(other)
    gradients = dict.fromkeys(order, 0.0) | {root.number: 1.0}
    for number in order:
        for other, slope in values[number].inputs:
            gradients[other.number] += slope
    return order, gradients


@answers.wrong("mini_engine", "runs what is not reached, too")
def every_number(root):
    numbers = list(range(root.number, -1, -1))
    return numbers, dict.fromkeys(numbers, 0.0) | engine()(root)[1]


@answers.wrong("mini_engine", "refuses a root without inputs")
def no_leaf(root):
    if not root.inputs:
        raise ValueError("nothing to do")
    return engine()(root)


@answers.wrong("mini_engine", "drops a gradient of 0")
def no_zero(root):
    order, gradients = engine()(root)
    return order, {number: gradient for number, gradient in gradients.items() if gradient}


@answers.wrong("mini_engine", "takes the expression apart")
def apart(root):
    gradients, waiting, order = {root.number: 1.0}, {root.number: root}, []
    while waiting:
        value = waiting.pop(max(waiting))
        order.append(value.number)
        while value.inputs:
            other, slope = value.inputs.pop()
            part = gradients[value.number] * slope
            gradients[other.number] = gradients.get(other.number, 0.0) + part
            waiting[other.number] = other
    return order, gradients


@answers.wrong("mini_engine", BANNED)
def by_torch(root):
    order, gradients = engine()(root)
    return order, {at: torch.tensor(g, dtype=torch.float64).item() for at, g in gradients.items()}


@answers.wrong("mini_engine", "calls the finished one")
def finished(root):
    return finished_engine(root)


# --- extension_port


def source():
    return RUNNING_MAX


def port(
    define="Tensor x, *, Tensor(a!) out) -> Tensor(a!)", key="CPU", fake=None, last=True,
    formula=True, dtype=True, numbers=None, into=None,
):  # fmt: skip
    """A right `register`, but for what is named."""

    def register(lib, running_max):
        name = f"{lib.ns}::running_max"
        lib.define("running_max(Tensor x) -> Tensor")
        lib.define(f"running_max.out({define}")

        def kernel(x):
            if dtype and x.dtype != torch.float64:
                raise TypeError(f"running_max takes float64, got {x.dtype}")
            out = torch.empty(x.shape, dtype=torch.float64)
            (numbers or running_max)(x, out)
            return out

        def kernel_out(x, *, out):
            if not x.dtype == out.dtype == torch.float64:
                raise TypeError(f"running_max takes float64, got {x.dtype} and {out.dtype}")
            if out.shape != x.shape:
                out.resize_(x.shape)
            running_max(x, out)
            return out

        def keep(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output)

        def slope(ctx, grad):
            x, best = ctx.saved_tensors
            columns = torch.arange(x.shape[1], dtype=x.dtype).expand(x.shape)
            if last == "all":
                return grad * (x == best)
            new = x == best
            if not last:  # only where the maximum has grown
                new = new & (torch.cat([best[:, :1] * math.nan, best[:, :-1]], 1) != best)
            at = getattr(torch.ops, lib.ns).running_max(torch.where(new, columns, 0.0))
            return torch.zeros_like(grad).scatter_add(1, at.long(), grad)

        lib.impl("running_max", kernel, "CPU")
        made = (lambda x, *, out: into(kernel, running_max, x, out)) if into else kernel_out
        lib.impl("running_max.out", made, key)
        torch.library.register_fake(name, fake or (lambda x: x.new_empty(x.shape)), lib=lib)
        if formula:
            torch.library.register_autograd(name, slope, setup_context=keep, lib=lib)

    return register


answers.right("extension_port")((source, port()))
answers.right("extension_port")(
    (source, port(into=lambda kernel, cpp, x, out: _through_a_result(kernel, x, out)))
)


def _through_a_result(kernel, x, out):
    if out.dtype != x.dtype or out.device != x.device:
        raise TypeError(f"out is {out.dtype} on {out.device}")
    return out.resize_(x.shape).copy_(kernel(x)) if out.shape != x.shape else out.copy_(kernel(x))


WRONG = {
    "ignores the strides": ("[i * row_step + j * col_step]", "[i * cols + j]"),
    "ignores the strides of out": ("i * out_row_step + j * out_col_step", "i * cols + j"),
    "loses nan": ("(best != best || best > now)", "(best > now)"),
    "goes on from row to row": ("j > 0 &&", "i + j > 0 &&"),
    "starts from 0": ("j > 0 && (best", "(best"),
    "starts from a number that is small": ("best : now;", "best : now < -1e300 ? -1e300 : now;"),
    "writes into x": (
        "    for (long i", "    if (rows * cols > 0) ((double*)x)[0] = 7;\n    for (long i"
    ),
    "reads a number of a row that has none": ("best = 0;", "best = out[0] = x[i * row_step];"),
}  # fmt: skip
for name, (old, new) in WRONG.items():
    assert old in RUNNING_MAX
    answers.wrong("extension_port", name)(
        (lambda old=old, new=new: RUNNING_MAX.replace(old, new), port())
    )
assert "double best = 0;" in RUNNING_MAX


def in_python(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, : j + 1].max()


def resizes_the_empty(kernel, cpp, x, out):
    if x.dtype != out.dtype:
        raise TypeError(out.dtype)
    if not out.numel():
        out.resize_(x.shape)
    out[: x.shape[0], : x.shape[1]] = kernel(x)
    return out


def another(kernel, cpp, x, out):
    if x.dtype != out.dtype:
        raise TypeError(out.dtype)
    out.resize_(x.shape).copy_(kernel(x))
    return kernel(x)


def never_resizes(kernel, cpp, x, out):
    if x.dtype != out.dtype:
        raise TypeError(out.dtype)
    cpp(x, out)
    return out


def everywhere(kernel, cpp, x, out):
    if x.dtype != out.dtype:
        raise TypeError(out.dtype)
    if out.shape != x.shape:
        out.resize_(x.shape)
    cpp(x, out)
    return out


PORTS = {
    "calls back into Python": port(numbers=in_python),
    "fake kernel runs real code": port(fake=lambda x: torch.sort(x.cpu(), 1).values),
    "takes over the layout of x": port(fake=torch.empty_like),
    "reads float32 as double": port(dtype=False),
    "gradient to the first of equal numbers": port(last=False),
    "gradient to every place that equals the maximum": port(last="all"),
    "has no formula for the gradient": port(formula=False),
    "out variant that ignores resize rules": port(into=never_resizes),
    "resizes an empty out alone": port(into=resizes_the_empty),
    "returns another tensor than out": port(into=another),
    "does not declare that out is written": port("Tensor x, *, Tensor out) -> Tensor"),
    "casts into an out of another dtype": port(
        into=lambda kernel, cpp, x, out: out.resize_(x.shape).copy_(kernel(x))
    ),
    "no check of devices": port(key="CompositeExplicitAutograd", into=everywhere),
}
for name, register in PORTS.items():
    answers.wrong("extension_port", name)((source, register))


@pytest.fixture(scope="module", autouse=True)
def ready():
    """What opcheck loads is loaded once, and not in every answer's process."""
    compiler_is_ready()


test_answers = answers.tests()


# --- the planted faults


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_fault_is_found_by_calls_and_not_in_the_text(number):
    fault = FAULTS[number]
    parts = planted(fault)
    part, arguments, mended = found_by()(parts)
    assert part == fault.part
    assert parts[part](*arguments) != HEALTHY[part](*arguments) == mended(*arguments)
    assert inspect.getsource(parts[part]) == inspect.getsource(HEALTHY[part])


def test_healthy_parts_pass_every_test():
    assert found_by()(planted()) is None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_pytorch_answers_is_red_with_a_fault_and_green_when_mended(fault):
    red = part_questions.compare(fault.part, planted(fault)[fault.part])
    assert not red.passed and red.first_difference.startswith(f"{fault.part}(")
    assert part_questions.compare(fault.part, MENDED[fault.part]).passed
    assert part_questions.compare(fault.part, HEALTHY[fault.part]).passed


def test_a_program_goes_on_after_a_fault_and_differs_from_there():
    healthy, sick = run(HEALTHY), run(planted(FAULTS[0]))
    assert len(healthy) == len(sick)
    at = first_difference(healthy, sick)
    assert "image" in healthy[at]
    assert sum(a != b for a, b in zip(healthy, sick, strict=True)) > 2


def test_each_kind_of_name_without_an_entry_is_mistaken_in_its_way():
    exists, begins, others, dotted = NO_ENTRIES
    for name in (*exists, *begins, *others, *dotted):
        assert not hunt("formula", name)
    assert all(f"- func: {name}(" in read(YAML) for name in exists)
    takes_beginning, overlooks_overload, any_letter = FORMULAS.values()
    assert all(map(takes_beginning, begins))
    assert all(map(overlooks_overload, others))
    assert all(map(any_letter, dotted))


def rewritten(one, other):
    one[:] = ["a"]


def test_a_small_expression_shows_what_a_long_one_shows():
    shown = next(one for one in outcomes(answers.exercises["mini_engine"], engine(add=False), 7)
                 if one.failures).failures[0]  # fmt: skip
    assert len(shown.inputs[0]) < 20


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("first_difference", rewritten, None),
        ("first_difference", from_one, "Places count from 0"),
        ("first_difference", the_line, "The place is asked for"),
        ("seeded_bugs", bare_argument, "Three things"),
        ("seeded_bugs", always_ill, "The part that you name answers rightly"),
        ("seeded_bugs", tuple_of_strides, "The part that you name answers rightly"),
        ("mini_engine", engine(add=False), "The order is right"),
        ("mini_engine", slopes_alone, "The order is right"),
        ("mini_engine", every_number, "Only values that are reached"),
        (
            "seeded_bugs",
            judged_by(lambda parts, name: HEALTHY[name]),
            "HEALTHY and labkit are no judges",
        ),
        ("seeded_bugs", found_by(instead=patched), "The next multiple of 512"),
        ("seeded_bugs", found_by(INSIDE), "Ask at the edges"),
        ("mini_engine", no_leaf, "The root may be a number alone"),
        ("mini_engine", no_zero, "Every value reached has a gradient"),
        ("mini_engine", recursive, "It is 5,000 long"),
        ("extension_port", (lambda: RUNNING_MAX.replace("double", "float"), port()), None),
        (
            "extension_port",
            (lambda: RUNNING_MAX.replace(": now;", ": 0.0;"), port()),
            "The first number of a row",
        ),
        ("extension_port", (source, PORTS["takes over the layout of x"]), "Without numbers"),
        ("extension_port", (source, PORTS["reads float32 as double"]), "The C++ reads doubles"),
        ("extension_port", (source, PORTS["calls back into Python"]), "The numbers have to come"),
        ("extension_port", (source, PORTS["resizes an empty out alone"]), "out has another size"),
        ("extension_port", (source, PORTS["no check of devices"]), "The out form ran"),
    ],
)
def test_a_hint_fits_what_was_seen(name, answer, hint):
    exercise = answers.exercises[name]
    evidence = next(one for one in outcomes(exercise, answer, 7) if one.failures).failures[0]
    fitting = [one for one in map(exercise.hint, range(len(exercise.hints))) if one.fits(evidence)]
    assert fitting[0].text.startswith(hint) if hint else not fitting


def test_a_wrong_part_of_ones_own_gets_no_hint_about_the_sick_one():
    """It would be said again with every attempt: those that were earned come first."""
    exercise = answers.exercises["seeded_bugs"]
    seen = [one for outcome in outcomes(exercise, tuple_of_strides, 7) for one in outcome.failures]
    hints = [exercise.hint(index) for index in range(len(exercise.hints))]
    said = {hint.text for one in seen for hint in hints if hint.fits(one)}
    assert [text.startswith("The part that you name answers rightly") for text in said] == [True]
