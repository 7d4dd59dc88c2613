import re

import torch

from labkit.course.exercises import architecture
from labkit.course.operator_files import formulas, operators
from tests.course.answers import CATCHES, Answers, catches

answers = Answers("architecture")

# --- the part a file belongs to

ROWS = {
    "torch/csrc/autograd/": "autograd",
    "tools/autograd/": "autograd",
    "aten/src/ATen/core/dispatch/": "dispatcher",
    "aten/": "ATen",
    "c10/": "c10",
    "torch/": "front",
}


@answers.right("part_of")
def part_of(path):
    return next(part for folder, part in ROWS.items() if path.startswith(folder))


@answers.wrong("part_of", "looks for a word anywhere")
def by_a_word(path):
    words = ("autograd", "dispatch", "ATen", "c10")
    found = next((word for word in words if word in path), "front")
    return {"dispatch": "dispatcher"}.get(found, found)


@answers.wrong("part_of", "takes the first folder alone")
def by_the_first_folder(path):
    return {"aten": "ATen", "c10": "c10", "tools": "autograd"}.get(path.split("/")[0], "front")


@answers.wrong("part_of", "asks the rows from top to bottom")
def from_the_top(path):
    rows = sorted(ROWS.items(), key=lambda row: len(row[0]))
    return next(part for folder, part in rows if path.startswith(folder))


# --- what a formula keeps


@answers.right("kept")
def kept(formula, arguments):
    return sorted({w for w in re.findall(r"\w+", formula) if w in arguments or w == "result"})


for why, answer in [
    (
        "finds a name inside of a longer one",
        lambda formula, names: sorted(n for n in [*names, "result"] if n in formula),
    ),
    (
        "forgets the result",
        lambda formula, names: [n for n in kept(formula, names) if n != "result"],
    ),
    ("keeps grad", lambda formula, names: kept(formula, [*names, "grad"])),
    ("keeps every argument", lambda formula, names: sorted(names)),
]:
    answers.wrong("kept", why)(answer)

# --- the kernel of an operator


def row(entry, key, cut=", "):
    table = entry.get("dispatch", {})
    return next((kernel for keys, kernel in table.items() if key in keys.split(cut)), None)


@answers.right("kernel_of")
def kernel_of(name, key, entries, *, row=row, delegates=True, formula=True, overload=False):
    entry = entries[name]
    tables = [entry]
    if delegates and "structured_delegate" in entry:
        tables.append(entries[entry["structured_delegate"]])
    for table in tables:
        if found := row(table, key):
            return found
    for composite in ("CompositeExplicitAutograd", "CompositeImplicitAutograd"):
        if found := row(entry, composite):
            return found
    if formula and "dispatch" not in entry and "structured_delegate" not in entry:
        return name if overload else name.partition(".")[0]
    return None


def within(entry, key):
    return next((k for keys, k in entry.get("dispatch", {}).items() if key in keys), None)


def first_overload(name, key, entries):
    base = name.partition(".")[0]
    first = next(one for one in entries if one.partition(".")[0] == base)
    return kernel_of(name, key, {**entries, name: entries[first]})


def in_its_row(name, key, entries):
    table = entries[name]["dispatch"]
    return next(kernel for keys, kernel in table.items() if key in keys.split(", "))


def no_dispatch_is_the_cpu(name, key, entries):
    return kernel_of(name, key, entries, formula=key == "CPU")


for why, answer in [
    ("takes the first overload of the name", first_overload),
    ("serves the CPU alone where there is no dispatch", no_dispatch_is_the_cpu),
    ("takes a row for one key", lambda *asked: kernel_of(*asked, row=lambda e, k: row(e, k, "\n"))),
    ("finds a key inside of a longer one", lambda *asked: kernel_of(*asked, row=within)),
    ("ignores structured_delegate", lambda *asked: kernel_of(*asked, delegates=False)),
    ("treats a missing dispatch as None", lambda *asked: kernel_of(*asked, formula=False)),
    ("keeps the overload in the formula's name", lambda *asked: kernel_of(*asked, overload=True)),
    (CATCHES, catches(in_its_row)),
]:
    answers.wrong("kernel_of", why)(answer)

