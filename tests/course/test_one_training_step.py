import pytest

from labkit.course.benches.step_log import StepEvent
from labkit.course.checks import picture_of
from labkit.course.exercises import one_training_step
from labkit.course.exercises._step_logs import smaller_logs
from tests.course.answers import Answers, first_hint, smallest

answers = Answers("one_training_step")


def queued(log):
    return [event for event in log if event.kind == "queue"]


# --- lines


@answers.right("lines")
def lines(log):
    recorded, runs, found = {}, {}, []
    for e in log:
        if e.kind == "node":
            recorded[e.number] = e.line
        if e.kind == "run":
            runs[e.thread] = recorded.get(e.number, "")
        if e.kind == "queue":
            found.append(e.line or runs.get(e.thread, ""))
    return found


@answers.wrong("lines", "only the thread's own line")
def own(log):
    return [e.line for e in queued(log)]


@answers.wrong("lines", "the line at which backward was called")
def called(log):
    first = next((place for place, e in enumerate(log) if e.kind == "run"), 0)
    line = next((e.line for e in reversed(log[:first]) if e.line), "")
    return [e.line or line for e in queued(log)]


@answers.wrong("lines", "the line of the newest node")
def newest(log):
    last, found = "", []
    for e in log:
        if e.kind == "node":
            last = e.line
        if e.kind == "queue":
            found.append(e.line or last)
    return found


@answers.wrong("lines", "one running node for all threads")
def one_node(log):
    recorded, runs, found = {0: ""}, 0, []
    for e in log:
        if e.kind == "node":
            recorded[e.number] = e.line
        if e.kind == "run":
            runs = e.number
        if e.kind == "queue":
            found.append(e.line or recorded[runs])
    return found


@answers.wrong("lines", "the line that the program is at")
def program(log):
    last, found = "", []
    for e in log:
        last = e.line or last
        if e.kind == "queue":
            found.append(last)
    return found


@answers.wrong("lines", "raises for a leaf")
def no_leaf(log):
    recorded, runs, found = {}, {}, []
    for e in log:
        if e.kind == "node":
            recorded[e.number] = e.line
        if e.kind == "run":
            runs[e.thread] = e.number
        if e.kind == "queue":
            found.append(e.line or (recorded[runs[e.thread]] if e.thread in runs else ""))
    return found


@answers.wrong("lines", "the running node's line first")
def node_first(log):
    recorded, runs, found = {}, {}, []
    for e in log:
        if e.kind == "node":
            recorded[e.number] = e.line
        if e.kind == "run":
            runs[e.thread] = recorded.get(e.number, "")
        if e.kind == "queue":
            found.append(runs.get(e.thread) or e.line)
    return found


# --- operators


@answers.right("operators")
def operators(log):
    inside, found = {}, []
    for e in log:
        mine = inside.setdefault(e.thread, [""])
        if e.kind == "enter":
            mine.append(e.name)
        if e.kind == "leave":
            mine.pop()
        if e.kind == "queue":
            found.append(mine[-1])
    return found


@answers.wrong("operators", "the outermost operator")
def outermost(log):
    inside, found = {}, []
    for e in log:
        mine = inside.setdefault(e.thread, [])
        if e.kind == "enter":
            mine.append(e.name)
        if e.kind == "leave":
            mine.pop()
        if e.kind == "queue":
            found.append(mine[0] if mine else "")
    return found


@answers.wrong("operators", "one stack for all threads")
def one_stack(log):
    inside, found = [], []
    for e in log:
        if e.kind == "enter":
            inside.append(e.name)
        if e.kind == "leave":
            inside.pop()
        if e.kind == "queue":
            found.append(inside[-1] if inside else "")
    return found


@answers.wrong("operators", "the operator that began last")
def began_last(log):
    last, found = {}, []
    for e in log:
        if e.kind == "enter":
            last[e.thread] = e.name
        if e.kind == "queue":
            found.append(last.get(e.thread, ""))
    return found


@answers.wrong("operators", "raises outside of operators")
def always_inside(log):
    inside, found = {}, []
    for e in log:
        mine = inside.setdefault(e.thread, [])
        if e.kind == "enter":
            mine.append(e.name)
        if e.kind == "leave":
            mine.pop()
        if e.kind == "queue":
            found.append(mine[-1])
    return found


# --- blocks


