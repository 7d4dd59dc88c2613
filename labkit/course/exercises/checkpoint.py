"""A checkpoint of one's own: what backward needs is computed again."""

import gc
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._checkpoint_steps import best_segments, pack_half
from labkit.course.exercises._never_right import FIRST, TOO_SLOW

NOTEBOOK = "3_internals/5c_checkpoint"


LONG = 1_500
CALM = ("linear", "linear", "tanh", "relu", "square")
KINDS = (*CALM, "dropout", "dropout", "nested")
RESULTS = ("result", "asks for gradients", "gradients", "tensors between kept by forward")


def _checkpoint_case(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    if size == 30:
        layers: list[Any] = ["linear", "tanh"] * (LONG // 2)
        return ({"layers": layers, "rows": 1, "width": 1, "seed": 1, "grad": True, "twice": False,
                 "rest": "tensor", "scale": None},)  # fmt: skip
    return (_spec(rng, size, KINDS),)


def _spec(rng: Rng, size: int, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Some layers of these kinds, and how the function is called."""
    layers: list[Any] = []
    for _ in range(2 + size // 5 + rng.randint(0, 1)):
        kind = rng.choice(kinds)
        if kind == "nested":
            inner = [rng.choice(("linear", "tanh", "dropout")) for _ in range(rng.randint(1, 3))]
            layers.append(inner)
        else:
            layers.append(kind)
    return {
        "layers": ["linear", *layers, "tanh"],
        "rows": rng.randint(1, 4),
        "width": rng.randint(1, 4),
        "seed": rng.randint(0, 10**6),
        "grad": not rng.chance(0.12),
        "twice": rng.chance(0.25),
        "rest": rng.choice(("tensor", "tensor", "tuple", "dict")),
        "scale": rng.choice((None, 3.0)),
    }


def _asked(*names: str, kinds: tuple[str, ...] = CALM) -> Stage:
    """The stage named first: one backward through layers of these kinds; asks for these things."""

    def case(rng: Rng, size: int) -> tuple[dict[str, Any]]:
        spec = _spec(rng, min(size, 20), kinds)
        return (spec | {"grad": True, "twice": False, "asks": (*RESULTS, *names[1:])},)

    return Stage(names[0], case=case)


class _Work:
    """The function to be checkpointed, with what it has to be asked about afterwards."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        made = torch.Generator().manual_seed(spec["seed"])
        width = spec["width"]

        def weight() -> torch.Tensor:
            drawn = torch.randn(width, width, dtype=torch.float64, generator=made)
            return (drawn * 0.9).requires_grad_()

        count = sum(len(one) if isinstance(one, list) else 1 for one in spec["layers"])
        self.weights = [weight() for _ in range(min(count, 12))]
        self.x = torch.randn(spec["rows"], width, dtype=torch.float64, generator=made)
        self.x.requires_grad_()
        self.between: list[Any] = []
        self.allowed: set[Any] = set()
        self.runs: dict[int, int] = {}
        self.ends = 0

    def layers(self, names: Any, first: int, x: Any, wrap: Any) -> Any:
        for number, name in enumerate(names, first):
            if isinstance(name, list):
                self.allowed.add(_storage(x))  # its own input is a nested checkpoint's to keep
                x = wrap(self.layers, name, first=100 * (number + 1), x=x, wrap=wrap)
                continue
            self.runs[number] = self.runs.get(number, 0) + 1
            if name == "linear":
                x = x @ self.weights[number % len(self.weights)]  # a closure, not an argument
            elif name == "dropout":
                x = torch.nn.functional.dropout(x, 0.5)
            else:
                x = x * x if name == "square" else getattr(torch, name)(x)
            self.between.append(_storage(x))
        return x

    def alive(self) -> int:
        """How many tensors that were computed between are still there."""
        return sum(not one.expired() for one in self.between if one not in self.allowed)

    def run(self, x: Any, note: str, *, wrap: Any, scale: float | None = None) -> Any:
        y = self.layers(self.spec["layers"], 0, x, wrap)
        out = y.sum(1) + 1  # nothing of this is needed by backward
        if scale is not None:
            out = out * scale
        self.ends += 1
        rest = self.spec["rest"]
        return out if rest == "tensor" else (out, 7, note) if rest == "tuple" else {note: out}


def _in_words(spec: dict[str, Any]) -> str:
    """The function of a case, and how it is called."""
    names = spec["layers"]
    told = [f"a checkpoint of ({', '.join(n)})" if isinstance(n, list) else n for n in names]
    layers = ", ".join(told) if len(told) < 20 else f"{len(told)} layers, linear and tanh in turn"
    scale = "" if spec["scale"] is None else f", called with scale={spec['scale']}"
    mode = "" if spec["grad"] else ", under no_grad"
    twice = ", two backward calls" if spec["twice"] else ""
    size = f"{spec['rows']} x {spec['width']}"
    return f"x of {size}; {layers}; returns a {spec['rest']}{scale}{mode}{twice}"


@handed_out
def _storage(tensor: Any) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


@handed_out
def _tensor_of(result: Any) -> Any:
    if isinstance(result, dict):
        return next(iter(result.values()))
    return result[0] if isinstance(result, tuple) else result


@handed_out
def _direct(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@handed_out
def _observed(wrap: Any, spec: dict[str, Any], checked: bool) -> dict[str, Any]:
    """Values, gradients, kept memory and work of one step under `wrap`."""
    work = _Work(spec)
    before = torch.get_rng_state()
    torch.manual_seed(spec["seed"])
    try:
        with torch.set_grad_enabled(spec["grad"]):
            options = {} if spec["scale"] is None else {"scale": spec["scale"]}
            result = wrap(work.run, work.x, "note", wrap=wrap, **options)
        out = _tensor_of(result)
        gc.collect(0)
        kept = work.alive()
        found: dict[str, Any] = {
            "result": _plain(result),
            "asks for gradients": out.requires_grad,
            "tensors between kept by forward": kept if checked else 0,
        }
        torch.rand(3)  # somebody else draws between forward and backward
        left = [0]  # how many tensors are alive when the last gradient arrives
        if out.requires_grad:
            if checked:
                work.x.register_hook(lambda _: left.append(work.alive()))
            for again in range(1 + spec["twice"]):
                out.backward(torch.linspace(1, 2, len(out), dtype=out.dtype),
                             retain_graph=spec["twice"] and not again)  # fmt: skip
        found["tensors between held when the gradient of x arrives"] = max(left)
        found["gradients"] = [one.grad for one in (work.x, *work.weights)]
        found["next random numbers"] = torch.rand(2, dtype=torch.float64)
        backwards = 1 + spec["twice"] if out.requires_grad else 0
        extra = {n: c for n, c in work.runs.items() if c > 1 + backwards * (1 + (n >= 100))}
        found["layers that ran too often"] = extra if checked and len(work.runs) < 90 else (
            {"of a long chain": max(extra.values())} if checked and extra else {}
        )  # fmt: skip
        found["runs to the end"] = work.ends
        return {name: value for name, value in found.items() if name in spec.get("asks", found)}
    finally:
        torch.set_rng_state(before)


@handed_out
def _plain(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.detach().clone()
    if isinstance(result, dict):
        return {name: _plain(one) for name, one in result.items()}
    return [_plain(one) for one in result] if isinstance(result, tuple) else result


def _drive_checkpoint(answer: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """One step under the answer."""
    return _observed(answer, spec, checked=True)


def _checkpoint_truth(spec: dict[str, Any]) -> dict[str, Any]:
    return _observed(_direct, spec, checked=False)


checkpoint = Exercise(
    id="checkpoint.checkpoint",
    case=_checkpoint_case,
    expected=_checkpoint_truth,
    drive=_drive_checkpoint,
    show=_in_words,
    rules=("a nested checkpoint may keep its own arguments",),
    tolerance=1e-9,
    cases=60,
    sizes=30,
    seconds=2,
    banned=("torch.utils.checkpoint.*",),
    hints=(
        Hint("The second run dropped other numbers than the first: both must see one state of the "
             "random numbers", when=lambda e: "dropout" in e.input and "gradients" in e.property),
        "Begin with version 3 of the chapter, and hand args and kwargs on",
        "Take the state of the random numbers before the first run, and put it back for the second",
        Hint("Other code has drawn numbers since: put the generator back when you are done",
             when=lambda e: "random" in e.property),
        Hint("Compute all saved tensors in one go, when the first of them is asked for",
             when=lambda e: "too often" in e.property),
        Hint("A tensor that backward has got is not needed any more: hand it out, and drop it",
             when=lambda e: "gradient of x arrives" in e.property),
        Hint("The second run saved nothing: gradient mode is off while backward runs",
             when=lambda e: "KeyError" in e.got),
        Hint("Once the last tensor is there, leave the function: raise an exception in your pack "
             "hook and catch it outside", when=lambda e: "to the end" in e.property),
        Hint("The first pack hook returns something that is not the tensor: a number will do",
             when=lambda e: "kept by forward" in e.property),
    ),
    must_fail=(
        "reruns without the random state",
        "runs the whole function again for each saved tensor",
        "keeps the first activations",
        "keeps what it has handed out",
        "breaks under no_grad",
        "gradients of closures lost",
        FIRST,
        TOO_SLOW,
    ),
    stages=(
        _asked("gradients"),
        _asked("once", "layers that ran too often"),
        _asked("random numbers", "next random numbers", kinds=(*CALM, "dropout", "dropout")),
        _asked("early stop", "layers that ran too often", "runs to the end"),
        Stage("everything"),
    ),
    minutes=15,
)  # fmt: skip

EXERCISES = (pack_half, checkpoint, best_segments)
