"""Run backward: the roots become a task, the thread's state is set, and the task runs.

Source   torch/csrc/autograd/engine.cpp  Engine::execute
Differs  Nodes on every device run on the calling thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from labkit.autograd.engine.graph_task import GraphTask
from labkit.autograd.engine.validate import validate_outputs
from labkit.autograd.node import Edge
from labkit.autograd.state import STATE
from labkit.core.thread_local_state import ThreadLocalState

MAX_DEPTH = 20
"""So many backward calls run inside one another on one stack; the next gets a thread of its own.

Source   torch/csrc/autograd/engine.h  MAX_DEPTH
Differs  60 there; Python's recursion limit is nearer than the end of a C++ stack.
"""


class _Engine:
    new_task: Callable[..., GraphTask] = GraphTask
    """Makes the task of a backward call; `recording` puts one here that writes down its steps."""


ENGINE = _Engine()


def execute(
    roots: Sequence[Edge],
    grads: Sequence[Any],
    keep_graph: bool,
    create_graph: bool,
    outputs: Sequence[Edge] = (),
    accumulate_grad: bool = True,
) -> list[Any]:
    """Run backward from the roots; the gradients captured for `outputs`, if those were asked for.

    grads            one per root
    keep_graph       the graph can be run again
    create_graph     what runs is itself recorded
    outputs          edges whose gradient is wanted; with none, the whole graph runs
    accumulate_grad  the gradients of `outputs` go into `grad` of leaves instead of being captured

    Source   torch/csrc/autograd/engine.cpp  Engine::execute
    """
    fitting = validate_outputs(roots, list(grads), None)
    task = ENGINE.new_task(roots, fitting, keep_graph, outputs, accumulate_grad)
    before = (STATE.grad, STATE.running, STATE.task)
    STATE.grad, STATE.task = create_graph, task
    STATE.depth += 1
    try:
        if STATE.depth % MAX_DEPTH:
            task.run()
        else:
            _on_a_fresh_stack(task.run)
        for callback in task.final_callbacks:  # the list may grow meanwhile
            callback()
    finally:
        STATE.depth -= 1
        STATE.grad, STATE.running, STATE.task = before
    return task.captured


def _on_a_fresh_stack(run: Callable[[], None]) -> None:
    """The function has run in a thread that is in this thread's state.

    Source   torch/csrc/autograd/engine.cpp  Engine::add_thread_pool_task
    """
    state = ThreadLocalState()

    def in_this_state() -> None:
        state.restore()
        run()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(in_this_state).result()
