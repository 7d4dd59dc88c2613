import copy
import gc
import math
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course import checks
from labkit.course.checking.put_away import put_away, that_ask
from labkit.course.checks import CheckFailed, NotAttempted, check, failing_cases, outcomes
from labkit.course.exercises import UnknownExercise, find
from labkit.memory.caching_allocator import CachingAllocator
from tests.course import toys
from tests.seeds import seeds


def kind_of(exercise, answer, seed=3):
    failures = failing_cases(exercise, answer, seed)
    return failures[0].kind if failures else "right"


@pytest.mark.parametrize("seed", seeds(3, 77, 4_096))
def test_right_answers_pass(seed):
    assert failing_cases(toys.add_up, sum, seed) == []
    assert failing_cases(toys.add_up, lambda values: sum(values), seed) == []
    assert failing_cases(toys.divisor, lambda n: 1, seed) == []
    assert failing_cases(toys.divisor, lambda n: n, seed) == []

    def first(values):
        if not values:
            raise IndexError("values is empty")
        return values[0]

    assert failing_cases(toys.first, first, seed) == []


@pytest.mark.parametrize("seed", seeds(3, 77, 4_096))
def test_the_failing_case_shown_is_the_smallest_there_can_be(seed):
    def forgets_negative_values(values):
        return sum(value for value in values if value > 0)

    evidence = failing_cases(toys.add_up, forgets_negative_values, seed)[0]
    assert len(evidence.inputs[0]) == 1 and evidence.inputs[0][0] < 0
    assert evidence.expected == str(evidence.inputs[0][0]) and evidence.got == "0"


def test_of_several_named_results_the_wrong_ones_are_shown():
    exercise = replace(
        toys.add_up, expected=lambda values: {"sum": sum(values), "count": len(values)}
    )
    evidence = failing_cases(exercise, lambda values: {"sum": 0, "count": len(values)}, 3)[0]
    assert evidence.expected == f"{{'sum': {sum(evidence.inputs[0])}}}"
    assert evidence.got == "{'sum': 0}" and set(evidence.value) == {"sum", "count"}
    other = failing_cases(exercise, lambda values: {"sum": sum(values)}, 3)[0]
    assert "count" in other.expected and other.got.startswith("{'sum'")


def test_of_equally_long_cases_the_first_is_shown():
    exercise = replace(
        toys.add_up, case=lambda rng, size: ([7, 3],), smaller=lambda values: [([2, 3],), ([9, 3],)]
    )
    assert failing_cases(exercise, lambda values: 0, 3)[0].input == "[2, 3]"


def test_failures_are_different_cases_and_few():
    failures = failing_cases(toys.add_up, lambda values: sum(values) + len(values), 3)
    assert 1 < len(failures) <= 4
    assert len({evidence.input for evidence in failures}) == len(failures)


def test_a_seed_says_everything():
    def wrong(values):
        return sum(values) + (len(values) > 2)

    one, other = (failing_cases(toys.add_up, wrong, 9)[0] for _ in range(2))
    assert one.rows() == other.rows()
    assert failing_cases(toys.add_up, wrong, 10)[0].inputs != one.inputs


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda values: sum(values) + 1, "value"),
        (lambda values: float(sum(values)), "value"),
        (lambda values: bool(values) or sum(values), "value"),
        (lambda values: math.nan, "value"),
        (lambda values: None, "value"),
        (lambda values: values[0], "raised"),
        (lambda values: sys.exit(0), "raised"),
        (lambda: 0, "raised"),
        (lambda values: iter(values), "type"),
        (lambda values: (values.append(1), sum(values[:-1]))[1], "mutated"),
        (lambda values: (values.clear(), 0)[1], "mutated"),
    ],
)
def test_every_way_to_be_wrong_is_told_apart(answer, kind):
    assert kind_of(toys.add_up, answer) == kind


SHARED = [3, 1, 2]
ROWS = torch.arange(4.0)


@pytest.mark.parametrize(
    ("shared", "write"),
    [
        (SHARED, lambda values: values.sort()),
        ({"values": SHARED}, lambda values: values["values"].clear()),
        (ROWS, lambda values: values.zero_()),
    ],
)
def test_a_constant_that_cases_hand_out_stays_as_it_was(shared, write):
    exercise = replace(
        toys.add_up,
        case=lambda rng, size: (shared,),
        expected=lambda values: 0,
        smaller=None,
    )
    before = copy.deepcopy(shared)
    assert kind_of(exercise, lambda values: write(values) or 0) == "mutated"
    assert str(shared) == str(before)
    assert failing_cases(exercise, lambda values: 0, 3) == []


