"""Where C++'s sorting algorithms leave equal elements.

Values come out the same from any algorithm. Among equals the positions depend on the moves, and
PyTorch reports positions: these are the moves of its C++ library, on a list of keys.

Source   libstdc++  stl_algo.h, stl_heap.h
"""

from typing import Any

_SMALL = 16


class Moves:
    """An order of positions, rearranged as C++ rearranges the elements; keys compare with <."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys
        self.order = list(range(len(keys)))

    def _less(self, i: int, j: int) -> bool:
        """Whether the element at place i goes before the one at place j."""
        return bool(self.keys[self.order[i]] < self.keys[self.order[j]])

    def _swap(self, i: int, j: int) -> None:
        self.order[i], self.order[j] = self.order[j], self.order[i]

    # -- std::nth_element and std::sort ------------------------------------------------------

    def nth_element(self, nth: int) -> None:
        """The element at `nth` is the one a sort would put there; smaller ones are before it."""
        first, last = 0, len(self.order)
        depth = 2 * (last.bit_length() - 1)
        while last - first > 3:
            if depth == 0:
                self._heap_select(first, nth + 1, last)
                self._swap(first, nth)
                return
            depth -= 1
            cut = self._partition_around_median(first, last)
            first, last = (cut, last) if cut <= nth else (first, cut)
        self._insertion_sort(first, last)

    def sort(self, last: int) -> None:
        """The elements before `last` are sorted."""
        if last < 2:
            return
        self._introsort(0, last, 2 * (last.bit_length() - 1))
        self._insertion_sort(0, min(last, _SMALL))
        for i in range(_SMALL, last):
            self._insert_unguarded(i)

    def _introsort(self, first: int, last: int, depth: int) -> None:
        while last - first > _SMALL:
            if depth == 0:
                self._heap_select(first, last, last)
                self._sort_heap(first, last)
                return
            depth -= 1
            cut = self._partition_around_median(first, last)
            self._introsort(cut, last, depth)
            last = cut

    def _partition_around_median(self, first: int, last: int) -> int:
        a, b, c = first + 1, first + (last - first) // 2, last - 1
        if self._less(a, b):
            median = b if self._less(b, c) else c if self._less(a, c) else a
        else:
            median = a if self._less(a, c) else c if self._less(b, c) else b
        self._swap(first, median)
        left, right = first + 1, last
        while True:
            while self._less(left, first):
                left += 1
            right -= 1
            while self._less(first, right):
                right -= 1
            if left >= right:
                return left
            self._swap(left, right)
            left += 1

    def _insertion_sort(self, first: int, last: int) -> None:
        for i in range(first + 1, last):
            if self._less(i, first):
                self.order.insert(first, self.order.pop(i))
            else:
                self._insert_unguarded(i)

    def _insert_unguarded(self, i: int) -> None:
        while self._less(i, i - 1):
            self._swap(i, i - 1)
            i -= 1

    # -- std::partial_sort -------------------------------------------------------------------

    def partial_sort(self, middle: int) -> None:
        """The elements before `middle` are the smallest, sorted."""
        self._heap_select(0, middle, len(self.order))
        self._sort_heap(0, middle)

    def _heap_select(self, first: int, middle: int, last: int) -> None:
        length = middle - first
        for parent in range((length - 2) // 2, -1, -1):
            self._sift(first, parent, length, self.order[first + parent])
        for i in range(middle, last):
            if self._less(i, first):
                self._pop_heap(first, middle, i)

    def _sort_heap(self, first: int, last: int) -> None:
        while last - first > 1:
            last -= 1
            self._pop_heap(first, last, last)

    def _pop_heap(self, first: int, last: int, result: int) -> None:
        value = self.order[result]
        self.order[result] = self.order[first]
        self._sift(first, 0, last - first, value)

    def _sift(self, first: int, hole: int, length: int, value: int) -> None:
        """Down to a leaf along the larger children, then up to where the value belongs."""
        top = child = hole
        while child < (length - 1) // 2:
            child = 2 * (child + 1)
            child -= self._less(first + child, first + child - 1)
            self.order[first + hole] = self.order[first + child]
            hole = child
        if length % 2 == 0 and child == (length - 2) // 2:
            child = 2 * child + 1
            self.order[first + hole] = self.order[first + child]
            hole = child
        parent = (hole - 1) // 2
        while hole > top and self.keys[self.order[first + parent]] < self.keys[value]:
            self.order[first + hole] = self.order[first + parent]
            hole, parent = parent, (parent - 1) // 2
        self.order[first + hole] = value