# --- what a tensor carries


@answers.right("metadata_dump")
def metadata(t, version=None, keys=None, nbytes=None, strides=None):
    sparse = t.layout != torch.strided
    pieces = dict.fromkeys(("strides", "offset", "bytes"))
    if not sparse:
        pieces["strides"] = tuple((strides or torch.Tensor.stride)(t))
        pieces["offset"] = t.storage_offset()
        pieces["bytes"] = (nbytes or (lambda t: t.untyped_storage().nbytes()))(t)
    pieces |= {name: getattr(t, name)() for name in ("is_conj", "is_neg", "is_inference")}
    pieces |= {name: getattr(t, name) for name in ("dtype", "layout", "requires_grad", "is_leaf")}
    pieces["sizes"], pieces["device"] = tuple(t.size()), t.device.type
    counted = version or (lambda t: None if t.is_inference() else t._version)
    pieces["version"] = counted(t)
    pieces["keys"] = (keys or (lambda found: found.raw_repr()))(torch._C._dispatch_keys(t))
    return pieces


def as_contiguous(t):
    steps = [1]
    for size in reversed(t.shape[1:]):
        steps.insert(0, steps[0] * size)
    return steps


for why, answer in [
    (
        "dtype, device and layout only",
        lambda t: {"dtype": t.dtype, "device": t.device.type, "layout": t.layout},
    ),
    (
        "the version of another tensor",
        lambda t: metadata(t, version=lambda t: None if t.is_inference() else t.data._version),
    ),
    ("keys as text", lambda t: metadata(t, keys=str)),
    (
        "storage size in elements",
        lambda t: metadata(t, nbytes=lambda t: t.untyped_storage().nbytes() // t.element_size()),
    ),
    (
        "bytes of what the view shows",
        lambda t: metadata(t, nbytes=lambda t: t.numel() * t.element_size()),
    ),
    (
        "offset in bytes",
        lambda t: (
            metadata(t)
            | ({"offset": t.storage_offset() * t.itemsize} if t.layout == torch.strided else {})
        ),
    ),
    ("fails on other layouts", lambda t: metadata(t) | {"strides": tuple(t.stride())}),
    (
        "says None of what is quantised",
        lambda t: metadata(t) | (dict(bytes=None) if t.is_quantized else {}),
    ),
    ("fails in inference mode", lambda t: metadata(t, version=lambda t: t._version)),
    ("strides as if contiguous", lambda t: metadata(t, strides=as_contiguous)),
    (
        "takes what wants a gradient for no leaf",
        lambda t: metadata(t) | {"is_leaf": not t.requires_grad},
    ),
]:
    answers.wrong("metadata_dump", why)(answer)


test_answers = answers.tests()

# --- the checker's own truth, beside the installed torch


def test_the_rules_say_who_has_a_kernel_on_the_cpu():
    """What the entries say of every operator, and what the dispatcher has; but for add's loops."""
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    known = [n for n in architecture.usual() if torch._C._dispatch_has_kernel(f"aten::{n}")]
    wrong = [
        name
        for name in known
        if bool(architecture._holder(operators()[name], "CPU")) != has(f"aten::{name}", "CPU")
    ]
    delegates = [operators()[name].get("structured_delegate", name) for name in wrong]
    assert len(known) > 2000
    assert all("ufunc_inner_loop" in operators()[name] for name in delegates), wrong


def test_a_formula_s_names_are_what_a_node_has_saved():
    x = torch.rand(3, requires_grad=True)
    for name, node in (("sigmoid", x.sigmoid()), ("exp", x.exp()), ("tanh", x.tanh())):
        formula = formulas()[name]["self"].replace(".conj()", "")
        saved = {
            one.removeprefix("_saved_") for one in dir(node.grad_fn) if one.startswith("_saved_")
        }
        assert saved == set(kept(formula, ["self"])), name