def test_inputs_that_share_their_memory_share_it_still():
    exercise = replace(
        toys.add_up, case=lambda rng, size: (ROWS, ROWS[1:]), smaller=None, expected=lambda *_: True
    )
    assert not failing_cases(exercise, lambda rows, most: rows[1:].data_ptr() == most.data_ptr(), 3)


class Agreeable:
    __hash__ = None

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return Agreeable()


class AgreeableInt(int):
    __hash__ = int.__hash__

    def __eq__(self, other):
        return True


class AgreeableTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.tensor(True)


def test_a_value_that_equals_everything_is_refused():
    assert kind_of(toys.add_up, lambda values: Agreeable()) == "type"
    assert kind_of(toys.add_up, lambda values: AgreeableInt()) == "type"
    assert kind_of(toys.add_up, lambda values: [Agreeable()]) == "type"
    assert kind_of(toys.no_add, lambda a, b: torch.ones(1).as_subclass(AgreeableTensor)) == "type"


def test_numpy_scalars_are_numbers():
    assert failing_cases(toys.add_up, lambda values: np.int64(sum(values)), 3) == []


def test_an_exception_is_right_only_where_it_is_asked_for():
    def stub(values):
        raise IndexError("empty")

    def wrong_class(values):
        if not values:
            raise ValueError("empty")
        return values[0]

    def wrong_text(values):
        return values[0]

    def default(values):
        try:
            return values[0]
        except Exception:
            return 0

    for answer in (stub, wrong_class, wrong_text, default):
        assert failing_cases(toys.first, answer, 3)


def forever(values):
    while True:
        pass


def forever_catching(values):
    while True:
        try:  # noqa: SIM105
            time.sleep(10)
        except BaseException:
            pass


def forever_in_finally(values):
    try:
        while True:
            pass
    finally:
        for _ in range(3):
            try:
                while True:
                    pass
            except BaseException:
                pass


def late(values):
    try:  # noqa: SIM105
        time.sleep(10)
    except BaseException:
        pass
    return sum(values)


@pytest.mark.parametrize("answer", [forever, forever_catching, forever_in_finally, late])
def test_an_answer_that_does_not_return_is_stopped(answer):
    assert kind_of(toys.add_up, answer) == "time"


def test_a_check_works_outside_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(failing_cases(toys.add_up, sum, 3)))
    thread.start()
    thread.join(120)
    assert found == [[]]


def asks_the_module(values):
    return toys.total(values)


def asks_the_exercise(values):
    return toys.add_up.expected(values)


def asks_a_frame(values):
    frame = sys._getframe()
    while frame := frame.f_back:
        for value in frame.f_locals.values():
            exercise = getattr(value, "exercise", None)
            if exercise is not None:
                return exercise.expected(values)
    return 0


def asks_and_hides_it(values):
    try:
        return toys.total(values)
    except BaseException:
        return sum(values)


def asks_the_checker(values):
    return check("start_here.places", sum) and sum(values)


def asks_a_thread(values):
    found = []
    thread = threading.Thread(target=lambda: found.append(toys.total(values)))
    thread.start()
    thread.join()
    return found[0]


def asks_a_process(values):
    return int(subprocess.check_output([sys.executable, "-c", f"print(sum({values}))"]))


@pytest.mark.parametrize(
    "answer",
    [
        asks_the_module, asks_the_exercise, asks_a_frame, asks_and_hides_it, asks_the_checker,
        asks_a_thread, asks_a_process, toys.total,
    ],
)  # fmt: skip
def test_the_checker_itself_is_out_of_reach(answer):
    failures = failing_cases(toys.add_up, answer, 3)
    assert failures and failures[0].kind == "banned"
    assert toys.total([1, 2]) == 3, "and is back afterwards"


