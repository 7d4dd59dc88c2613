"""Right and wrong answers to the exercises on views that are written."""

from collections import Counter

import pytest

from labkit.course.checking.stages import stage_exercises
from labkit.course.exercise import Case
from labkit.course.exercises import find
from labkit.course.exercises.versions import Node, Tensor
from tests.course.answers import Answers, catches, first_hint

answers = Answers("versions")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
CATCHES = "catches every exception and returns a default"

# --- rebase_history


def scaled(factor, edge):
    return Node("MulBackward0", [edge], lambda grad: [[factor * g for g in grad]])


def picked(name, places, count, edge):
    def backward(grad):
        whole = [0.0] * count
        for place, g in zip(places, grad, strict=True):
            whole[place] += g
        return [whole]

    return Node(name, [edge], backward)


def refuse(tensor, happened):
    name = tensor.view_name.removesuffix("Backward0")
    raise RuntimeError(f"Output {tensor.output_nr} of {name} is a view and {happened} inplace.")


def history(tensor):
    if tensor.base is not None and tensor.made_at != tensor.version[0]:
        if tensor.several:
            refuse(tensor, "its base or another view of its base has been modified")
        count = len(tensor.base.places)
        tensor.node = picked("AsStridedBackward0", tensor.places, count, history(tensor.base))
        tensor.made_at, tensor.view_name, tensor.output_nr = (
            tensor.version[0], "AsStridedBackward0", 0,
        )  # fmt: skip
    return tensor.node


def view(tensor, places, name, output_nr):
    node = picked(name, list(places), len(tensor.places), history(tensor))
    several = tensor.several or name == "UnbindBackward0"
    covered = tuple(tensor.places[place] for place in places)
    base = tensor if tensor.base is None else tensor.base
    return Tensor(
        tensor.memory, covered, node, tensor.version, base, name, output_nr, several
    )  # fmt: skip


def copied(places, factor, edge):
    function = scaled(factor, edge)

    def backward(grad):
        result = list(grad)
        (part,) = function.backward([grad[place] for place in places])
        for place, g in zip(places, part, strict=True):
            result[place] = g
        return [result]

    return Node("CopySlices", [edge], backward)


def write(tensor, factor):
    for place in tensor.places:
        tensor.memory[place] *= factor
    tensor.version[0] += 1


def mul_(tensor, factor):
    if tensor.several:
        refuse(tensor, "is being modified")
    write(tensor, factor)
    if tensor.base is None:
        tensor.node = scaled(factor, tensor.node)
        return
    tensor.base.node = copied(tensor.places, factor, tensor.base.node)
    history(tensor)


answers.right("rebase_history")((view, mul_, history))


def mul_says_backward0(tensor, factor):
    if tensor.several:
        name = f"Output {tensor.output_nr} of {tensor.view_name}"
        raise RuntimeError(f"{name} is a view and is being modified inplace.")
    mul_(tensor, factor)


answers.wrong("rebase_history", "says the name with Backward0")((view, mul_says_backward0, history))


def mul_on_the_view_only(tensor, factor):
    if tensor.several:
        refuse(tensor, "is being modified")
    before = history(tensor)
    write(tensor, factor)
    tensor.node, tensor.made_at = scaled(factor, before), tensor.version[0]


answers.wrong("rebase_history", "rebases the view only")((view, mul_on_the_view_only, history))


def stale(tensor):
    return tensor.node


answers.wrong("rebase_history", "siblings keep stale nodes")((view, mul_, stale))


def view_with_a_version(tensor, *rest):
    made = view(tensor, *rest)
    made.version = list(made.version)
    return made


answers.wrong("rebase_history", "version per tensor")((view_with_a_version, mul_, history))


def view_of_unbind(tensor, *rest):
    made = view(tensor, *rest)
    made.several = False
    return made


answers.wrong("rebase_history", "allows unbind outputs")((view_of_unbind, mul_, history))


def view_forgets(tensor, places, name, output_nr):
    made = view(tensor, places, name, output_nr)
    made.several = name == "UnbindBackward0"
    return made


answers.wrong("rebase_history", "chain of views loses the restriction")(
    (view_forgets, mul_, history)
)


@lambda make: answers.wrong("rebase_history", FIRST, make=True)(make)
def remembers_a_view():
    first = []

    def remembered(tensor, places, name, output_nr):
        first.append(view(tensor, places, name, output_nr))
        return first[0]

    return remembered, mul_, history


def mul_to_nan(tensor, factor):
    mul_(tensor, factor)
    for place in tensor.places:
        tensor.memory[place] = float("nan")


NAN = "returns NaN or an uninitialised buffer where a value is expected"
answers.wrong("rebase_history", NAN)((view, mul_to_nan, history))


def view_clears(tensor, places, name, output_nr):
    made = view(tensor, places, name, output_nr)
    places.clear()
    return made


CHANGES = "returns the right value but changes one of its inputs"
answers.wrong("rebase_history", CHANGES)((view_clears, mul_, history))

# --- will_backward_refuse

