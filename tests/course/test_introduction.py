import dataclasses
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercise import Case
from labkit.course.exercises import _two_processes, introduction
from labkit.course.exercises._never_right import TOO_SLOW
from tests.course.answers import Answers, first_hint

answers = Answers("introduction")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
FLOATS = {"float16", "bfloat16", "float32", "float64"}


# --- asks and tape_length


@answers.right("asks")
def asks(recording, dtype, inputs):
    return recording and dtype in FLOATS and any(inputs)


@answers.wrong("asks", "wants every input to ask")
def all_ask(recording, dtype, inputs):
    return recording and dtype in FLOATS and all(inputs)


@answers.wrong("asks", "forgets the dtype")
def any_dtype(recording, dtype, inputs):
    return recording and any(inputs)


@answers.wrong("asks", "forgets the switch")
def always_on(recording, dtype, inputs):
    return dtype in FLOATS and any(inputs)


@answers.right("tape_length")
def tape_length(start):
    length = 0
    while start > 1:
        start, length = start / 2, length + 1
    return length


@answers.wrong("tape_length", "counts one more at 1")
def down_to_below_1(start):
    length = 0
    while start >= 1:
        start, length = start / 2, length + 1
    return length


@answers.wrong("tape_length", "halves an input that is small already")
def at_least_once(start):
    return max(1, tape_length(start))


@answers.wrong("tape_length", "counts the leaf")
def with_the_leaf(start):
    return tape_length(start) + 1


# --- graph_or_no_graph


@answers.right("graph_or_no_graph")
def graph_or_no_graph(program):
    """Two flags per name: requires_grad, has a grad_fn."""
    return walked(program)


def count_blocks(blocks, line):
    return blocks + (1 if line == "enter" else -1)


def walked(program, counted=count_blocks, **otherwise):
    """The answers, with the open blocks as `counted` says after an enter or exit."""
    tensors, blocks, found = {}, 0, []
    for name, *rest in program:
        if name in ("enter", "exit"):
            blocks = counted(blocks, name)
        else:
            result, *inputs = rest
            tensors[result] = described(name, inputs, tensors, blocks == 0, **otherwise)
            found.append(tensors[result][2])
    return found


def described(name, inputs, tensors, recording, refuses=True, renames=True, counts=any, flag=1):
    """(dtype, requires_grad, has a grad_fn) of a new tensor."""
    if name == "leaf":
        dtype, asks = inputs
        if refuses and asks and dtype not in FLOATS:
            raise RuntimeError(f"{dtype} tensors have no gradients")
        return dtype, asks, False
    if renames and name == "to" and tensors[inputs[0]][0] == inputs[1]:
        return tensors[inputs[0]]
    sources = [tensors[x] for x in inputs[: 1 if name == "to" else None]]
    dtype = inputs[1] if name == "to" else result_dtype(name, [source[0] for source in sources])
    asked = counts(source[flag] for source in sources)
    recorded = recording and asked and dtype in FLOATS and name != "detach"
    return dtype, recorded, recorded


def result_dtype(name, dtypes):
    """Only as exact as needed: which float it is matters when a cast asks for that very dtype."""
    if name == "gt":
        return "bool"
    if name == "argmax" or (name == "sum" and dtypes[0] not in FLOATS):
        return "int64"
    if name == "exp" and dtypes[0] not in FLOATS:
        return "float32"
    order = ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"]
    if set(dtypes) == {"float16", "bfloat16"}:
        return "float32"
    return max(dtypes, key=order.index)


def named(program):
    return [line for line in program if line[0] not in ("enter", "exit")]


@answers.wrong("graph_or_no_graph", "always true")
def always_true(program):
    return [True for _ in named(program)]


@answers.wrong("graph_or_no_graph", "true whenever any leaf requires grad")
def any_leaf(program):
    asked = any(line[0] == "leaf" and line[3] for line in program)
    return [asked and line[0] != "leaf" for line in named(program)]


@answers.wrong("graph_or_no_graph", "ignores no_grad")
def ignores_no_grad(program):
    return graph_or_no_graph(tuple(named(program)))


@answers.wrong("graph_or_no_graph", "takes the first exit for the end of all blocks")
def out_at_once(program):
    return walked(program, lambda blocks, line: line == "enter")


@answers.wrong("graph_or_no_graph", "lets no leaf ask that is made in a block")
def forgets_leaves_in_blocks(program):
    blocks, lines = 0, []
    for line in program:
        blocks += {"enter": 1, "exit": -1}.get(line[0], 0)
        quiet = blocks and line[0] == "leaf" and "float" in line[2]
        lines.append((*line[:3], False) if quiet else line)
    return graph_or_no_graph(tuple(lines))


