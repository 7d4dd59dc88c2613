import copy
import ctypes
import mmap
import os
from collections import Counter
from pathlib import Path

import numpy as np

import labkit as lab
from labkit.core.allocator import DataPtr
from labkit.core.device import Device
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from labkit.course.checking import own_process
from labkit.course.checks import failing_cases
from labkit.course.exercise import Case, Evidence, Hint, Raised
from tests.course.answers import CATCHES, FIRST, Answers

answers = Answers("tensor_and_storage")
LITERAL = "returns the literal answer of the example in the statement"


@answers.right("refcounts")
def refcounts(program, base_of=lambda tensor, base: base, names=False):
    """The fate of every storage, with switches for mistakes about bases and names."""
    held, base, home, freed, storages = {}, {}, {}, {}, 0
    for now, (kind, name, *old) in enumerate(program):
        source = held.get(old[0]) if old else None
        if kind in ("alias", "save"):
            held[name] = source
        elif kind in ("del", "release"):
            del held[name]
        else:
            held[name] = new = len(home)
            base[new] = new if kind == "create" else base_of(source, base[source])
            home[new] = storages if kind == "create" else home[source]
            storages += kind == "create"
        alive, more = set(), {*held.values()}
        while more - alive:
            alive |= more
            more = {base[tensor] for tensor in alive if base[tensor] is not None}
        counted = [*held.values()] if names else alive
        left = {storage: sum(home[t] == storage for t in counted) for storage in range(storages)}
        for storage in range(storages):
            if not left[storage]:
                freed.setdefault(storage, now)
    return [("freed", freed[s]) if s in freed else ("held", left[s]) for s in range(storages)]


@answers.wrong("refcounts", "counts without bases")
def without_bases(program):
    return refcounts(program, lambda tensor, base: None)


@answers.wrong("refcounts", "counts names, not tensors")
def counts_names(program):
    return refcounts(program, names=True)


@answers.wrong("refcounts", "a view holds the tensor it was taken from")
def holds_the_middle(program):
    return refcounts(program, lambda tensor, base: tensor)


@answers.right("refcounts")
def by_bases(program):
    """The solution of the notebook: a storage is known by the base of all that read it."""
    held, base, freed = {}, [], {}
    for now, (kind, name, *old) in enumerate(program):
        if kind in ("alias", "save"):
            held[name] = held[old[0]]
        elif kind in ("del", "release"):
            del held[name]
        else:
            new = len(base)
            base.append(new if kind == "create" else base[held[old[0]]])
            held[name] = new
        alive = {*held.values()} | {base[tensor] for tensor in held.values()}
        holders = Counter(base[tensor] for tensor in alive)
        for storage in {*base} - {*holders}:
            freed.setdefault(storage, now)
    return [
        ("freed", freed[storage]) if storage in freed else ("held", holders[storage])
        for storage in sorted({*base})
    ]


def without(*kinds):
    """The right answer for the program without these statements, at the old places."""

    def answer(program):
        kept = [(now, line) for now, line in enumerate(program) if line[0] not in kinds]
        fates = refcounts([line for _, line in kept])
        return [("freed", kept[n][0]) if fate == "freed" else (fate, n) for fate, n in fates]

    return answer


@answers.wrong("refcounts", "frees on del of the base though a view lives")
def frees_with_the_base(program):
    fates, base = refcounts(program), {}
    for now, (kind, name, *_) in enumerate(program):
        if kind == "create":
            base[name] = len(base)
        elif kind == "del" and name in base:
            fates[base[name]] = ("freed", now)
    return fates


@answers.wrong("refcounts", "one count per tensor only")
def views_are_storages(program):
    owned = [("create", line[1]) if line[0] == "view" else line for line in program]
    fates = refcounts(owned)
    created = [line[0] for line in program if line[0] in ("create", "view")]
    return [fate for fate, kind in zip(fates, created, strict=True) if kind == "create"]


answers.wrong("refcounts", "ignores saved tensors")(without("save", "release"))


@answers.wrong("refcounts", "ignores rebinding of a name")
def never_rebinds(program):
    renamed, current = [], {}
    for now, (kind, name, *old) in enumerate(program):
        old = [current.get(other, other) for other in old]
        if kind in ("create", "view", "alias"):
            current[name] = f"{name}{now}"
        renamed.append((kind, current.get(name, name), *old))
    return refcounts(renamed)


@answers.wrong("refcounts", "frees twice")
def frees_twice(program):
    fates = refcounts(program)
    return fates + [fate for fate in fates if fate[0] == "freed"]


answers.wrong("refcounts", LITERAL)(lambda program: [("held", 1)])