RESULT, INPUT = ("exp", "tanh", "sigmoid"), ("sin", "cos", "square")


def predict(
    program, *, leaf=True, views=True, data_counts=False, add_keeps=False, path=True, keeps=True,
    needs_matter=True, leaves_only=False, last=False,
):  # fmt: skip
    storage, needs, is_leaf, reach = {}, {}, {}, {}
    version, changes = {}, {}
    for step in program:
        kind, name, *rest = step
        if kind == "leaf":
            storage[name], needs[name], is_leaf[name], reach[name] = name, rest[0], rest[0], []
            version[name] = changes[name] = 0
        elif kind == "write":
            if rest[0] == "plain" and is_leaf[name] and leaf:
                return "refused at the write", [name]
            changes[storage[name]] += 1
            version[storage[name]] += rest[0] != "data" or data_counts
        elif kind == "backward":
            kept = reach[name] if path else [one for found in reach.values() for one in found]
            if last:
                kept = {one[0]: one for one in sorted(kept)}.values()
            stale = {n for n, v, _ in kept if version[storage[n]] != v}
            if leaves_only:
                stale = {n for n in stale if n in "ab"}
            if stale:
                return "refused at backward", sorted(stale)
            silent = {n for n, _, c in kept if changes[storage[n]] != c}
            return ("silently wrong", sorted(silent)) if silent else ("fine", [])
        else:
            is_view = kind == "view" and views
            storage[name] = storage[rest[0]] if is_view else name
            needs[name] = any(needs[one] for one in rest)
            is_leaf[name] = is_view and is_leaf[rest[0]]
            if not is_view:
                version[name] = changes[name] = 0
            kept = []
            if needs[name] or not needs_matter:
                kept = [name] * (kind in RESULT) + rest * (kind in INPUT)
                if kind == "mul":
                    left, right = rest
                    kept = [right] * needs[left] + [left] * needs[right]
                    kept = kept if needs_matter else rest
                if kind == "add" and add_keeps:
                    kept = rest
            entries = [(n, version[storage[n]], changes[storage[n]]) for n in kept if keeps]
            reach[name] = entries + [one for r in rest if needs[r] for one in reach[r]]
    raise ValueError("a program ends with backward")


def with_options(**options):
    return lambda program: predict(program, **options)


answers.right("will_backward_refuse")(with_options())
for why, options in [
    (".data is refused", {"data_counts": True}),
    ("only leaves matter", {"leaves_only": True}),
    ("only leaves matter", {"keeps": False}),
    ("ignores that add does not save its inputs", {"add_keeps": True}),
    ("any in-place is refused", {"path": False}),
    ("any in-place is refused", {"needs_matter": False}),
    ("only leaves matter", {"views": False}),
    ("any in-place is refused", {"leaf": False}),
    ("of a tensor kept twice asks the last time alone", {"last": True}),
]:
    answers.wrong("will_backward_refuse", why)(with_options(**options))


@answers.wrong("will_backward_refuse", "any in-place is refused")
def any_write(program):
    verdict, names = predict(program)
    written = sorted({step[1] for step in program if step[0] == "write"})
    if verdict == "fine" and written:
        return "refused at backward", written
    return verdict, names


@answers.wrong("will_backward_refuse", LITERAL)
def the_example(program):
    return "refused at backward", ["t0"]


answers.wrong("will_backward_refuse", CATCHES)(
    catches(lambda program: predict([s for s in program if s[2:] != ("no_grad",) or 1 / 0]),
            ("fine", []))
)  # fmt: skip


def test_all_four_verdicts_are_asked_for_and_torch_agrees_with_the_kept_names():
    exercise = find("versions.will_backward_refuse")
    counts = Counter()
    for number in range(300):
        (program,) = exercise.make(8, number, number * 8 // 300).inputs
        verdict, names = exercise.expected(program)
        counts[verdict] += 1
        counts["views"] += any(step[0] == "view" for step in program)
        assert bool(names) == (verdict != "fine"), program
        assert predict(program) == (verdict, names), program
    verdicts = ("fine", "refused at the write", "refused at backward", "silently wrong")
    assert all(counts[verdict] > 20 for verdict in verdicts), counts
    assert counts["views"] > 60


# --- unpack, kept_by, through_copy


@answers.right("unpack")
def unpack(saved):
    memory, version, expected = saved
    if version[0] != expected:
        raise RuntimeError(f"is at version {version[0]}; expected version {expected} instead")
    return memory


@answers.wrong("unpack", "never refuses")
def unpack_always(saved):
    return saved[0]


@answers.wrong("unpack", "refuses larger versions alone")
def unpack_smaller(saved):
    return unpack(saved) if saved[1][0] > saved[2] else saved[0]


@answers.wrong("unpack", "changes the two numbers round")
def unpack_round(saved):
    memory, version, expected = saved
    if version[0] != expected:
        raise RuntimeError(f"is at version {expected}; expected version {version[0]} instead")
    return memory


@answers.wrong("unpack", "compares the list with the number")
def unpack_list(saved):
    memory, version, expected = saved
    if version != expected:
        raise RuntimeError(f"is at version {version}; expected version {expected} instead")
    return memory


@answers.wrong("unpack", "compares the list with the number")
def unpack_half_list(saved):
    memory, version, expected = saved
    if version[0] != expected:
        raise RuntimeError(f"is at version {version}; expected version {expected} instead")
    return memory


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (unpack_list, "version is a list"),
        (unpack_half_list, "version is a list"),
        (unpack_smaller, "Any other version"),
        (unpack_round, "First the version of now"),
    ],
)
def test_what_unpack_does_wrong_earns_its_own_hint(answer, said):
    assert said in first_hint(answers.exercises["unpack"], answer)


