"""Right and wrong answers to the exercises of the chapter in which Python meets C."""

import contextlib
import ctypes
import weakref

import torch

from labkit.course.checks import outcomes
from labkit.course.exercise import Rng
from labkit.course.exercises._c_library import handle_program
from tests.course.answers import CATCHES, Answers, first_hint

answers = Answers("python_meets_c")

# --- low_half


@answers.right("low_half")
def low_half(address):
    return (address + 2**31) % 2**32 - 2**31


answers.wrong("low_half", "keeps the sign bit as a number")(lambda address: address % 2**32)
answers.wrong("low_half", "drops 31 bits only")(lambda address: address % 2**31)
answers.wrong("low_half", "keeps all bits")(lambda address: address)
answers.wrong("low_half", "forgets the smallest int")(
    lambda address: address % 2**32 - 2**32 * (address % 2**32 > 2**31)
)

# --- readable


@answers.right("readable")
def readable(x):
    return x.dtype == torch.float32 and x.is_contiguous()


answers.wrong("readable", "asks for the dtype only")(lambda x: x.dtype == torch.float32)
answers.wrong("readable", "asks for the layout only")(lambda x: x.is_contiguous())
answers.wrong("readable", "compares strides with 1")(
    lambda x: x.dtype == torch.float32 and x.stride()[-1:] in ((), (1,))
)

# --- tensor_to_c


@answers.right("tensor_to_c")
def tensor_to_c(x, sums):
    if x.dtype not in sums:
        raise TypeError(f"no C function for {x.dtype}")
    packed = x.contiguous()
    return sums[x.dtype](packed.data_ptr(), packed.numel())


@answers.wrong("tensor_to_c", "ignores strides")
def ignores_strides(x, sums):
    if x.dtype not in sums:
        raise TypeError
    return sums[x.dtype](x.data_ptr(), x.numel())


@answers.wrong("tensor_to_c", "ignores offset")
def ignores_offset(x, sums):
    if x.dtype not in sums:
        raise TypeError
    packed = x if x.is_contiguous() else x.clone(memory_format=torch.contiguous_format)
    return sums[x.dtype](packed.untyped_storage().data_ptr(), packed.numel())


@answers.wrong("tensor_to_c", "converts into a temporary that dies first")
def dies_first(x, sums):
    if x.dtype not in sums:
        raise TypeError
    address = x.contiguous().data_ptr()
    return sums[x.dtype](address, x.numel())


@answers.wrong("tensor_to_c", "silently casts integers to float")
def casts(x, sums):
    packed = x.to(torch.float64).contiguous()
    return sums[torch.float64](packed.data_ptr(), packed.numel())


@answers.wrong("tensor_to_c", "reads doubles as floats")
def as_floats(x, sums):
    if x.dtype not in sums:
        raise TypeError
    packed = x.contiguous()
    return sums[torch.float32](packed.data_ptr(), packed.numel())


@answers.wrong("tensor_to_c", "rounds doubles to floats")
def rounds(x, sums):
    if x.dtype not in sums:
        raise TypeError
    packed = x.to(torch.float32).contiguous()
    return sums[torch.float32](packed.data_ptr(), packed.numel())


@answers.wrong("tensor_to_c", "refuses with another error")
def another_error(x, sums):
    packed = x.contiguous()
    return sums[x.dtype](packed.data_ptr(), packed.numel())


@answers.wrong("tensor_to_c", "counts the elements of the storage")
def counts_all(x, sums):
    if x.dtype not in sums:
        raise TypeError
    packed = x.contiguous()
    whole = packed.untyped_storage().nbytes() // packed.itemsize - packed.storage_offset()
    return sums[x.dtype](packed.data_ptr(), whole)


# --- owned_handle


@answers.right("owned_handle")
class Owned:
    def __init__(self, lib):
        self.lib, self.handle = lib, lib.make()
        self.end = weakref.finalize(self, lib.drop, self.handle)

    def open(self):
        if not self.end.alive:
            raise ValueError("the counter is closed")
        return self.handle

    def add(self, amount):
        if self.lib.add(self.open(), amount):
            raise RuntimeError(self.lib.message().decode())

    def total(self):
        return self.lib.total(self.open())

    def close(self):
        self.end()

    def __copy__(self):
        raise TypeError("a counter has one owner")

    def __deepcopy__(self, memo):
        raise TypeError("a counter has one owner")


