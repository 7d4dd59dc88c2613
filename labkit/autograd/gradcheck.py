"""Derivatives against finite differences.

Source   torch/autograd/gradcheck.py
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.autograd.backward import grad
from labkit.autograd.variables import variable
from labkit.core.formats import encode
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy


class GradcheckError(RuntimeError):
    """A derivative is not what finite differences say.

    Source   torch/autograd/gradcheck.py  GradcheckError
    """


def gradcheck(
    function: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """True when every derivative of the function agrees with central differences.

    inputs   the arguments; those that require grad must be of double precision
    eps      how far each element is moved to either side

    Raises   GradcheckError   they do not, unless `raise_exception` is False
             ValueError       no input requires grad, or one is not of double precision
    Source   torch/autograd/gradcheck.py  gradcheck
    Differs  Always every element (PyTorch's slow mode); complex numbers are moved along both axes.
    """
    given = (inputs,) if isinstance(inputs, TensorImpl) else tuple(inputs)
    checked = [
        i for i, each in enumerate(given)
        if isinstance(each, TensorImpl) and variable.requires_grad(each)
    ]  # fmt: skip
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    for i in checked:
        if given[i].dtype.name not in ("float64", "complex128"):
            raise ValueError(
                f"input {i} requires grad and is of type {given[i].dtype}: finite differences "
                "need float64 or complex128"
            )
    try:
        _check(function, given, checked, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    function: Callable[..., Any],
    inputs: Any,
    *,
    raise_exception: bool = True,
) -> bool:
    """True when every second derivative agrees with differences of the first ones.

    Raises   as `gradcheck`
    Source   torch/autograd/gradcheck.py  gradgradcheck
    """
    given = (inputs,) if isinstance(inputs, TensorImpl) else tuple(inputs)
    outputs = _differentiable(function(*given))
    random = np.random.default_rng(0)
    starts = [_random_like(output, random) for output in outputs]
    count = len(given)

    def first(*args: Any) -> Any:
        args_in, args_start = args[:count], args[count:]
        found = grad(
            _differentiable(function(*args_in)), _differentiable(args_in), args_start,
            create_graph=True, allow_unused=True,
        )  # fmt: skip
        return tuple(each for each in found if each is not None)

    return gradcheck(first, (*given, *starts), raise_exception=raise_exception)


def _random_like(tensor: TensorImpl, random: np.random.Generator) -> TensorImpl:
    numbers = random.normal(size=tensor.sizes)
    if tensor.dtype.is_complex:
        numbers = numbers + 1j * random.normal(size=tensor.sizes)
    made = copy.empty_like(tensor)
    copy.store(made, encode(np.asarray(numbers), tensor.dtype))
    variable.meta_of(made).requires_grad = True
    return made


def _differentiable(outputs: Any) -> list[TensorImpl]:
    several = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [
        each for each in several if isinstance(each, TensorImpl) and variable.requires_grad(each)
    ]


def _axes(tensor: TensorImpl) -> tuple[complex, ...]:
    """The directions an element can be moved in."""
    return (1.0, 1j) if tensor.dtype.is_complex else (1.0,)


def _check(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    checked: Sequence[int],
    eps: float,
    atol: float,
    rtol: float,
) -> None:
    outputs = _differentiable(function(*inputs))
    for place in checked:
        numeric = _numeric(function, inputs, place, eps, len(outputs))
        analytic = _analytic(outputs, inputs[place])
        for o, (found, expected) in enumerate(zip(analytic, numeric, strict=True)):
            if not np.allclose(found, expected, rtol, atol, equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {o} with respect to input {place},\n"
                    f"numerical:{expected}\nanalytical:{found}\n"
                )


def _real_columns(values: NDArray[Any], is_complex: bool) -> NDArray[np.float64]:
    flat = values.reshape(-1)
    if is_complex:
        return np.stack([flat.real, flat.imag], 1).reshape(-1)
    return flat.astype(np.float64)


def _numeric(
    function: Callable[..., Any], inputs: tuple[Any, ...], place: int, eps: float, count: int
) -> list[NDArray[np.float64]]:
    """Per output: a row per element (and axis) of the input, a column per one of the output."""
    tensor = inputs[place]
    start = copy.values(tensor).copy()
    rows: list[list[NDArray[np.float64]]] = [[] for _ in range(count)]
    for i in range(start.size):
        for axis in _axes(tensor):
            sides = []
            for sign in (1, -1):
                moved = start.copy()
                moved.reshape(-1)[i] += sign * eps * axis
                other = copy.clone(tensor)
                copy.store(other, encode(moved, tensor.dtype))
                variable.meta_of(other).requires_grad = True
                args = [*inputs[:place], other, *inputs[place + 1 :]]
                results = _differentiable(function(*args))
                sides.append([_real_columns(copy.values(r).copy(), r.dtype.is_complex)
                              for r in results])  # fmt: skip
            for o in range(count):
                rows[o].append((sides[0][o] - sides[1][o]) / (2 * eps))
    return [np.array(each).reshape(len(each), -1) for each in rows]


def _analytic(outputs: Sequence[TensorImpl], tensor: TensorImpl) -> list[NDArray[np.float64]]:
    """The same by backward, one element (and axis) of the output at a time."""
    found = []
    for output in outputs:
        columns = []
        for i in range(output.numel()):
            for axis in _axes(output):
                start = np.zeros(output.sizes, np.complex128 if output.dtype.is_complex else float)
                start.reshape(-1)[i] = axis
                given = copy.empty_like(output)
                copy.store(given, encode(start, output.dtype))
                (gradient,) = grad(output, tensor, given, retain_graph=True, allow_unused=True)
                if gradient is None:
                    columns.append(np.zeros(tensor.numel() * len(_axes(tensor))))
                else:
                    columns.append(
                        _real_columns(copy.values(gradient).copy(), tensor.dtype.is_complex)
                    )
        height = tensor.numel() * len(_axes(tensor))
        found.append(np.array(columns).reshape(-1, height).T)
    return found
