"""The nodes that can run now, and which of them is next.

A binary heap moved exactly as libstdc++ moves one. For nodes with numbers of their own any heap
would do; among AccumulateGrad nodes, whose numbers are all equal, the order in which they come
out is nothing but the moves of the heap, and PyTorch's can be predicted only by making the same.
`labkit.show.backward.torch_backward` predicts it so for PyTorch's own graphs.

Source   torch/csrc/autograd/engine.h  ReadyQueue
         libstdc++ stl_heap.h  push_heap and pop_heap
"""

from typing import Any

Task = tuple[int, Any, Any]
"""(sequence number, node, input buffer); a larger number comes out earlier."""


def push(heap: list[Task], task: Task) -> None:
    """The task is in the heap."""
    heap.append(task)
    hole = len(heap) - 1
    if hole:
        _sift_up(heap, hole, task)


def pop(heap: list[Task]) -> Task:
    """The task with the largest number, taken out of the heap."""
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    _adjust(heap, last)
    return first


def _sift_up(heap: list[Task], hole: int, task: Task) -> None:
    number = task[0]
    while hole:
        parent = (hole - 1) // 2
        if heap[parent][0] >= number:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = task


def _adjust(heap: list[Task], task: Task) -> None:
    """Put a task in the place of the first: the hole sinks to a leaf, then the task rises.

    Source   libstdc++ stl_heap.h  __adjust_heap
    """
    length = len(heap)
    hole, child = 0, 2
    while child < length:
        if heap[child][0] < heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 2
    if child == length:  # one child without a sibling
        heap[hole] = heap[child - 1]
        hole = child - 1
    _sift_up(heap, hole, task)