def walk(log, at_the_end=False, forget=True, inside=True, last=0, number=None, strict=False):
    """Which block each address is in; every wrong answer changes one thing of it."""
    used, handed_out, found = {}, 0, []

    def block(address):
        for begin, (place, nbytes) in reversed(used.items()):
            if address == begin or (inside and begin <= address < begin + nbytes + last):
                return place
        return 0

    for e in log:
        if e.kind == "block":
            handed_out += 1
            used.pop(e.at, None)
            used[e.at] = number(used) if number else handed_out, e.nbytes
        if e.kind == "free" and forget and (strict or e.at in used):
            del used[e.at]
        if e.kind == "queue" and not at_the_end:
            found.append(([block(a) for a in e.reads], [block(a) for a in e.writes]))
    if at_the_end:
        found = [([block(a) for a in e.reads], [block(a) for a in e.writes]) for e in queued(log)]
    return found


@answers.right("blocks")
def blocks(log):
    return walk(log)


@answers.wrong("blocks", "an address is one block for ever")
def for_ever(log):
    first = {}
    for e in log:
        if e.kind == "block":
            first.setdefault(e.at, (len(first) + 1, e.nbytes))

    def block(address):
        held = (n for at, (n, size) in first.items() if at <= address < at + size)
        return next(held, 0)

    return [([*map(block, e.reads)], [*map(block, e.writes)]) for e in queued(log)]


@answers.wrong("blocks", "looks addresses up after the step")
def afterwards(log):
    return walk(log, at_the_end=True)


@answers.wrong("blocks", "knows where blocks begin only")
def beginnings(log):
    return walk(log, inside=False)


@answers.wrong("blocks", "one byte too many")
def too_long(log):
    return walk(log, last=1)


@answers.wrong("blocks", "keeps freed blocks")
def keeps(log):
    return walk(log, forget=False)


@answers.wrong("blocks", "numbers the blocks in use")
def in_use(log):
    return walk(log, number=lambda used: len(used) + 1)


@answers.wrong("blocks", "raises for a block older than the step")
def strict(log):
    return walk(log, strict=True)


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("exercise", "answer", "text"),
    [
        (one_training_step.lines, own, "no line of its own"),
        (one_training_step.lines, node_first, "keeps it"),
        (one_training_step.lines, newest, "Each thread runs"),
        (one_training_step.lines, no_leaf, "neither was recorded"),
        (one_training_step.operators, one_stack, "Whose is it?"),
        (one_training_step.operators, always_inside, "any more"),
        (one_training_step.operators, began_last, "the one around"),
        (one_training_step.blocks, beginnings, "middle of a block"),
        (one_training_step.blocks, keeps, "do not count"),
        (one_training_step.blocks, afterwards, "at its `queue`"),
        (one_training_step.blocks, in_use, "Another block"),
        (one_training_step.blocks, too_long, "its last byte"),
        (one_training_step.blocks, strict, "older than the step"),
    ],
)
def test_a_hint_fits_the_mistake(exercise, answer, text):
    assert text in first_hint(exercise, answer)


@pytest.mark.parametrize("name", ["lines", "operators", "blocks"])
def test_a_failing_log_has_a_few_lines(name):
    for why, make in answers.wrongs[name]:
        shown = smallest(answers.exercises[name], make()).input.splitlines()
        assert len(shown) <= 4, (why, shown)


def test_the_picture_names_what_the_block_holds_and_what_the_kernel_touches():
    evidence = smallest(answers.exercises["blocks"], beginnings)
    block, kernel = evidence.inputs[0]
    drawn = picture_of(answers.exercises["blocks"], evidence)
    assert [span["name"] for span in drawn.spans] == [
        f"block 1: {block.at} to {block.at + block.nbytes - 1}",
        f"kernel 0: {(kernel.reads + kernel.writes)[0]}",
    ]


def test_a_smaller_log_is_a_log_that_can_be():
    enter, leave = StepEvent("enter"), StepEvent("leave")
    node, run = StepEvent("node", number=1), StepEvent("run", 1, number=1)
    block, free = StepEvent("block", at=512, nbytes=4), StepEvent("free", at=512)
    not_logs = ([enter, leave], [leave]), ([node, run], [run]), ([block, free, block], [block] * 2)
    for log, broken in not_logs:
        assert broken not in [one for (one,) in smaller_logs(log)]