@answers.wrong("graph_or_no_graph", "ignores integer dtypes")
def ignores_integers(program):
    requires, blocks, found = {}, 0, []
    for name, *rest in program:
        if name in ("enter", "exit"):
            blocks += 1 if name == "enter" else -1
        elif name == "leaf":
            requires[rest[0]] = rest[2]
            found.append(False)
        else:
            inputs = rest[1:2] if name == "to" else rest[1:]
            asked = blocks == 0 and name != "detach" and any(requires[x] for x in inputs)
            requires[rest[0]] = asked
            found.append(asked)
    return found


@answers.wrong("graph_or_no_graph", "refuses no leaf")
def refuses_none(program):
    return walked(program, refuses=False)


@answers.wrong("graph_or_no_graph", "asks for a grad_fn of an input")
def from_a_grad_fn(program):
    return walked(program, flag=2)


@answers.wrong("graph_or_no_graph", "wants every input to ask")
def all_inputs_ask(program):
    return walked(program, counts=all)


@answers.wrong("graph_or_no_graph", "makes a cast to the same dtype anew")
def casts_always(program):
    return walked(program, renames=False)


@answers.wrong("graph_or_no_graph", "executes the program with torch (banned by a recording mode)")
def executes(program):
    tensors, found = {}, []
    with torch.enable_grad():
        for name, *rest in named(program):
            if name == "leaf":
                tensors[rest[0]] = torch.ones(3, dtype=getattr(torch, rest[1]))
            elif name == "to":
                tensors[rest[0]] = tensors[rest[1]].to(getattr(torch, rest[2]))
            else:
                tensors[rest[0]] = getattr(torch, name)(*[tensors[x] for x in rest[1:]])
            found.append(tensors[rest[0]].grad_fn is not None)
    return found


@answers.wrong("graph_or_no_graph", "catches every exception and returns a default")
def catches_everything(program):
    try:
        return graph_or_no_graph(program)
    except Exception:
        return [False for _ in named(program)]


# --- two_process_sum

fork = multiprocessing.get_context("fork")
SECONDS = 20


def reduce_one(rank, world_size, number, rendezvous, results, destroy=True):
    timeout = timedelta(seconds=rendezvous.get("seconds", SECONDS))
    if "path" in rendezvous:
        store = dist.FileStore(rendezvous["path"], world_size)
    else:
        store = dist.TCPStore(
            "127.0.0.1", rendezvous["port"], world_size, is_master=rank == 0, timeout=timeout
        )
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)
    try:
        total = torch.tensor(number(rank))
        dist.all_reduce(total)
        results.put((rank, total.item()))
    finally:
        if destroy:
            dist.destroy_process_group()


def launch(
    world_size, number, rendezvous, started=None, target=reduce_one, patience=SECONDS, **options
):
    results = fork.SimpleQueue()
    processes = [
        fork.Process(
            target=target, args=(rank, world_size, number, rendezvous, results), kwargs=options
        )
        for rank in range(world_size if started is None else started)
    ]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join(patience)
    finally:
        for process in processes:
            process.kill()
            process.join()
    sums = {}
    while not results.empty():
        rank, total = results.get()
        sums[rank] = total
    return [sums[rank] for rank in range(world_size)]


@answers.right("two_process_sum")
def with_a_file(world_size, number):
    with tempfile.TemporaryDirectory() as folder:
        return launch(world_size, number, {"path": f"{folder}/store"})


@answers.right("two_process_sum")
def with_a_free_port(world_size, number):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return launch(world_size, number, {"port": port})


@answers.wrong("two_process_sum", "computes the sum in the parent")
def sums_in_parent(world_size, number):
    return [sum(number(rank) for rank in range(world_size))] * world_size


@answers.wrong("two_process_sum", "computes the sum in the parent")
def sums_what_children_bring(world_size, number):
    """Real processes, but nothing is reduced: the parent adds."""

    def bring(rank, world_size, number, rendezvous, results):
        results.put((rank, number(rank)))

    return [sum(launch(world_size, number, {}, target=bring))] * world_size