@answers.right("mapped_tensor")
def mapped_tensor(path, nbytes, shared, grow, on_release):
    with Path(path).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if nbytes > size and not grow:
            raise ValueError(f"{nbytes} bytes wanted, {path} has {size}")
        if nbytes > size:
            file.truncate(nbytes)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        mapping = mmap.mmap(file.fileno(), nbytes, access=access)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))

    def release(mapping):
        mapping.close()
        on_release()

    data_ptr = DataPtr(address, Device("cpu"), mapping, release)
    storage = Storage.from_data_ptr(data_ptr, nbytes)
    return lab.Tensor(TensorImpl(storage, lab.uint8, (nbytes,), (1,)))


@answers.wrong("mapped_tensor", "reads the file into memory")
def reads(path, nbytes, shared, grow, on_release):
    content = Path(path).read_bytes()
    if nbytes > len(content) and not grow:
        raise ValueError
    array = np.frombuffer(bytearray(content[:nbytes].ljust(nbytes, b"\0")), dtype=np.uint8)
    data_ptr = DataPtr(array.ctypes.data, Device("cpu"), array, lambda _: on_release())
    storage = Storage.from_data_ptr(data_ptr, nbytes)
    return lab.Tensor(TensorImpl(storage, lab.uint8, (nbytes,), (1,)))


@answers.wrong("mapped_tensor", "deleter never called")
def never_released(path, nbytes, shared, grow, on_release):
    return mapped_tensor(path, nbytes, shared, grow, lambda: None)


@answers.wrong("mapped_tensor", "deleter called per view")
def released_per_view(path, nbytes, shared, grow, on_release):
    tensor = mapped_tensor(path, nbytes, shared, grow, on_release)

    class Counted(lab.Tensor):
        def __getitem__(self, index):
            on_release()
            return super().__getitem__(index)

    return Counted(tensor.impl)


@answers.wrong("mapped_tensor", "shared mode that does not write back")
def always_private(path, nbytes, shared, grow, on_release):
    return mapped_tensor(path, nbytes, False, grow, on_release)


@answers.wrong("mapped_tensor", "off-by-header offset")
def skips_a_header(path, nbytes, shared, grow, on_release):
    tensor = mapped_tensor(path, nbytes, shared, grow, on_release)
    header = min(1, nbytes - 1)
    impl = tensor.impl
    return lab.Tensor(TensorImpl(impl.storage, lab.uint8, (nbytes - header,), (1,), header))


@answers.wrong("mapped_tensor", "returns the right value but changes one of its inputs")
def grows_every_file(path, nbytes, shared, grow, on_release):
    with Path(path).open("ab") as file:
        file.write(b"\0")
    return mapped_tensor(path, nbytes, shared, grow, on_release)


@answers.wrong("mapped_tensor", "cuts a longer file")
def truncates_always(path, nbytes, shared, grow, on_release):
    if grow or nbytes <= Path(path).stat().st_size:
        os.truncate(path, nbytes)
    return mapped_tensor(path, nbytes, shared, grow, on_release)


@answers.wrong("mapped_tensor", FIRST, make=True)
def remembers_the_first():
    kept = []

    def answer(path, *rest):
        kept.append(mapped_tensor(path, *rest))
        return kept[0]

    return answer


@answers.wrong("mapped_tensor", CATCHES)
def answers_with_zeros(path, nbytes, shared, grow, on_release):
    try:
        return mapped_tensor(path, nbytes, shared, grow, on_release)
    except Exception:
        return lab.zeros(nbytes, dtype=lab.uint8)


@answers.right("release")
def release(storage, give_back):
    storage.count -= 1
    if storage.count == 0:
        give_back(storage.cells)


@answers.wrong("release", "gives back at every call")
def gives_back_always(storage, give_back):
    storage.count -= 1
    give_back(storage.cells)


@answers.wrong("release", "never gives back")
def only_counts(storage, give_back):
    storage.count -= 1


@answers.wrong("release", "looks before it counts down")
def looks_first(storage, give_back):
    if storage.count == 0:
        give_back(storage.cells)
    storage.count -= 1


@answers.wrong("release", "hands over the storage, not its cells")
def hands_over_all(storage, give_back):
    release(storage, lambda cells: give_back(storage))


@answers.wrong("release", "does not count")
def never_counts(storage, give_back):
    if storage.count == 1:
        give_back(storage.cells)


@answers.right("base_of")
def base_of(tensor):
    return tensor if tensor.base is None else tensor.base


answers.wrong("base_of", "takes the tensor itself, though it is a view")(lambda tensor: tensor)
answers.wrong("base_of", "takes the base of a tensor that has none")(lambda tensor: tensor.base)


@answers.wrong("base_of", "makes a new tensor")
def copies(tensor):
    return copy.copy(base_of(tensor))


test_answers = answers.tests()


def shown_hint(name, answer, seed=3):
    """The first hint that fits what the answer got wrong."""
    (found, *_) = failing_cases(answers.exercises[name], answer, seed, search=False)
    return next(hint.text for hint in written_hints(name) if hint.fits(found))


def written_hints(name):
    return [hint for hint in answers.exercises[name].hints if isinstance(hint, Hint)]