def test_the_truth_of_a_case_is_nowhere_while_the_answer_runs():
    """Reads every Case among all living objects, and every frame below."""
    others = {id(c): c for c in gc.get_objects() if type(c).__name__ == "Case"}  # other tests' own

    def reads_everything(size):
        cases = [c for c in gc.get_objects() if type(c).__name__ == "Case"]
        found = [c.truth for c in cases if id(c) not in others]
        frame = sys._getframe()
        while frame := frame.f_back:
            found += [getattr(v, "truth", None) for v in frame.f_locals.values()]
        return next((t for t in found if isinstance(t, int)), -1)

    failures = failing_cases(toys.guess, reads_everything, 3)
    assert failures and failures[0].got == "-1"


def test_handed_out_functions_and_the_rest_of_python_stay_usable():
    assert failing_cases(toys.add_up, lambda values: sum(toys.helper(values)), 3) == []


def by_hand(a, b):
    return torch.tensor([x + b.item() for x in a.flatten().tolist()], dtype=a.dtype).reshape(
        a.shape
    )


saved_add = torch.add
saved_method = torch.Tensor.add


@pytest.mark.parametrize(
    "answer",
    [
        lambda a, b: torch.add(a, b),
        lambda a, b: saved_add(a, b),
        lambda a, b: saved_method(a, b),
        lambda a, b: a.add(b),
        lambda a, b: a + b,
        lambda a, b: torch.broadcast_shapes(a.shape, b.shape) and by_hand(a, b),
    ],
)
def test_a_banned_function_is_banned_however_it_is_reached(answer):
    assert kind_of(toys.no_add, answer) == "banned"


def test_only_the_banned_functions_are_banned():
    right = [f for f in failing_cases(toys.no_add, by_hand, 3) if f.kind == "banned"]
    assert right == []
    assert torch.broadcast_shapes((1, 2), (3, 1)) == (3, 2)


@pytest.mark.parametrize(
    "answer",
    [
        lambda a, b: torch.ones(2),
        lambda a, b: a.numpy() + b.numpy(),
        lambda a, b: torch.ops.aten.add.Tensor(a, b),
        lambda a, b: a.shape and a,
    ],
)
def test_all_of_torch_can_be_banned(answer):
    assert kind_of(toys.no_torch, answer) == "banned"


def test_modules_can_be_banned_loaded_or_not():
    def numpy_sum(values):
        return int(np.sum(values)) if values else 0

    def fsum(values):
        return int(math.fsum(values))

    def fresh(values):
        sys.modules.pop("labkit.doctor", None)
        import labkit.doctor

        return sum(values) if labkit.doctor else 0

    for answer in (numpy_sum, fsum, fresh):
        assert kind_of(toys.no_labkit, answer) == "banned"
    assert failing_cases(toys.no_labkit, sum, 3) == []
    assert math.fsum([1.5]) == 1.5 and np.sum([1, 2]) == 3


def test_what_enums_share_is_not_banned():
    """`re` builds an enum of its own while it compiles a pattern."""
    import labkit.cuda.signature  # noqa: F401  (an enum of labkit, loaded)

    def by_pattern(values):
        return sum(int(n) for n in re.findall(f"-?[0-9]+(?#{len(values)})", str(values), re.ASCII))

    re.purge()
    assert failing_cases(toys.no_labkit, by_pattern, 3) == []


def test_a_banned_name_that_names_nothing_is_an_error():
    from dataclasses import replace

    with pytest.raises(ValueError, match="names nothing"):
        failing_cases(replace(toys.add_up, banned=("nowhere.at_all",)), sum, 3)


def test_drive_runs_classes_under_the_same_guard():
    class Stack:
        def __init__(self):
            self.values = []

        def push(self, value):
            self.values.append(value)

        def pop(self):
            return self.values.pop()

    class Queue(Stack):
        def pop(self):
            return self.values.pop(0)

    class Endless(Stack):
        def pop(self):
            while True:
                pass

    assert failing_cases(toys.stack, Stack, 3) == []
    assert kind_of(toys.stack, Queue) == "value"
    from dataclasses import replace

    assert kind_of(replace(toys.stack, seconds=0.2), Endless) == "time"


def test_what_an_answer_prints_is_evidence_not_noise(capsys):
    def wrong(values):
        print("looking at", values)
        return 5

    evidence = failing_cases(toys.add_up, wrong, 3)[0]
    assert evidence.printed.startswith("looking at [")
    assert capsys.readouterr().out == ""