@answers.wrong("two_process_sum", "runs one process with world size 1")
def one_process(world_size, number):
    with tempfile.TemporaryDirectory() as folder:
        launch(1, number, {"path": f"{folder}/store"})
    return [world_size * (world_size + 1) // 2] * world_size


@answers.wrong("two_process_sum", "leaves the group initialised")
def leaves_the_group(world_size, number):
    with tempfile.TemporaryDirectory() as folder:
        return launch(world_size, number, {"path": f"{folder}/store"}, destroy=False)


@answers.wrong("two_process_sum", "leaves the group initialised")
def takes_part_and_stays(world_size, number):
    """The notebook's own process is rank 0, and its group is never destroyed."""
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = {"path": f"{folder}/store"}
        results = fork.SimpleQueue()
        others = [
            fork.Process(target=reduce_one, args=(rank, world_size, number, rendezvous, results))
            for rank in range(1, world_size)
        ]
        for process in others:
            process.start()
        reduce_one(0, world_size, number, rendezvous, results, destroy=False)
        for process in others:
            process.join(SECONDS)
        return [results.get()[1] for _ in range(world_size)]


@answers.wrong("two_process_sum", "fixed port so the second run fails", make=True)
def fixed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return lambda world_size, number: launch(world_size, number, {"port": port}, patience=1)


@answers.wrong("two_process_sum", "fixed port so the second run fails", make=True)
def keeps_its_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = []

    def answer(world_size, number):
        kept.append(socket.socket())
        kept[-1].bind(("127.0.0.1", port))
        return with_a_file(world_size, number)

    return answer


@answers.wrong("two_process_sum", "leaves a process running")
def joins_all_but_one(world_size, number):
    fork.Process(target=time.sleep, args=(SECONDS,), daemon=True).start()
    return with_a_file(world_size, number)


@answers.wrong("two_process_sum", "returns only rank 0")
def only_rank_0(world_size, number):
    return with_a_file(world_size, number)[:1]


@answers.wrong("two_process_sum", "returns the literal answer of the example in the statement")
def literal(world_size, number):
    return [3, 3]


@answers.wrong("two_process_sum", TOO_SLOW)
def always_two(world_size, number):
    """Two processes, whatever world_size says: the others never come."""
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = {"path": f"{folder}/store", "seconds": 1}
        return launch(world_size, number, rendezvous, started=2)


test_answers = answers.tests()


def test_a_process_that_takes_its_time_to_end_is_none_that_was_left(monkeypatch):
    """On a busy machine every process does: it ends many looks later, and runs a little in each."""
    code = "import time\nwhile time.process_time() < 0.8: pass"
    with monkeypatch.context() as busy, subprocess.Popen([sys.executable, "-c", code]) as ending:
        busy.setattr(_two_processes, "STANDSTILL_SECONDS", 0.01)
        busy.setattr(_two_processes, "RAN_SECONDS", 0.0)
        assert not _two_processes.still_there(ending.pid)
        ending.wait()  # somebody else has collected it
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        assert _two_processes.still_there(waiting.pid)
        waiting.kill()


def test_a_process_left_behind_is_reported_and_killed():
    """Also when time runs out: nothing of an answer survives its check."""
    pids = []

    def leaves_one(world_size, number):
        process = fork.Process(target=sleep_for_a_minute, args=(number,))
        process.start()
        pids.append(process.pid)
        return with_a_file(world_size, number)

    seen = _two_processes._drive_twice(leaves_one, 2)
    assert seen["first run"]["processes left"] == seen["second run"]["processes left"] == 1
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_answer_that_waits_for_ever_is_stopped_and_leaves_nothing():
    pids = []

    def waits(world_size, number):
        process = fork.Process(target=sleep_for_a_minute, args=(number,))
        process.start()
        pids.append(process.pid)
        process.join()

    quick = dataclasses.replace(_two_processes.two_process_sum, waits=0.5)
    (evidence,) = failing_cases(quick, waits, seed=1)
    assert evidence.kind == "time"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def sleep_for_a_minute(number):
    number(0)
    multiprocessing.Event().wait(60)


@pytest.mark.parametrize(
    ("answer", "stage", "hint"),
    [
        (refuses_none, "dtypes", "raise RuntimeError"),
        (from_a_grad_fn, "products", "One input that asks is enough"),
        (all_inputs_ask, "products", "One input that asks is enough"),
        (casts_always, "to and detach", "returns that very tensor"),
        (out_at_once, "no_grad", "the first `exit` closes one"),
        (forgets_leaves_in_blocks, "no_grad", "A leaf that was made in a block"),
    ],
)
def test_a_mistake_fails_in_its_stage_and_earns_its_hint(answer, stage, hint):
    exercise = answers.exercises["graph_or_no_graph"]
    for seed in (7, 8, 9):
        first = next(one for one in outcomes(exercise, answer, seed) if one.failures)
        assert first.name == stage
        assert hint in first_hint(exercise, answer, seed)


def test_the_picture_of_a_program_marks_the_first_wrong_name():
    exercise = introduction.graph_or_no_graph
    program = (("leaf", "a", "float32", True), ("mul", "b", "a", "a"), ("detach", "c", "b"))
    picture = exercise.picture(Case((program,)), [False, True, True], [False, True, False])
    assert picture.frames[0]["text"] == "c: yours a graph, right nothing"
    assert exercise.picture(Case((program,)), None, [False, True, False]).frames == []
