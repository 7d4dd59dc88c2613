"""The source tree, and one call: the layers a call passes, and the line that declares a symbol."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

import labkit as lab
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._call_steps import depths, loops
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS, TOO_SLOW
from labkit.dispatch import torch_recording
from labkit.ops.iterator import tensor_iterator

NOTEBOOK = "2_core_code/7_source_tree_and_one_call"

Call = dict[str, Any]
Spec = tuple[tuple[int, ...], tuple[int, ...], bool]

ELEMENTWISE = (
    "aten::add.Tensor", "aten::mul.Tensor", "aten::sub.Tensor", "aten::neg", "aten::abs",
    "aten::add_.Tensor", "aten::mul_.Tensor", "aten::add.out", "aten::neg_",
)  # fmt: skip
OTHERS = ("aten::ones", "aten::empty.memory_format", "aten::full", "aten::mm", "aten::t")
UNARY = ("aten::neg", "aten::abs", "aten::neg_")


def _spec(rng: Rng, sizes: tuple[int, ...], grad: bool, dense: bool) -> Spec:
    """A dense tensor in some order of its axes, or a broadcast or gappy one."""
    order = rng.sample(range(len(sizes)), len(sizes))
    strides, step = [0] * len(sizes), 1 if dense or rng.chance(0.7) else 2
    for dim in reversed(order):
        strides[dim] = step
        step *= max(1, sizes[dim])
    return sizes, tuple(strides), grad


def _a_call(rng: Rng, size: int) -> tuple[Call]:
    name = rng.choice(ELEMENTWISE if rng.chance(0.7) else OTHERS)
    grad_mode = rng.chance(0.6)
    tensors: list[Spec] = []
    numbers: tuple[Any, ...] = ()
    sizes = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, min(4, size))))
    if name in ELEMENTWISE:
        in_place, out = name.partition(".")[0].endswith("_"), name.endswith(".out")
        first = _spec(rng, sizes, rng.chance(0.5) and not in_place and not out, in_place)
        tensors = [first]
        if name not in UNARY:
            smaller = tuple(n if rng.chance(0.8) else 1 for n in sizes)
            same = rng.chance(0.4)
            grad = rng.chance(0.5) and not out
            tensors.append((*first[:2], grad) if same else _spec(rng, smaller, grad, False))
        if out:
            tensors.append(first if rng.chance(0.5) else _spec(rng, sizes, False, True))
    elif name in ("aten::mm", "aten::t"):
        n = rng.randint(1, 4)
        tensors = [
            _spec(rng, (n, n), rng.chance(0.5), True) for _ in range(1 + (name == "aten::mm"))
        ]
    else:
        numbers = (list(sizes), 2.0) if name == "aten::full" else (list(sizes),)
    return ({"op": name, "tensors": tensors, "numbers": numbers, "grad_mode": grad_mode},)


@handed_out
def prepare(call: Call) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(op, args, kwargs) of the call, with fresh torch tensors."""
    space, _, name = call["op"].partition("::")
    base, _, overload = name.partition(".")
    op = getattr(getattr(getattr(torch.ops, space), base), overload or "default")
    made = []
    for sizes, strides, grad in call["tensors"]:
        tensor = torch.empty_strided(sizes, strides).fill_(1.0)
        made.append(tensor.requires_grad_(grad))
    kwargs = {"out": made.pop()} if overload == "out" else {}
    return op, (*made, *call["numbers"]), kwargs


def _path(call: Call) -> dict[str, Any]:
    """What was recorded while the call really ran, and the loops of its iterator."""
    op, args, kwargs = prepare(call)
    with (
        torch.set_grad_enabled(call["grad_mode"]),
        torch_recording.recording_torch(op.name()) as runs,
    ):
        result = op(*args, **kwargs)
    hops = [str(run.slot.name) for run in runs if run.operator == op.name()]
    node = type(result.grad_fn).__name__ if result.grad_fn is not None else None
    return {"hops": hops, "node": node, "loops": _loops(call)}


def _loops(call: Call) -> int | None:
    if call["op"] not in ELEMENTWISE:
        return None
    impls = [lab.empty_strided(sizes, strides).impl for sizes, strides, _ in call["tensors"]]
    if call["op"].endswith(".out"):
        return tensor_iterator.build(impls[:-1], [impls[-1]]).ndim
    if call["op"].partition(".")[0].endswith("_"):
        return tensor_iterator.build(impls, [impls[0]]).ndim
    return tensor_iterator.build(impls).ndim


def _kind(call: Call) -> str:
    name, _, overload = call["op"].partition(".")
    if not call["tensors"]:
        return "factory"
    if name.endswith("_"):
        return "in-place"
    return "out" if overload == "out" else "view" if name == "aten::t" else "plain"


