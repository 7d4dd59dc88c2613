"""PyTorch with features taken out: names are gone, calls refuse, results are wrong."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from labkit.course.exercise import Rng

Masks = Mapping[str, str]
"""Dotted name -> what is the matter with it: a key of `_MATTERS`, or "gone"."""


def _refuses(real: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("not implemented in this build")


def _not_compiled(real: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("this build was compiled without it")


def _misspelt(real: Any, *args: Any, **kwargs: Any) -> Any:
    raise TypeError("got an unexpected keyword argument 'sise'")


def _wrong(real: Any, *args: Any, **kwargs: Any) -> Any:
    """Something of the same shape, and other numbers."""
    made = real(*args, **kwargs)
    return torch.zeros_like(made.to_dense()) if isinstance(made, torch.Tensor) else _wrong_of(made)


def _wrong_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: torch.zeros_like(function(*args))


def _not_causal(real: Any, *args: Any, is_causal: bool = False, **kwargs: Any) -> Any:
    return real(*args, **kwargs)


_MATTERS: dict[str, Callable[..., Any]] = {
    "refuses": _refuses,
    "not compiled": _not_compiled,
    "a typing mistake": _misspelt,
    "wrong": _wrong,
    "ignores is_causal": _not_causal,
}


class Build:
    """A PyTorch without some of its features; everything else is the installed one."""

    def __init__(self, masks: Masks, real: Any = torch, path: str = "") -> None:
        self._masks, self._real, self._path = masks, real, path

    @property
    def __version__(self) -> str:
        """As the installed one says, whatever is missing."""
        return str(torch.__version__)

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}".removeprefix(".")
        matter = self._masks.get(path)
        if matter == "gone":
            raise AttributeError(f"module 'torch' has no attribute {path!r}")
        found = getattr(self._real, name)
        if matter is not None:
            return lambda *args, **kwargs: _MATTERS[matter](found, *args, **kwargs)
        below = any(masked.startswith(f"{path}.") for masked in self._masks)
        return Build(self._masks, found, path) if below else found

    def __repr__(self) -> str:
        return f"a PyTorch in which {dict(self._masks)}" if self._masks else "the whole PyTorch"


def attention(m: Any, **kwargs: Any) -> Any:
    """What two keys of 0 make of the values 0 and 1, in the build `m`."""
    v = m.tensor([[[0.0], [1.0]]])
    return m.nn.functional.scaled_dot_product_attention(m.zeros(1, 2, 1), v, v, **kwargs)


Use = Callable[[Any], Any]
USES: dict[str, tuple[tuple[Use, Any], tuple[Use, Any]]] = {
    "sparse": (
        (lambda m: m.sparse_coo_tensor([[1]], [2.0], (2,)).to_dense().tolist(), [0.0, 2.0]),
        (
            lambda m: m.sparse_csr_tensor([0, 1], [1], [2.0], (1, 2)).to_dense().tolist(),
            [[0.0, 2.0]],
        ),
    ),
    "float8": (
        (lambda m: m.tensor([1.5]).to(m.float8_e4m3fn).float().tolist(), [1.5]),
        (lambda m: m.tensor([1.5]).to(m.float8_e5m2).float().tolist(), [1.5]),
    ),
    "layout": (
        (
            lambda m: m.ones(1, 2, 2, 2).to(memory_format=m.channels_last).stride(),
            (8, 1, 4, 2),
        ),
        (
            lambda m: m.ones(1, 2, 2, 2, 2).to(memory_format=m.channels_last_3d).stride(),
            (16, 1, 8, 4, 2),
        ),
    ),
    "transforms": (
        (lambda m: m.func.grad(lambda x: x * x)(m.tensor(3.0)).item(), 6.0),
        (lambda m: m.func.vmap(m.sum)(m.ones(2, 3)).tolist(), [3.0, 3.0]),
    ),
    "attention": (
        (lambda m: attention(m).tolist(), [[[0.5], [0.5]]]),
        (lambda m: attention(m, is_causal=True).tolist(), [[[0.0], [0.5]]]),
    ),
}
"""Feature -> its two uses, and what they give."""

_ATTENTION = "nn.functional.scaled_dot_product_attention"
_MASKED = {
    "sparse_coo_tensor": ("gone", "refuses", "not compiled", "wrong"),
    "sparse_csr_tensor": ("gone", "refuses", "not compiled", "wrong"),
    "float8_e4m3fn": ("gone",),
    "float8_e5m2": ("gone",),
    "channels_last": ("gone",),
    "channels_last_3d": ("gone",),
    "func.grad": ("gone", "refuses", "not compiled", "wrong"),
    "func.vmap": ("gone", "refuses", "not compiled", "wrong"),
    "func": ("gone",),
    _ATTENTION: ("gone", "refuses", "not compiled", "ignores is_causal"),
}


def some_masks(rng: Rng, size: int) -> dict[str, str]:
    """A few features taken out, at random."""
    names = rng.sample(sorted(_MASKED), min(size, len(_MASKED)))
    return {name: rng.choice(_MASKED[name]) for name in names}


def a_mistake(rng: Rng) -> dict[str, str]:
    """A build that answers one use with an error that says nothing about it."""
    names = ("sparse_coo_tensor", "sparse_csr_tensor", "func.grad", _ATTENTION)
    return {rng.choice(names): "a typing mistake"}


NO = (AttributeError, ImportError, NotImplementedError, RuntimeError)
"""The errors by which a build says that it has not got something."""


def answers(masks: Masks) -> dict[str, str]:
    """Feature -> available, partial or absent, in this build.

    Raises   TypeError   a typing mistake: nothing is known
    """
    build = Build(masks)
    return {feature: _word([_works(build, *use) for use in uses]) for feature, uses in USES.items()}


def _works(build: Build, use: Use, right: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sparse CSR, once per process
        try:
            return bool(use(build) == right)
        except NO:
            return False


def _word(works: list[bool]) -> str:
    return "available" if all(works) else "partial" if works[0] else "absent"
