"""Parts in their seats: really called, compared at the call, taken out when they fail."""

import dataclasses
import gc
import threading

import pytest

import labkit
from labkit.course import exercises
from labkit.course.your_machine import kernels, network
from labkit.course.your_machine.seating import function_of, seated
from labkit.course.your_machine.seats import SEATS
from labkit.course.your_machine.training import caching, done_step, trained
from tests.course.notebook_answers import answer_from_notebook

IDS = [seat.exercise for seat in SEATS]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    return {name: answer_from_notebook(name, folder) for name in IDS}


STEPS = len(SEATS)


@pytest.fixture(scope="module")
def labkits(emulator):
    """The losses of labkit alone: a run goes on with them, whatever a part does."""
    with caching():
        step = network.labkits(STEPS)
        return [step(number) for number in range(STEPS)]


def run_with(sittings):
    """One step with each of these sets of parts, in one training: its run and its losses."""
    losses = []
    with caching(), seated(SEATS, {}) as run:
        step = network.labkits(STEPS)
        for number, answers in enumerate(sittings):
            run.sit(answers)
            losses.append(done_step(step, number))
    return run, losses


def one_step(answers):
    return run_with([answers])


def near(labkits, mine):
    return mine == pytest.approx(labkits[: len(mine)], abs=1e-4)


def test_one_part_more_after_the_other_and_the_losses_stay_the_same(labkits, answers):
    run, mine = run_with([{name: answers[name] for name in IDS[: n + 1]} for n in range(STEPS)])
    assert run.troubles == [] and near(labkits, mine)
    assert all(tally.yours > 0 for tally in run.tallies.values())


def test_all_parts_together_answer_every_call(emulator, answers):
    done = trained(SEATS, answers, steps=2)
    assert done.run.troubles == [] and done.is_equal
    assert all(tally.yours == tally.calls > 0 for tally in done.run.tallies.values())


def raises(*inputs):
    raise ZeroDivisionError("poisoned")


def poisoned(answer):
    return tuple(raises for _ in answer) if isinstance(answer, tuple) else raises


def test_a_poisoned_part_is_named_and_taken_out_and_the_run_goes_on(labkits, answers):
    run, mine = run_with([{name: poisoned(answers[name])} for name in IDS])
    assert [trouble.seat.exercise for trouble in run.troubles] == IDS
    assert all(trouble.kind == "raised" for trouble in run.troubles) and near(labkits, mine)
    assert all("poisoned" in str(trouble) for trouble in run.troubles)


def test_the_first_call_that_differs_is_named_with_its_question(labkits):
    def broadcast_shapes(shapes):
        shape = tuple(max(pair) for pair in zip(*shapes, strict=False))
        return shape, []

    run, mine = one_step({"broadcasting.broadcast_shapes": broadcast_shapes})
    (trouble,) = run.troubles
    assert trouble.kind == "differs" and trouble.inputs is not None
    assert trouble.got != trouble.right and near(labkits, mine)


def test_a_part_that_does_not_end_is_ended(labkits, monkeypatch):
    def needed(sizes, strides, offset):
        while True:
            pass

    exercise = dataclasses.replace(exercises.find("strides.needed"), seconds=0.2)
    monkeypatch.setattr(exercises, "find", lambda name: exercise)
    run, mine = one_step({"strides.needed": needed})
    (trouble,) = run.troubles
    assert trouble.kind == "stopped" and "CPU" in trouble.got and near(labkits, mine)


def test_a_kernel_that_does_not_end_is_ended(labkits, monkeypatch):
    """The device takes the next launch after it."""

    def saxpy():
        return """template <typename T> __global__
        void saxpy(const T* x, T* y, T a, long long first, long long n) {
            volatile long long turns = 0;
            while (turns >= 0) turns = 1 - turns;
        }"""

    monkeypatch.setattr(kernels, "SECONDS", 0.3)
    run, mine = run_with([{"first_kernel.saxpy": saxpy}, {}])
    (trouble,) = run.troubles
    assert trouble.kind == "raised" and "0.3" in trouble.got and near(labkits, mine)


def test_a_part_keeps_to_the_rules_of_its_exercise_while_it_runs(labkits):
    def starts_a_thread(sizes, strides, offset):
        threading.Thread(target=print).start()

    def asks_labkit(sizes, strides, offset):
        return function_of("labkit.core.strides.storage_nbytes")(sizes, strides, 1, offset)

    for part in (starts_a_thread, asks_labkit):
        run, mine = one_step({"strides.needed": part})
        (trouble,) = run.troubles
        assert trouble.kind == "stopped" and "its exercise forbids" in trouble.got, part
        assert near(labkits, mine)


def test_what_a_part_makes_is_what_the_run_goes_on_with(labkits):
    """Without a comparison a wrong part changes the losses: nothing of it is only for show."""

    def sees_half(sizes, strides, offset):
        return 2 * (offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)))

    def saxpy():
        return """template <typename T> __global__
        void saxpy(const T* x, T* y, T a, long long first, long long n) {
            const long long i = first + blockIdx.x * (long long)blockDim.x + threadIdx.x;
            if (i < n) y[i] = y[i] - a * x[i];
        }"""

    with caching(), seated(SEATS, {"first_kernel.saxpy": saxpy}, compares=False):
        step = network.labkits(STEPS)
        assert [step(0), step(1)] != pytest.approx(labkits[:2], rel=0.01)
    run, _ = one_step({"strides.needed": sees_half})
    assert [trouble.kind for trouble in run.troubles] == ["differs"]


def test_garbage_of_labkit_is_not_collected_while_a_part_runs(labkits):
    """A tensor in a cycle is freed by labkit's code, which the part may not call."""

    def needed(sizes, strides, offset):
        return len([[] for _ in range(20_000)])  # enough for the collector to start

    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(10_000)
    try:
        with caching():
            tensor = labkit.zeros(8, device="cuda")
            with seated(SEATS, {"strides.needed": needed}) as run:
                cycle = [tensor]
                cycle.append(cycle)
                del cycle, tensor
                assert run.asks["strides.needed"]((2,), (1,), 0) == 20_000
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()


def test_outside_of_a_run_labkits_functions_hold_their_own_code(labkits):
    functions = [function_of(place.function) for seat in SEATS for place in seat.places]
    codes = [function.__code__ for function in functions]
    assert all(
        code.co_name == function.__name__ for code, function in zip(codes, functions, strict=True)
    )
    with seated(SEATS, {}):
        assert not any(f.__code__ is code for f, code in zip(functions, codes, strict=True))
    assert all(f.__code__ is code for f, code in zip(functions, codes, strict=True))