@answers.wrong("owned_handle", "no destroy")
class Leaks(Owned):
    def __init__(self, lib):
        super().__init__(lib)
        self.end.detach()
        self.end = weakref.finalize(self, int)


@answers.wrong("owned_handle", "close and the end both destroy")
class Twice(Owned):
    def close(self):
        self.lib.drop(self.handle)


@answers.wrong("owned_handle", "lets an error code pass")
class Deaf(Owned):
    def add(self, amount):
        self.lib.add(self.open(), amount)


@answers.wrong("owned_handle", "raises the message as bytes")
class Bytes(Owned):
    def add(self, amount):
        if self.lib.add(self.open(), amount):
            raise RuntimeError(self.lib.message())


@answers.wrong("owned_handle", "shares a handle between copies")
class Shares(Owned):
    def __copy__(self):
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo):
        return self.__copy__()


@answers.wrong("owned_handle", "keeps the low half of the handle")
class HalfAHandle(Owned):
    def __init__(self, lib):
        super().__init__(lib)
        self.handle = ctypes.c_int(self.handle).value


@answers.wrong("owned_handle", "uses a closed counter")
class NeverClosed(Owned):
    def open(self):
        return self.handle


@answers.wrong("owned_handle", CATCHES)
class Quiet(Owned):
    def add(self, amount):
        with contextlib.suppress(Exception):
            super().add(amount)

    def total(self):
        with contextlib.suppress(Exception):
            return super().total()


@answers.wrong("owned_handle", "ends only in the reverse of the order of its beginnings")
class Nested(Owned):
    begun = ()

    def __init__(self, lib):
        super().__init__(lib)
        Nested.begun = (*Nested.begun, self.handle)

    def close(self):
        if Nested.begun[-1:] == (self.handle,):
            Nested.begun = Nested.begun[:-1]
            super().close()


class HoldsItself(Owned):
    def __init__(self, lib):
        self.lib, self.handle = lib, lib.make()
        self.end = weakref.finalize(self, self.drop)

    def drop(self):
        self.lib.drop(self.handle)


class Misspelt(Owned):
    def total(self):
        return self.lib.totl(self.open())


class ClosesWithAnotherError(Owned):
    def open(self):
        if not self.end.alive:
            raise KeyError("closed")
        return self.handle


def test_each_mistake_of_an_owner_gets_its_own_hint():
    exercise = answers.exercises["owned_handle"]
    assert "bytes" in first_hint(exercise, Bytes)
    assert "returned 1" in first_hint(exercise, Deaf)
    assert "not dropped" in first_hint(exercise, Leaks)
    assert "such as self.close" in first_hint(exercise, HoldsItself)
    assert "Refuse a copy" in first_hint(exercise, Shares)
    assert "your own code" in first_hint(exercise, Misspelt)
    assert "must not be used" in first_hint(exercise, ClosesWithAnotherError)


def test_a_program_counts_its_counters_as_the_library_does():
    for seed in range(5):
        program = handle_program(Rng(seed), 6, "ends")
        made = [name for what, name, *_ in program if what == "make"]
        assert made == [f"c{number}" for number in range(len(made))]


def test_a_tensor_that_dies_too_early_is_never_told_to_make_it_contiguous():
    exercise = answers.exercises["tensor_to_c"]
    assert "gone already" in first_hint(exercise, dies_first)
    assert "element by element" in first_hint(exercise, ignores_strides)


def test_an_error_that_is_no_refusal_is_shown_in_its_own_words():
    def counts_rows(x, sums):
        packed = x.contiguous()
        return sums[x.dtype](packed.data_ptr(), len(packed) * (packed.numel() // len(packed)))

    exercise = answers.exercises["tensor_to_c"]
    evidence = next(one for one in outcomes(exercise, counts_rows, 7) if one.failures).failures[0]
    assert "len() of a 0-d tensor" in evidence.got
    assert "your own code" in first_hint(exercise, counts_rows)


def test_a_hint_about_a_type_names_the_type():
    exercise = answers.exercises["tensor_to_c"]
    assert "Refuse it with a TypeError" in first_hint(exercise, another_error)
    assert "Refuse it with a TypeError" in first_hint(exercise, casts)
    assert "Take the one of x.dtype" in first_hint(exercise, rounds)
    assert "Take the one of x.dtype" in first_hint(exercise, as_floats)


test_answers = answers.tests()
