"""Right and wrong answers to the four tasks of the learning objectives; the planted faults."""

import heapq
import inspect
import re

import pytest

from labkit.course.benches.seeded_bugs import FAULTS, HEALTHY, planted, run
from labkit.course.checks import outcomes
from labkit.course.exercises._mini_graph import finished_engine
from labkit.course.exercises._objective_cases import NO_ENTRIES
from labkit.course.sources import installed_file
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
    *(("round_size", (n,), -(-n // 512) * 512) for n in (1, 512, 513, 1024, 1025)),
    ("winner", (("Python", "AutogradCPU"),), "AutogradCPU"),
    ("winner", (("AutogradCPU", "AutocastCPU"),), "AutocastCPU"),
    ("winner", (("CPU", "Python"),), "Python"),
    ("next_node", ([(1, "a"), (2, "b")],), "b"),
    ("next_node", ([(10, "a"), (9, "b")],), "a"),
    ("stretched", ((3, 1), (1, 1), (3, 4)), [1, 0]),
    ("stretched", ((3,), (1,), (2, 3)), [0, 1]),
    ("sectors", ([0, 0],), 1),
    ("sectors", ([28],), 1),
)


def found_by(tests):
    def find(parts):
        for part, arguments, right in tests:
            if parts[part](*arguments) != right:
                return part, arguments, right
        return None

    return find


answers.right("seeded_bugs")(found_by(TESTS))
INSIDE = (
    ("round_size", (700,), 1024),
    ("winner", (("CPU",),), "CPU"),
    ("next_node", ([(2, "b"), (1, "a")],), "b"),
    ("stretched", ((3, 4), (4, 1), (3, 4)), [4, 1]),
    ("sectors", ([0, 4, 32],), 2),
)
answers.wrong("seeded_bugs", "tests far from every edge")(found_by(INSIDE))


@answers.wrong("seeded_bugs", "always blames the allocator")
def allocator(parts):
    return "round_size", (1024,), 1024


@answers.wrong("seeded_bugs", "believes what the part says")
def believes(parts):
    found = found_by(TESTS)(parts)
    return found and (*found[:2], parts[found[0]](*found[1]))


@answers.wrong("seeded_bugs", "names the part alone, with any input")
def any_input(parts):
    found = found_by(TESTS)(parts)
    return found and next(test for test in INSIDE if test[0] == found[0])


@answers.wrong("seeded_bugs", "never says None")
def always_ill(parts):
    return found_by(TESTS)(parts) or TESTS[0]


@answers.wrong("seeded_bugs", "reads the text of the parts")
def by_text(parts):
    for name, part in parts.items():
        if "512 more" in inspect.getsource(part):
            return name, (512,), 512
    return None


@answers.right("seeded_bugs")
def strides_as_a_tuple(parts):
    found = found_by(TESTS)(parts)
    return found and (*found[:2], tuple(found[2]) if isinstance(found[2], list) else found[2])


def judged_by(healthy):
    """Asks each part, and this copy of it, for the right answer."""

    def find(parts):
        for name, arguments, _ in TESTS:
            right = healthy(parts, name)(*arguments)
            if parts[name](*arguments) != right:
                return name, arguments, right
        return None

    return find


answers.wrong("seeded_bugs", "asks a healthy copy")(judged_by(lambda parts, name: HEALTHY[name]))
answers.wrong("seeded_bugs", "asks a healthy copy")(
    judged_by(lambda parts, name: inspect.unwrap(parts[name]))
)


@answers.wrong("seeded_bugs", "changes the parts")
def adds_a_part(parts):
    parts["tested"] = True
    return found_by(TESTS)({name: parts[name] for name in HEALTHY})


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


@answers.wrong("mini_engine", "calls the finished one")
def finished(root):
    return finished_engine(root)


# --- extension_port

SOURCE = """
extern "C" void running_max(const double* x, long rows, long cols, long row_step, long col_step,
                            double* out) {
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < cols; j++) {
            double now = x[i * row_step + j * col_step];
            double best = j > 0 ? out[i * cols + j - 1] : now;
            out[i * cols + j] = best != best || best > now ? best : now;
        }
}
"""


@answers.right("extension_port")
def source():
    return SOURCE


WRONG = {
    "ignores the strides": ("i * row_step + j * col_step", "i * cols + j"),
    "loses nan": ("best != best || best > now ? best : now", "best > now ? best : now"),
    "goes on from row to row": ("j > 0 ?", "i + j > 0 ?"),
    "starts from 0": (": now;\n            out", ": 0.0;\n            out"),
    "starts from a number that is small": ("1] : now;", "1] : (now < -1e300 ? -1e300 : now);"),
    "writes into x": ("}\n}\n", "}\n    if (rows * cols > 0) ((double*)x)[0] = 7;\n}\n"),
    "reads a number of a row that has none": (
        "        for",
        "        out[0] = x[i * row_step];\n        for",
    ),
}
for name, (old, new) in WRONG.items():
    assert old in SOURCE
    answers.wrong("extension_port", name)(lambda old=old, new=new: SOURCE.replace(old, new))


test_answers = answers.tests()


# --- the planted faults


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_fault_is_found_by_calls_and_not_in_the_text(number):
    fault = FAULTS[number]
    parts = planted(fault)
    part, arguments, right = found_by(TESTS)(parts)
    assert part == fault.part
    assert parts[part](*arguments) != HEALTHY[part](*arguments) == right
    assert inspect.getsource(parts[part]) == inspect.getsource(HEALTHY[part])


def test_healthy_parts_pass_every_test():
    assert found_by(TESTS)(planted()) is None


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


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("first_difference", rewritten, None),
        ("seeded_bugs", judged_by(lambda parts, name: HEALTHY[name]), "HEALTHY is no judge"),
        ("seeded_bugs", believes, "The part is found"),
        ("mini_engine", no_leaf, "The root may be a number alone"),
        ("mini_engine", no_zero, "Every value reached has a gradient"),
        ("mini_engine", recursive, "It is 5,000 long"),
        ("extension_port", lambda: SOURCE.replace("double", "float"), None),
        ("extension_port", lambda: SOURCE.replace(": now;", ": 0.0;"), "The first number of a row"),
    ],
)
def test_a_hint_fits_what_was_seen(name, answer, hint):
    exercise = answers.exercises[name]
    evidence = next(one for one in outcomes(exercise, answer, 7) if one.failures).failures[0]
    fitting = [one for one in map(exercise.hint, range(len(exercise.hints))) if one.fits(evidence)]
    assert fitting[0].text.startswith(hint) if hint else not fitting