def _its_walk(case: Case, got: Any, right: Any) -> Any:
    """The way of the failing call through the dispatcher."""
    from labkit import show

    (call,) = case.inputs
    op, args, kwargs = prepare(call)
    context = "plain" if call["grad_mode"] else "no_grad"
    return show.dispatch(op, *args, contexts=[context], **kwargs)


def _fewer(call: Call) -> Iterator[tuple[Call]]:
    for sizes in sorted({tuple(tensor[0][:-1]) for tensor in call["tensors"]}, key=len):
        if call["op"] not in ("aten::mm", "aten::t"):
            plain = [(sizes, _packed(sizes), grad) for _, _, grad in call["tensors"]]
            yield ({**call, "tensors": plain},)


def _packed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [0] * len(sizes), 1
    for dim in reversed(range(len(sizes))):
        strides[dim] = step
        step *= sizes[dim]
    return tuple(strides)


def _part(name: str) -> Any:
    return lambda evidence: f"['{name}']" in evidence.property


path_of_a_call = Exercise(
    id="source_tree_and_one_call.path_of_a_call",
    case=_a_call,
    expected=_path,
    smaller=_fewer,
    picture=_its_walk,
    rung="core",
    stages=(
        Stage("plain", only=lambda call: _kind(call) == "plain" and call["grad_mode"], cases=10),
        Stage(
            "no_grad", only=lambda call: _kind(call) == "plain" and not call["grad_mode"], cases=10
        ),
        Stage("in-place", only=lambda call: _kind(call) == "in-place", cases=10),
        Stage("out", only=lambda call: _kind(call) == "out", cases=10),
        Stage("views", only=lambda call: _kind(call) == "view", cases=10),
        Stage("new tensors too"),
    ),
    cases=40,
    minutes=15,
    hints=(
        Hint(
            "Your list is one hop short: AutogradCPU. The key set decides hops, grad mode decides "
            "recording, so under no_grad the autograd hop stays.",
            when=lambda evidence: (
                _part("hops")(evidence)
                and "AutogradCPU" in evidence.right["hops"]
                and "AutogradCPU" not in evidence.got
            ),
        ),
        Hint(
            "A call without a tensor argument has no key to go by: which slot picks a backend from "
            "the device argument instead?",
            when=lambda evidence: _part("hops")(evidence) and not evidence.inputs[0]["tensors"],
        ),
        Hint(
            "A call that writes to a tensor, or makes a view, has one hop more than `add`.",
            when=lambda evidence: (
                "hops" in evidence.property and "ADInplaceOrView" in evidence.expected
            ),
        ),
        Hint(
            "Who records the node? Run the call in the grad mode of the case and look at its "
            "result.",
            when=_part("node"),
        ),
        Hint(
            "The loops of ones, empty, full, mm and t are None: no iterator is asked for them.",
            when=lambda evidence: _part("loops")(evidence) and evidence.right["loops"] is None,
        ),
        Hint(
            "Build the iterator with the very strides of the case, of every tensor, also the one "
            "written to: lab.empty_strided(sizes, strides).impl.",
            when=_part("loops"),
        ),
        "Your recorder names the slots whose kernels run. The result's grad_fn names the node.",
    ),
    must_fail=(
        "same path for every operator",
        "forgets ADInplaceOrView for in-place",
        "Autograd hop under no_grad removed (it stays)",
        "misses BackendSelect for factories",
        "counts loops for every operator",
        "runs the call with gradients on",
        FIRST,
        CONSTANT,
        READS,
    ),
)


# --- find_the_file

BASES = ("add", "Add", "ADD", "mul", "relu", "index_put", "sum", "TensorImpl", "tensorimpl", "View")
OVERLOADS = ("", "out", "Tensor", "Scalar", "dim_IntList")
YAML = "aten/src/ATen/native/native_functions.yaml"
LARGEST = 19
QUERIES = 20_000
PADDING = 20_000


