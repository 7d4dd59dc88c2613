"""Right and wrong answers to the four tasks of the learning objectives; the planted faults."""

import heapq
import inspect

import pytest

from labkit.course.seeded_bugs import FAULTS, HEALTHY, planted, run
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
