import ctypes
import mmap
import os
from pathlib import Path

import numpy as np

import labkit as lab
from labkit.core.allocator import DataPtr
from labkit.core.device import Device
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from tests.course.answers import CATCHES, FIRST, Answers

answers = Answers("tensor_and_storage")
LITERAL = "returns the literal answer of the example in the statement"


@answers.right("refcounts")
def refcounts(program):
    storage_of, deaths = {}, []
    for now, (kind, name, *old) in enumerate(program):
        before = set(storage_of.values())
        if kind == "create":
            storage_of[name] = len(deaths)
            deaths.append(None)
        elif kind in ("view", "alias", "save"):
            storage_of[name] = storage_of[old[0]]
        else:
            del storage_of[name]
        for storage in before - set(storage_of.values()):
            deaths[storage] = now
    return deaths


def without(*kinds):
    """The right count for the program without these statements, at the old places."""

    def answer(program):
        kept = [(now, line) for now, line in enumerate(program) if line[0] not in kinds]
        deaths = refcounts([line for _, line in kept])
        return [None if death is None else kept[death][0] for death in deaths]

    return answer


@answers.wrong("refcounts", "frees on del of the base though a view lives")
def frees_with_the_base(program):
    deaths, base = refcounts(program), {}
    for now, (kind, name, *_) in enumerate(program):
        if kind == "create":
            base[name] = len(base)
        elif kind == "del" and name in base:
            deaths[base[name]] = now
    return deaths


@answers.wrong("refcounts", "one count per tensor only")
def views_are_storages(program):
    owned = [("create", line[1]) if line[0] == "view" else line for line in program]
    deaths = refcounts(owned)
    created = [line[0] for line in program if line[0] in ("create", "view")]
    return [death for death, kind in zip(deaths, created, strict=True) if kind == "create"]


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
    deaths = refcounts(program)
    return deaths + [death for death in deaths if death is not None]


answers.wrong("refcounts", LITERAL)(lambda program: [None])


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


@answers.right("field_translator")
def field_translator(field):
    return {
        "THTensor.size": "t.size()",
        "THTensor.stride": "t.stride()",
        "THTensor.nDimension": "t.dim()",
        "THTensor.storage": "t.untyped_storage()",
        "THTensor.storageOffset": "t.storage_offset()",
        "THTensor.refcount": "gone: the intrusive_ptr base",
        "THTensor.flag": "gone: nothing",
        "THStorage.data": "t.untyped_storage().data_ptr()",
        "THStorage.size": "t.untyped_storage().nbytes() // t.itemsize",
        "THStorage.refcount": "gone: the intrusive_ptr base",
        "THStorage.allocatorContext": "gone: the DataPtr",
        "THStorage.view": "gone: nothing",
    }[field]


for why, changes in [
    ("stride as size", {"THTensor.stride": "t.size()"}),
    ("size as storage size", {"THStorage.size": "t.numel()"}),
    ("elements where bytes are meant", {"THStorage.size": "t.untyped_storage().nbytes()"}),
    ("offset in bytes", {"THTensor.storageOffset": "t.storage_offset() * t.itemsize"}),
    ("expressions that only work on contiguous input", {"THStorage.data": "t.data_ptr()"}),
    (LITERAL, {"THTensor.flag": "t.size()"}),
    (
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        {"THStorage.size": "t.untyped_storage().nbytes() // 4"},
    ),
]:
    answers.wrong("field_translator", why)(
        lambda field, changes=changes: changes.get(field) or field_translator(field)
    )


test_answers = answers.tests()