def _a_tree(rng: Rng, size: int) -> Case:
    declared: dict[str, tuple[str, int]] = {}
    files: dict[str, str] = {}
    for number in range(1 + size // 4):
        path = f"c10/core/File{number}.h"
        lines: list[str] = []
        for _ in range(2 + 2 * size):
            _header_lines(
                rng, f"{rng.choice(BASES)}{rng.choice(('', '_', 'X', '2'))}", path, lines, declared
            )
        files[path] = "\n".join(lines) + "\n"
    lines = []
    for _ in range(2 + 2 * size):
        _yaml_lines(rng, rng.choice(BASES), rng.choice(OVERLOADS), lines, declared)
    files[YAML] = "\n".join(lines) + "\n"
    known = sorted(declared)
    unknown = [
        made
        for name in known
        for made in (name.swapcase(), name + "9", name.partition(".")[0], name.upper())
        if made not in declared
    ]
    asked = [rng.choice(known) for _ in range(size)] + [
        rng.choice(unknown) for _ in range(size // 3)
    ]
    if size == LARGEST:
        names = [f"Padding{i}" for i in range(PADDING)]
        path = "torch/csrc/Padding.h"
        files[path] = "\n".join(f"struct {name} {{" for name in names) + "\n"
        declared |= {name: (path, 1 + i) for i, name in enumerate(names)}
        asked += [f"Padding{PADDING - 1 - rng.randint(0, 99)}" for _ in range(QUERIES)]
    asked = rng.sample(asked, len(asked)) or known[:1]
    return Case((files, asked), truth={name: declared.get(name, "KeyError") for name in asked})


def _asked_for(wanted: Callable[[str], bool]) -> Callable[[Rng, int], Case]:
    """Small trees, asked for some of their symbols."""

    def case(rng: Rng, size: int) -> Case:
        made = _a_tree(rng, min(size, LARGEST - 1))
        files, asked = made.inputs
        asked = [symbol for symbol in asked if wanted(symbol)]
        return Case((files, asked), truth={name: made.truth[name] for name in asked})

    return case


def _header_lines(
    rng: Rng, name: str, path: str, lines: list[str], declared: dict[str, tuple[str, int]]
) -> None:
    """Mentions of a name, and perhaps its only declaration."""
    mentions = (
        f"// struct {name} {{ is explained below", f"class {name};", f"  friend struct {name};",
        f"#ifdef {name}", f" * class {name} {{", f"using Alias = {name};", f"#undef {name}",
        f"struct TORCH_API {name}Base {{", f"#define {name}_2 {name}", f"struct C10_API {name};",
    )  # fmt: skip
    for _ in range(rng.randint(0, 2)):
        mention = rng.choice(mentions)
        made = f"{name}Base" if "Base" in mention else f"{name}_2" if "_2" in mention else ""
        if made and made in declared:
            continue
        lines.append(mention)
        if made:
            declared[made] = path, len(lines)
    if name not in declared:
        lines.append(
            rng.choice(
                (f"struct {name} {{", f"class C10_API {name} {{", f"#define {name}(x) (x)",
                 f"struct TORCH_API {name} : public Base {{", f"#define {name}",
                 f"class TORCH_API {name} final {{", f"struct {name}"),
            )
        )  # fmt: skip
        declared[name] = path, len(lines)


def _yaml_lines(
    rng: Rng, base: str, overload: str, lines: list[str], declared: dict[str, tuple[str, int]]
) -> None:
    full = f"{base}.{overload}" if overload else base
    if rng.chance(0.5):
        lines.append(
            rng.choice((f"# - func: {full}(Tensor self)", f"    CPU: {full}", f"# {full}("))
        )
    if f"aten::{full}" not in declared:
        lines.append(f"- func: {full}(Tensor self) -> Tensor")
        declared[f"aten::{full}"] = YAML, len(lines)
        lines.append(f"  structured_delegate: {base}.out")


def _drive_index(answer: Any, files: Mapping[str, str], asked: list[str]) -> dict[str, Any]:
    """What each symbol gives; KeyError as text."""
    find, found = answer(files), {}
    for symbol in asked:
        try:
            found[symbol] = find(symbol)
        except KeyError:
            found[symbol] = "KeyError"
    return found


def _show_tree(files: Mapping[str, str], asked: list[str]) -> str:
    lines = sum(text.count("\n") for text in files.values())
    if lines > 30:
        return f"{len(files)} files with {lines} lines; {len(asked)} symbols: {asked[:4]}"
    return "\n".join(f"{path}:\n{text}" for path, text in files.items()) + f"asked: {asked}"


find_the_file = Exercise(
    id="source_tree_and_one_call.find_the_file",
    rules=("no symbol is declared twice", "upper and lower case differ"),
    case=_a_tree,
    drive=_drive_index,
    show=_show_tree,
    rung="boss",
    stages=(
        Stage("headers", case=_asked_for(lambda symbol: "::" not in symbol)),
        Stage("operators", case=_asked_for(lambda symbol: "::" in symbol)),
        Stage("20,000 questions"),
    ),
    cases=40,
    seconds=2.0,
    sizes=LARGEST,
    minutes=25,
    hints=(
        "Thousands of questions: read every file once, before the first, into a dictionary.",
        Hint(
            "Which is it, add or add.out? An overload is part of the name; no other overload may "
            "answer for it.",
            when=lambda evidence: "aten::" in evidence.property,
        ),
        "You returned a line that mentions the symbol: a comment, a forward declaration, or "
        "another name that begins alike.",
        "Declarations start lines, mentions do not.",
        "Parse yaml entries and header declarations separately, each with one anchored regular "
        "expression, and keep symbol -> (path, line).",
    ),
    must_fail=(
        "first textual hit",
        "ignores overload names",
        "rescans for each query",
        "case-insensitive",
        "finds a mention, not the declaration",
        TOO_SLOW,
        FIRST,
        "catches every exception and returns a default",
    ),
)

EXERCISES = (depths, loops, path_of_a_call, find_the_file)