def late(program):
    """What is known of an answer that never gives this program's bytes back."""
    right = refcounts(program)
    value = [("held", 1)] * len(right)
    return Evidence("value", "", "", "", "", "", 1, (program,), value, right)


def overwrites(program):
    """Every later statement is noted as the one at which the bytes went back."""
    return [(fate, len(program) - 1 if fate == "freed" else n) for fate, n in refcounts(program)]


def counts_from_one(program):
    """The first statement has number 1."""
    return [(fate, n + (fate == "freed")) for fate, n in refcounts(program)]


def test_a_hint_is_about_what_went_wrong():
    assert "the first has index 0" in shown_hint("refcounts", counts_from_one)
    assert "had gone back at an earlier" in shown_hint("refcounts", overwrites)
    early = "Bytes went back that somebody still held"
    assert shown_hint("refcounts", frees_with_the_base).startswith(early)
    assert "given another tensor" in shown_hint("refcounts", never_rebinds)
    kept = [("create", "a"), ("view", "b", "a"), ("del", "a"), ("del", "b")]
    assert not any(hint.fits(late(kept)) for hint in written_hints("refcounts"))
    assert "count is too low" in shown_hint("refcounts", without_bases)
    alone = Evidence(
        "value", "", "", "", "", "", 1, ([("create", "f"), ("view", "a", "f")],),
        [("held", 1)], [("held", 2)],
    )  # fmt: skip
    fitting = next(hint for hint in written_hints("refcounts") if hint.fits(alone))
    assert "one holder more" in fitting.text, "nothing was deleted, so no base is hidden"
    assert "count is too high" in shown_hint("refcounts", counts_names)
    assert shown_hint("release", gives_back_always).startswith("Cells were given back while")
    assert shown_hint("release", only_counts).startswith("The last holder is gone")
    assert "file does not hold" in shown_hint("mapped_tensor", always_private)
    once = shown_hint("mapped_tensor", never_released)
    assert once.startswith("on_release runs once") and "given the context" in once
    assert "became shorter" in shown_hint("mapped_tensor", truncates_always)


def test_a_smaller_program_still_runs_and_lacks_what_nobody_uses():
    program = [("create", "c"), ("create", "f"), ("view", "a", "f"), ("save", "node3", "a")]
    smaller = [one for (one,) in answers.exercises["refcounts"].smaller(program)]
    assert program[1:] in smaller and program[:3] in smaller
    assert [program[0], *program[2:]] not in smaller, "f would not be there"
    again = [("create", "a"), ("del", "a"), ("del", "a")]
    assert again[1:] not in [one for (one,) in answers.exercises["refcounts"].smaller(again)]


def test_the_picture_stands_at_the_statement_that_was_answered_wrongly():
    program = [("create", "a"), ("view", "b", "a"), ("save", "node2", "b"), ("del", "a")]
    program += [("release", "node2"), ("del", "b")]
    right = answers.exercises["refcounts"].right(Case((program,)))
    assert right == [("freed", 5)]
    picture = answers.exercises["refcounts"].picture
    assert picture(Case((program,)), [("freed", 3)], right).frame == 3
    assert picture(Case((program,)), [("held", 1)], right).frame == 5
    assert picture(Case((program,)), Raised(KeyError("b")), right).frame == 5
    assert picture(Case((program[:5],)), [("freed", 3)], [("held", 2)]).frame == 3
    assert picture(Case((program[:5],)), [("held", 1)], [("held", 2)]).frame == 4


def test_a_file_that_came_out_wrong_is_drawn_beside_the_right_one():
    exercise = answers.exercises["mapped_tensor"]
    case = Case((b"\0\1\2", 3, True, False, {1: 9}))
    right = exercise.right(case)
    assert exercise.picture(case, right | {"file after writing": b"\0\1\2"}, right)
    assert exercise.picture(case, right, right) is None
    assert exercise.picture(case, {"refused": True}, right) is None


def lets_the_mapping_go(path, nbytes, shared, grow, on_release):
    with Path(path).open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), nbytes)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    data_ptr = DataPtr(address, Device("cpu"), None, lambda _: on_release())
    storage = Storage.from_data_ptr(data_ptr, nbytes)
    return lab.Tensor(TensorImpl(storage, lab.uint8, (nbytes,), (1,)))


def test_an_answer_whose_memory_is_gone_ends_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(own_process, "CAN", True)
    exercise = answers.exercises["mapped_tensor"]
    (found,) = failing_cases(exercise, lets_the_mapping_go, 3, search=False)
    assert found.kind == "ended" and "memory that was not there" in found.got
    assert found.number == 1 and len(found.inputs) == 5
    hint = next(hint for hint in written_hints("mapped_tensor") if hint.fits(found))
    assert "pass it as context" in hint.text
    assert failing_cases(exercise, mapped_tensor, 3) == [], "and the next answer is asked"
