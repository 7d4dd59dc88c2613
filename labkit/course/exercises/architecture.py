"""Architecture: the part of a file, what a formula keeps, a kernel, what a tensor carries."""

import functools
import re
from collections.abc import Callable
from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._metadata import metadata_dump
from labkit.course.exercises._never_right import CATCHES
from labkit.course.operator_files import formulas, operators

NOTEBOOK = "3_internals/1_architecture"


# --- part_of

FILES = {
    "autograd": ("torch/csrc/autograd/engine.cpp", "torch/csrc/autograd/generated/Functions.cpp",
                 "torch/csrc/autograd/variable.h", "tools/autograd/derivatives.yaml"),
    "dispatcher": ("aten/src/ATen/core/dispatch/Dispatcher.h",
                   "aten/src/ATen/core/dispatch/OperatorEntry.cpp"),
    "ATen": ("aten/src/ATen/native/BinaryOps.cpp", "aten/src/ATen/native/native_functions.yaml",
             "aten/src/ATen/RegisterCPU_N.cpp", "aten/src/ATen/core/List.h"),
    "c10": ("c10/core/TensorImpl.h", "c10/util/intrusive_ptr.h", "c10/core/DispatchKey.h",
            "c10/cuda/CUDAStream.h"),
    "front": ("torch/_tensor.py", "torch/nn/modules/linear.py", "torch/csrc/Storage.cpp",
              "torch/csrc/utils/python_arg_parser.h"),
}  # fmt: skip


def _a_file(rng: Rng, size: int) -> tuple[str]:
    part = rng.choice(sorted(FILES))
    path = rng.choice(FILES[part])
    if rng.chance(0.5):  # another file of the same folder
        ending = path.rpartition(".")[2]
        path = f"{path.rpartition('/')[0]}/{rng.choice(('Engine', 'autograd', 'c10'))}.{ending}"
    return (path,)


def _part(path: str) -> str:
    if path.startswith(("torch/csrc/autograd/", "tools/autograd/")):
        return "autograd"
    if path.startswith("aten/src/ATen/core/dispatch/"):
        return "dispatcher"
    first = path.partition("/")[0]
    return {"aten": "ATen", "c10": "c10"}.get(first, "front")


part_of = Exercise(
    id="architecture.part_of",
    rung="warm-up",
    case=_a_file,
    expected=_part,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "{input} lies in a folder of a folder of the table. The longer row decides.",
            when=lambda e: e.right in ("autograd", "dispatcher"),
        ),
        Hint("Ask how the path begins, not what it contains.", when=lambda e: True),
        "path.startswith(...), the longer folders first.",
    ),
    must_fail=(
        "looks for a word anywhere",
        "takes the first folder alone",
        "asks the rows from top to bottom",
    ),
)


# --- kept


OTHERWISE = re.compile(r"\.|not_implemented|result\d|_p\b|_t\b")
"""Formulas that keep a part of a name, or nothing at all."""


def _formula_of(rng: Rng, size: int) -> tuple[str, list[str]]:
    """A formula of PyTorch's list with the names of the arguments of its operator."""
    formula, arguments = rng.choice(_plain_formulas())
    return formula, [*arguments]


@functools.cache
def _plain_formulas() -> list[tuple[str, list[str]]]:
    """Of each operator, in the order of names: a formula and its arguments, names kept whole."""
    found = {}
    for name, entry in formulas().items():
        if entry["name"].partition("-> ")[2] not in ("Tensor", "Tensor(a)", "Tensor(a!)"):
            continue  # results with names of their own
        arguments = re.findall(r"(\w+)(?:=[^,]*)?(?:,|\))", entry["name"].partition("->")[0])
        for key, formula in entry.items():
            fits = key in arguments and isinstance(formula, str) and not OTHERWISE.search(formula)
            if fits:
                found[name] = (formula, arguments)
    return [found[name] for name in sorted(found)]


def _kept(formula: str, arguments: list[str]) -> list[str]:
    words = set(re.findall(r"\w+", formula))
    return sorted(words & {*arguments, "result"})


kept = Exercise(
    id="architecture.kept",
    rung="warm-up",
    case=_formula_of,
    expected=_kept,
    rules=NO_LIBRARIES,
    banned=("torch.*", "numpy.*"),
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "Yours has a name that is only a piece of a longer word. Cut the formula into words: "
            "re.findall(r'\\w+', formula).",
            when=lambda e: set(e.value) > set(e.right),
        ),
        Hint(
            "Is the operator's own result among yours? It is called result.",
            when=lambda e: "result" in e.right and "result" not in e.value,
        ),
        "The words of the formula that are an argument, or `result`; sorted, each once.",
    ),
    must_fail=(
        "finds a name inside of a longer one",
        "forgets the result",
        "keeps grad",
        "keeps every argument",
    ),
)