def test_a_judge_says_which_property_fails():
    assert failing_cases(toys.divisor, lambda n: 7, 3)[0].property == "it divides the number"
    assert failing_cases(toys.divisor, lambda n: 0, 3)[0].property.startswith("a divisor is")


def test_check_raises_the_evidence_and_passes_the_right(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))

    def sums(views):
        return sum(math.prod(sizes) for sizes, *_ in views)

    with pytest.raises(CheckFailed) as failed:
        check("start_here.places", sums, seed=12)
    text = str(failed.value)
    assert "seed 12" in text and "expected" in text and "hint" in text
    assert failed.value._render_traceback_() == [f"CheckFailed: {text}"]
    assert not (tmp_path / "progress.json.lock").exists()


def test_every_line_of_a_failing_case_stands_in_its_column():
    with pytest.raises(CheckFailed) as failed:
        check("autograd.read_the_graph", lambda: 0, seed=3, record=False)
    named, value = str(failed.value).splitlines()[1:3]
    assert named.startswith("  input       the graph, in ") and value.startswith(" " * 14 + "v0 = ")


def test_a_stub_is_your_turn_and_no_attempt(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))

    def stub(views):
        raise NotImplementedError

    assert repr(check("start_here.places", stub)).startswith("ExerciseCard(start_here.places: your")
    monkeypatch.setenv("LABKIT_UNFINISHED", "fails")
    with pytest.raises(NotAttempted, match="your turn"):
        check("start_here.places", stub)
    assert not (tmp_path / "progress.json").exists()


def test_what_a_library_has_not_implemented_is_no_stub():
    def answer(views):
        return torch.empty(3, device="meta").tolist()

    with pytest.raises(CheckFailed, match="meta tensor") as failed:
        check("start_here.places", answer, record=False)
    assert not isinstance(failed.value, NotAttempted)


def test_what_labkit_has_no_kernel_for_is_no_stub():
    def counter(counts):
        return lambda op, keys, stack: op.redispatch(DispatchKeySet(), *stack)

    with pytest.raises(CheckFailed, match="no kernel") as failed:
        check("stale_cells.boxed_counter", counter, record=False)
    assert not isinstance(failed.value, NotAttempted)


def test_unknown_ids_and_answers_that_are_none_say_so():
    with pytest.raises(UnknownExercise, match="places"):
        find("start_here.place")
    with pytest.raises(UnknownExercise, match="start_here"):
        check("starthere.places", sum)
    with pytest.raises(TypeError, match="needs a function"):
        check("start_here.places", 3)


def test_fresh_seeds_differ():
    from labkit.course.exercises.start_here import places

    makes = {repr(places.make(seed, 150, 6).inputs) for seed in range(20)}
    assert len(makes) > 15


def test_what_is_put_away_asks_and_then_does_what_it_did():
    """A closure's code may only be swapped for code with as many free names."""
    bound, asked, refused = 3, [], []

    def closure(x, *, more=0):
        return x + bound + more

    def ask(name):
        asked.append(name)
        if refused:
            raise RuntimeError(name)

    original = closure.__code__
    with put_away(that_ask([(closure, "closure")], ask)):
        assert closure(1, more=2) == 6 and asked == ["closure"]
        refused.append(True)
        with pytest.raises(RuntimeError, match="closure"):
            closure(1)
    assert closure(1) == 4 and closure.__code__ is original


def test_what_is_banned_is_put_away_once_for_all_stages(monkeypatch):
    """A library has thousands of functions; before a stage begins they are away already."""
    exercise, function, held = find("strides.view_machine"), CachingAllocator.malloc, []
    before, asks = function.__code__, checks.failing_cases

    def noted(*call):
        held.append(function.__code__)
        return asks(*call)

    monkeypatch.setattr(checks, "failing_cases", noted)
    found = outcomes(exercise, lambda *inputs: 0, 3)
    assert len(held) == len(found) > 2 and before not in held
    assert function.__code__ is before


def test_a_check_can_be_profiled():
    """In a process of its own: a profiler's table is no matter for those that were traced."""
    code = (
        "import cProfile; from labkit.course.checks import failing_cases;"
        "from tests.course import toys;"
        "profile = cProfile.Profile(); profile.enable();"
        "assert failing_cases(toys.add_up, sum, 3) == []; profile.disable()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
