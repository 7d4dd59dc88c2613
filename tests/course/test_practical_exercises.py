"""Right and wrong answers to the exercises on one training step."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.benches import kernel_bench
from labkit.course.benches.step_trace import Saved
from labkit.course.checks import failing_cases
from labkit.course.exercises import find
from labkit.course.exercises._stencil import FINISHED, make_operator
from labkit.course.exercises._step_programs import (
    finished_trace,
    finished_train,
    kept_too_much,
    measured,
)
from labkit.dispatch.contexts import explain_in
from tests.course.answers import Answers, first_hint

answers = Answers("practical_exercises")


# --- never_freed


@answers.right("never_freed")
def never_freed(events):
    left = []
    for event in events:
        kind, number = event.split()
        left.append(int(number)) if kind == "save" else left.remove(int(number))
    return left


@answers.wrong("never_freed", "names what was freed")
def names_freed(events):
    return [int(event.split()[1]) for event in events if event.startswith("free")]


@answers.wrong("never_freed", "names every save")
def every_save(events):
    return [int(event.split()[1]) for event in events if event.startswith("save")]


@answers.wrong("never_freed", "looks for the number in the text")
def in_text(events):
    saved = [event.split()[1] for event in events if event.startswith("save")]
    return [int(number) for number in saved if f"free {number}" not in " ".join(events)]


@answers.wrong("never_freed", "looks at the last event alone")
def last_event(events):
    return every_save(events[-1:])


@answers.wrong("never_freed", "counts instead of naming")
def counts(events):
    return len(never_freed(events))


# --- trace_through_autograd


class Ops(TorchDispatchMode):
    def __init__(self, events):
        super().__init__()
        self.events = events

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.events.append("op " + func.name().removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def nodes_of(root):
    todo, found = [root], []
    while todo:
        node = todo.pop(0)
        if node is not None and node not in found:
            found.append(node)
            todo += [one for one, _ in node.next_functions]
    return found


def note(events, text):
    def hook(*_arguments):
        events.append(text)

    return hook


def before(node, hook):
    node.register_prehook(hook)


def tracing(
    nodes=nodes_of,
    backward=True,
    unpacks=True,
    factor=1,
    accumulates=True,
    mode=Ops,
    at=before,
    removes=True,
):
    def trace(f, x):
        events, saved = [], []

        def pack(tensor):
            saved.append(tensor)
            events.append(f"save {len(saved)}")
            return len(saved) - 1

        def unpack(place):
            if unpacks:
                events.append(f"unpack {place + 1}")
            return saved[place]

        with mode(events), saved_tensors_hooks(pack, unpack):
            loss = f(x)
            if factor != 1:
                loss = loss * factor
            for node in nodes(loss.grad_fn):
                at(node, note(events, f"node {node.name()}"))
            if accumulates:
                handle = x.register_post_accumulate_grad_hook(note(events, "accumulated"))
            if backward:
                loss.backward()
        if accumulates and removes:
            handle.remove()
        return events

    return trace


answers.right("trace_through_autograd")(tracing())
answers.wrong("trace_through_autograd", "calls the finished one")(lambda f, x: finished_trace(f, x))
answers.wrong("trace_through_autograd", "forward only")(tracing(backward=False))
answers.wrong("trace_through_autograd", "hooks the first node alone")(tracing(lambda n: [n]))
answers.wrong("trace_through_autograd", "misses unpacking")(tracing(unpacks=False))
answers.wrong("trace_through_autograd", "hooks change the values")(tracing(factor=2))
answers.wrong("trace_through_autograd", "names no accumulation")(tracing(accumulates=False))


answers.wrong("trace_through_autograd", "leaves its hook on x")(tracing(removes=False))


def test_the_hint_for_a_hook_left_on_x_names_its_handle():
    exercise = answers.exercises["trace_through_autograd"]
    assert "handle.remove()" in first_hint(exercise, tracing(removes=False))


after = tracing(at=lambda node, hook: node.register_hook(hook))
answers.wrong("trace_through_autograd", "notes a node after it has run")(after)


def each_path(root):
    if root is None:
        return []
    return [root, *(one for edge in root.next_functions for one in each_path(edge[0]))]


answers.wrong("trace_through_autograd", "hooks a node once for each path to it")(tracing(each_path))


def one_way(which):
    def nodes(root):
        found = []
        while root is not None:
            found.append(root)
            root = root.next_functions[which][0] if root.next_functions else None
        return found

    return nodes


answers.wrong("trace_through_autograd", "follows one way alone")(tracing(one_way(0)))
answers.wrong("trace_through_autograd", "follows one way alone")(tracing(one_way(-1)))


def last_name(f, x):
    """Every hook reads the name when it is called."""
    names = []

    def nodes(root):
        found = nodes_of(root)
        names.extend(node.name() for node in found)
        return found

    events = tracing(nodes)(f, x)
    return [f"node {names[-1]}" if event.startswith("node") else event for event in events]


answers.wrong("trace_through_autograd", "names the last node every time")(last_name)


@answers.wrong("trace_through_autograd", "throws away the gradient that was there")
def clears(f, x):
    x.grad = None
    return tracing()(f, x)


@answers.wrong("trace_through_autograd", "leaves x without its gradient")
def clears_afterwards(f, x):
    events = tracing()(f, x)
    x.grad = None
    return events


@answers.wrong("trace_through_autograd", "changes x")
def zeroes(f, x):
    events = tracing()(f, x)
    with torch.no_grad():
        x.zero_()
    return events


@answers.wrong("trace_through_autograd", "calls f twice")
def twice(f, x):
    f(x)
    return tracing()(f, x)


def one_of_each_name(root):
    return list({node.name(): node for node in reversed(nodes_of(root))}.values())


answers.wrong("trace_through_autograd", "takes nodes of one name for one node")(
    tracing(one_of_each_name)
)


class Functions(TorchFunctionMode):
    def __init__(self, events):
        super().__init__()
        self.events = events

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.events.append(f"op {func.__name__}")
        return func(*args, **(kwargs or {}))


answers.wrong("trace_through_autograd", "notes the functions of torch, not their operators")(
    tracing(mode=Functions)
)


# --- analyse_the_dispatcher


def hops_of(casts=True, meta_too=False, look=True, everyone=False):
    def hops(context, x, y):
        context = context if look else "plain"
        device = "Meta" if x.is_meta else "CPU"
        made = [at for at, one in enumerate((x, y)) if everyone or not one.is_inference()]
        both, path = [0, 1], []
        if context == "mode":
            path.append(("PythonTLSSnapshot", []))
        if context == "autocast" and (meta_too or device == "CPU"):
            path.append(("AutocastCPU", both))
            made = both if casts else made
        if context != "inference_mode" and made:
            path.append((f"Autograd{device}", made))
        if context == "mode":
            path.append(("Python", []))
        return [*path, (device, both)]

    return hops


def argument_for(path, context):
    device = "meta" if path[-1] == "Meta" else "cpu"
    with torch.inference_mode(context != "inference_mode" and len(path) == 1):
        return torch.ones(2, 2, device=device)


def asks_labkit(context, x, y):
    call = explain_in(context, torch.ops.aten.mm.default, x, y, below=False)
    return [(hop["slot"], hops_of()(context, x, y)[at][1]) for at, hop in enumerate(call.recorded)]


def gives_up(context, x, y):
    try:
        return hops_of()({"plain": "plain"}[context], x, y)
    except Exception:
        return []


answers.right("analyse_the_dispatcher")((hops_of(), argument_for))
HOPS = {
    "prints the table row only": lambda context, x, y: hops_of()(context, x, y)[:1],
    "ignores thread-local sets": hops_of(look=False),
    "every factor brings every key": hops_of(everyone=True),
    "autocast keeps the factors": hops_of(casts=False),
    "autocast on meta, too": hops_of(meta_too=True),
    "asks labkit for the hops": asks_labkit,
    "catches every exception and returns a default": gives_up,
}
for name, hops in HOPS.items():
    answers.wrong("analyse_the_dispatcher", name)((hops, argument_for))


def same(path, context):
    return torch.ones(2, 2)


def meta(path, context):
    return torch.ones(2, 2, device="meta")


def inference(path, context):
    with torch.inference_mode():
        return torch.ones(2, 2, device="meta" if path[-1] == "Meta" else "cpu")


def by_requires_grad(path, context):
    device = "meta" if path[-1] == "Meta" else "cpu"
    return torch.ones(2, 2, device=device, requires_grad=len(path) > 1)


def registering():
    """An `argument_for` that leaves autograd out of the product where the path has none."""
    libraries = []

    def argument_for(path, context):
        while libraries:
            libraries.pop()._destroy()
        slot = "Meta" if path[-1] == "Meta" else "CPU"
        if context != "inference_mode" and len(path) == 1:
            libraries.append(torch.library.Library("aten", "IMPL"))
            libraries[0].impl("mm", torch.library.fallthrough_kernel, f"Autograd{slot}")
        return torch.ones(2, 2, device=slot.lower())

    return argument_for


ARGUMENTS = {
    "registers kernels, so that any call takes the path": registering(),
    "always the same tensor": same,
    "meta everywhere": meta,
    "an inference tensor everywhere": inference,
    "requires_grad decides the Autograd slot": by_requires_grad,
}
for name, wrong in ARGUMENTS.items():
    answers.wrong("analyse_the_dispatcher", name)((hops_of(), wrong))


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ((HOPS["autocast keeps the factors"], argument_for), "Autocast casts the factors first"),
        ((HOPS["every factor brings every key"], argument_for), "A factor with `x.is_inference()`"),
        ((HOPS["ignores thread-local sets"], argument_for), "inference_mode takes the hop"),
        ((hops_of(), meta), "Two dimensions"),
    ],
)
def test_a_hint_fits_the_call(answer, hint):
    exercise = answers.exercises["analyse_the_dispatcher"]
    assert first_hint(exercise, answer).startswith(hint)


# --- profile_memory_allocation


@answers.right("profile_memory_allocation")
def train(w, batches, check):
    history = []
    for x in batches:
        (w * x).square().mean().backward()
        with torch.no_grad():
            w -= w.grad
            w.grad = None
            history.append((w * check).square().mean())
    return history


answers.right("profile_memory_allocation")(lambda *given: finished_train(*given))
answers.wrong("profile_memory_allocation", "keeps losses with their graph")(
    lambda *given: kept_too_much(*given)
)


@answers.wrong("profile_memory_allocation", "detaches afterwards")
def detaches(w, batches, check):
    history = []
    for x in batches:
        (w * x).square().mean().backward()
        with torch.no_grad():
            w -= w.grad
        w.grad = None
        history.append((w * check).square().mean().item())
    return history


@answers.wrong("profile_memory_allocation", "shrinks the batch")
def on_half_of_it(w, batches, check):
    return train(w, [torch.cat([x[: len(x) // 2]] * 2)[: len(x)] for x in batches], check)


@answers.wrong("profile_memory_allocation", "checks with a quarter of the check")
def quarter(w, batches, check):
    return train(w, batches, check[:1])


@answers.wrong("profile_memory_allocation", "trains without a graph")
def no_graph(w, batches, check):
    with torch.no_grad():
        return [(w * check).square().mean() for _ in batches]


@answers.wrong("profile_memory_allocation", "trains without a graph")
def all_without(w, batches, check):
    with torch.no_grad():
        return train(w, batches, check)


@answers.wrong("profile_memory_allocation", "checks before the step")
def early(w, batches, check):
    with torch.no_grad():
        first = (w * check).square().mean()
    return [first, *train(w, batches, check)][: len(batches)]


@answers.wrong("profile_memory_allocation", "checks once, at the end")
def at_the_end(w, batches, check):
    return [train(w, batches, check)[-1] for _ in batches[:1]] * len(batches)


@answers.wrong("profile_memory_allocation", "keeps no losses")
def no_losses(w, batches, check):
    train(w, batches, check)
    return []


@answers.right("profile_memory_allocation")
def by_hand(w, batches, check):
    history = []
    with torch.no_grad():
        for x in batches:
            w -= 2 * x * (w * x) / x.numel()
            history.append((w * check).square().mean())
    return history


@answers.wrong("profile_memory_allocation", "changes what it was given")
def empties(w, batches, check):
    history = train(w, batches, check)
    batches.clear()
    return history


@answers.wrong("profile_memory_allocation", "changes what it was given")
def zeroes_the_check(w, batches, check):
    history = train(w, batches, check)
    check.zero_()
    return history


@answers.wrong("profile_memory_allocation", "changes what it was given")
def freezes(w, batches, check):
    history = train(w, batches, check)
    w.requires_grad_(False)
    return history


@answers.wrong("profile_memory_allocation", "has no list for no batches")
def no_list(w, batches, check):
    return train(w, batches, check) or None


# --- write_a_cpp_operator

SOURCE = """
C10_HOST_DEVICE double at(const double* x, long i, long j, long cols, long row_step,
                          long col_step) {
    return j < 0 || j >= cols ? 0.0 : x[i * row_step + j * col_step];
}
C10_HOST_DEVICE double difference_at(const double* x, long i, long j, long cols, long row_step,
                                     long col_step) {
    return at(x, i, j + 1, cols, row_step, col_step) - at(x, i, j - 1, cols, row_step, col_step);
}
C10_HOST_DEVICE double difference_backward_at(const double* x, long i, long j, long cols,
                                              long row_step, long col_step) {
    return -difference_at(x, i, j, cols, row_step, col_step);
}
"""


@answers.right("write_a_cpp_operator")
def source():
    return SOURCE


answers.right("write_a_cpp_operator")(lambda: FINISHED)


def test_a_notebook_that_used_the_device_checks_an_answer_on_it():
    device = kernel_bench.device()
    device.free(device.malloc(512))
    exercise = find("practical_exercises.write_a_cpp_operator")
    assert failing_cases(exercise, lambda: FINISHED, seed=11, search=False) == []


def changed(old, new):
    assert old in SOURCE
    return lambda: SOURCE.replace(old, new)


WRONG = {
    "ignores the strides": ("x[i * row_step + j * col_step]", "x[i * cols + j]"),
    "reads beside the row": ("j < 0 || j >= cols ? 0.0 : ", ""),
    "gives the gradient the sign of the value": ("-difference_at", "difference_at"),
    "leaves the border out": ("    return at(", "    return j == 0 || j == cols - 1 ? 0.0 : at("),
    "is right only for rows without gaps": ("j * col_step]", "j]"),
    "computes in float": ("    return at(", "    return (float)at("),
    "loops over the matrix itself": ("difference_at", "difference"),
    "is a function of the host alone": (
        "C10_HOST_DEVICE double difference_at",
        "double difference_at",
    ),
    "gives the border no gradient": ("return -d", "return j == 0 || j == cols - 1 ? 0.0 : -d"),
}
for name, (old, new) in WRONG.items():
    answers.wrong("write_a_cpp_operator", name)(changed(old, new))

BODY = SOURCE[
    SOURCE.index("    return at(") : SOURCE.index("\n}\nC10_HOST_DEVICE double difference_back")
]
IN_ORDER = """    static double left, here;
    if (j == 0) left = 0.0, here = x[i * row_step];
    double right = at(x, i, j + 1, cols, row_step, col_step), found = right - left;
    left = here, here = right;
    return found;"""
answers.wrong("write_a_cpp_operator", "is right where the elements come in order")(
    changed(BODY, IN_ORDER)
)


HELPER_OF_THE_HOST = changed("C10_HOST_DEVICE double at(", "double at(")
answers.wrong("write_a_cpp_operator", "is a function of the host alone")(HELPER_OF_THE_HOST)


test_answers = answers.tests()


def test_a_failing_training_is_drawn_beside_what_is_allowed():
    exercise = answers.exercises["profile_memory_allocation"]
    case = exercise.make(1, 20, 4)
    width, steps, seed = case.inputs
    got, right = measured(kept_too_much, width, steps, seed), exercise.right(case)
    page = exercise.picture(case, got, right)._repr_html_()
    assert f"{got['most bytes held']:,}" in page
    assert f"{right['most bytes held']:,}" in page


def test_the_finished_source_is_an_operator_with_a_gradient():
    difference = make_operator(lambda: FINISHED)
    x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(difference, (x.t(),))
    row = torch.tensor([[1.0, 4.0, 9.0]], dtype=torch.float64)
    assert difference(row).tolist() == [[4.0, 8.0, -4.0]]


# --- what is measured


def test_what_a_loss_keeps_is_held_until_it_is_gone():
    w, x = torch.ones(8, requires_grad=True), torch.ones(8)
    with Saved(w, x) as saved:
        loss = (w * x).square().sum()
        assert saved.held == saved.peak == 32
        del loss
    assert saved.held == 0
    assert saved.peak == 32
    assert saved.events[:2] == ["save 1", "save 2"]
    assert sorted(saved.events[2:]) == ["free 1", "free 2"]


def test_memory_that_two_nodes_saved_counts_once():
    w = torch.ones(8, requires_grad=True)
    with Saved(w) as saved:
        y = w * 2
        kept = y.square() + y.sin()
        assert saved.held == 32
    del kept


def test_backward_lets_go():
    w = torch.ones(8, requires_grad=True)
    with Saved(w) as saved:
        loss = (w * 2).square().sum()
        loss.backward()
        assert saved.held == 0


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("trace_through_autograd", tracing(one_way(0)), "A node is missing"),
        ("trace_through_autograd", tracing(each_path), "A node stands there too often"),
        ("trace_through_autograd", after, "The events are right, their order"),
        ("trace_through_autograd", clears, "x.grad may be there already"),
        ("trace_through_autograd", last_name, "The nodes have the wrong names"),
        ("profile_memory_allocation", kept_too_much, "Something is held"),
        ("profile_memory_allocation", detaches, "Nothing stays, but the most"),
        ("profile_memory_allocation", no_graph, "The weights came out different"),
        ("profile_memory_allocation", quarter, "The list of losses"),
        ("profile_memory_allocation", at_the_end, "The list of losses"),
        ("profile_memory_allocation", all_without, "The training itself needs"),
        ("profile_memory_allocation", no_list, "Without batches"),
        ("write_a_cpp_operator", changed(BODY, IN_ORDER), "On lab each element"),
        ("write_a_cpp_operator", HELPER_OF_THE_HOST, "A function without C10_HOST_DEVICE"),
    ],
)
def test_a_hint_fits_what_was_seen(name, answer, hint):
    assert first_hint(answers.exercises[name], answer).startswith(hint)