# --- kernel_of

KEYS = ("CPU", "CUDA", "SparseCPU", "QuantizedCPU", "MkldnnCPU")


OTHER_COMPOSITES = re.compile(r"Composite(Explicit|Implicit)Autograd[A-Z]")


@functools.cache
def usual() -> list[str]:
    """The operators with no row for one of the rarer composite keys."""
    return sorted(
        name
        for name, entry in operators().items()
        if not OTHER_COMPOSITES.search(" ".join(entry.get("dispatch", {})))
    )


def _overloads(name: str) -> list[str]:
    """At most four operators with the same name before the dot."""
    base = name.partition(".")[0]
    return [one for one in operators() if one.partition(".")[0] == base][:4]


def _holder(entry: dict[str, Any], key: str) -> str:
    """Which rule answers for this operator and key; "" where none does."""
    if _in_table(entry, key):
        return "own"
    if _in_table(operators().get(entry.get("structured_delegate", ""), {}), key):
        return "delegate"
    if _in_table(entry, "CompositeExplicitAutograd"):
        return "explicit"
    if _in_table(entry, "CompositeImplicitAutograd"):
        return "implicit"
    has_none = "dispatch" not in entry and "structured_delegate" not in entry
    return "formula" if has_none else ""


def _in_table(entry: dict[str, Any], key: str) -> str | None:
    for keys, kernel in entry.get("dispatch", {}).items():
        if key in keys.split(", "):
            return str(kernel)
    return None


def _asked(*rules: str) -> Callable[[Rng, int], tuple[str, str, dict[str, Any]]]:
    """An operator and a key of these rules, with the entries that may matter."""

    def make(rng: Rng, size: int) -> tuple[str, str, dict[str, Any]]:
        names = usual()
        for _ in range(3000):
            name, key = rng.choice(names), rng.choice(KEYS)
            if not rules or _holder(operators()[name], key) in rules:
                break
        near = [name, operators()[name].get("structured_delegate", name), *rng.sample(names, 2)]
        near = sorted({*near, *_overloads(name)})
        fields = ("func", "dispatch", "structured_delegate")
        return (
            name,
            key,
            {
                one: {f: operators()[one][f] for f in fields if f in operators()[one]}
                for one in near
            },
        )

    return make


def _kernel(name: str, key: str, entries: dict[str, Any]) -> str | None:
    entry = entries[name]
    rule = _holder(entry, key)
    if rule == "formula":
        return name.partition(".")[0]
    if rule == "delegate":
        return _in_table(entries[entry["structured_delegate"]], key)
    asked = {"explicit": "CompositeExplicitAutograd", "implicit": "CompositeImplicitAutograd"}
    return _in_table(entry, asked.get(rule, key)) if rule else None


def _rule(evidence: Evidence) -> str:
    name, key, _ = evidence.inputs
    return _holder(operators()[name], key)


kernel_of = Exercise(
    id="architecture.kernel_of",
    rung="core",
    case=_asked(),
    expected=_kernel,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=150,
    minutes=14,
    stages=(
        Stage("own table", case=_asked("own"), cases=40),
        Stage("delegate", case=_asked("delegate"), cases=30),
        Stage("composite", case=_asked("explicit", "implicit"), cases=30),
        Stage("formula", case=_asked("formula", ""), cases=30),
        Stage("together"),
    ),
    hints=(
        Hint(
            "One row may serve several keys: 'CPU, CUDA'. Cut it at ', '.",
            when=lambda e: _rule(e) == "own",
        ),
        Hint(
            "This entry hands over: its structured_delegate names the entry whose table has the "
            "key.",
            when=lambda e: _rule(e) == "delegate",
        ),
        Hint(
            "An entry with neither dispatch nor structured_delegate is a formula for every key, "
            "under its name without the overload.",
            when=lambda e: _rule(e) == "formula",
        ),
        Hint(
            "The key is in neither table. Is there a row for a Composite key?",
            when=lambda e: _rule(e) in ("explicit", "implicit"),
        ),
        Hint("No row serves this key: None.", when=lambda e: _rule(e) == ""),
        "Ask in the order of the rules, and return at the first that answers.",
    ),
    must_fail=(
        "takes a row for one key",
        "finds a key inside of a longer one",
        "ignores structured_delegate",
        "treats a missing dispatch as None",
        "keeps the overload in the formula's name",
        "takes the first overload of the name",
        "serves the CPU alone where there is no dispatch",
        CATCHES,
    ),
)

EXERCISES = (part_of, kept, kernel_of, metadata_dump)