@answers.wrong("unpack", "returns the whole of what was saved")
def unpack_nothing(saved):
    unpack(saved)
    return saved


def keeper(nobody=True, other=True, both=False, result=RESULT):
    def kept_by(operation, name, inputs, needs):
        if nobody and not any(needs[one] for one in inputs):
            return []
        if operation == "mul":
            left, right = inputs
            if not other:
                return [one for one in inputs if needs[one]]
            return [left, right] if both else [right] * needs[left] + [left] * needs[right]
        kept = [name] if operation in result else []
        return kept + inputs * (operation in INPUT or operation in set(RESULT) - set(result))

    return kept_by


answers.right("kept_by")(keeper())
answers.wrong("kept_by", "keeps though nobody needs a gradient")(keeper(nobody=False))
answers.wrong("kept_by", "keeps both factors whenever one needs a gradient")(keeper(both=True))
answers.wrong("kept_by", "keeps the factor that needs a gradient")(keeper(other=False))
answers.wrong("kept_by", "keeps the input of exp")(keeper(result=("tanh", "sigmoid")))


@answers.right("through_copy")
def through_copy(grad, places, factor):
    return [g * factor if place in places else g for place, g in enumerate(grad)]


@answers.wrong("through_copy", "gives zero where nothing was written")
def zero_elsewhere(grad, places, factor):
    return [g * factor if place in places else 0.0 for place, g in enumerate(grad)]


@answers.wrong("through_copy", "returns the written places alone")
def places_alone(grad, places, factor):
    return [grad[place] * factor for place in places]


@answers.wrong("through_copy", "multiplies everywhere")
def everywhere(grad, places, factor):
    return [g * factor for g in grad]


@answers.wrong("through_copy", "writes into the gradient")
def into_the_gradient(grad, places, factor):
    for place in places:
        grad[place] *= factor
    return grad


test_answers = answers.tests()


def view_asks_nobody(tensor, places, name, output_nr):
    several, tensor.several = tensor.several, False  # so that its history refuses nothing
    made = view(tensor, places, name, output_nr)
    tensor.several, made.several = several, several or made.several
    return made


@pytest.mark.parametrize("seed", range(3))
def test_a_refusal_that_is_missed_earns_the_hint_about_it(seed):
    exercise = answers.exercises["rebase_history"]
    for slip, words in (
        (view_forgets, "several says"),
        (view_of_unbind, "several says"),
        (view_asks_nobody, "A view of a stale view"),
    ):
        assert words in first_hint(exercise, (slip, mul_, history), seed), slip.__name__


def test_the_picture_marks_the_node_that_should_be_another():
    exercise = answers.exercises["rebase_history"]
    program = [("select", "base", "v0", 0), ("select", "base", "v1", 1), ("mul_", "v0", 3.0)]
    case = Case((2, 2, program))
    wrong = exercise.drive((view, mul_, stale), *case.inputs)
    drawn = exercise.picture(case, wrong, None)
    labels = [node["label"] for node in drawn.levels["all"]["nodes"]]
    assert labels[:3] == ["v1, right", "AsStridedBackward0", "CopySlices"]
    (marked,) = drawn.frames[0]["marks"]
    assert labels[int(marked)] == "SelectBackward0" and int(marked) > labels.index("v1, yours")
    right = exercise.drive((view, mul_, history), *case.inputs)
    assert exercise.picture(case, right, None) is None


def test_every_stage_of_writes_asks_all_that_may_happen_there():
    asked = {}
    for stage, exercise in stage_exercises(find("versions.will_backward_refuse")):
        made = [exercise.make(5, n, n * 8 // 60) for n in range(60)]
        asked[stage] = Counter(exercise.expected(*case.inputs)[0] for case in made)
    assert asked["one kind of write"].keys() == {"fine", "refused at backward"}
    assert asked["plain"]["refused at the write"] and not asked["products"]["silently wrong"]
    assert asked["data"]["silently wrong"] and asked["views"]["silently wrong"]


def test_the_picture_of_a_program_stands_at_what_backward_refuses():
    program = [("leaf", "a", True), ("leaf", "b", False), ("exp", "t0", "a")]
    program += [("write", "t0", "detach"), ("backward", "t0")]
    exercise = find("versions.will_backward_refuse")
    walk = exercise.picture(Case((program,)), None, exercise.expected(program))
    assert any("expected version 0" in frame["text"] for frame in walk.frames)
