"""The same operator call on the installed PyTorch and on labkit, and what differs.

PyTorch's own operator samples are run under a dispatch mode, which sees every call of an ATen
operator with the arguments it got; each call of an operator under test is replayed on labkit.
"""

import functools
import itertools
import warnings

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from labkit.conformance.autograd import opinfo
from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.device import Device
from labkit.core.memory_format import MemoryFormat
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.tensors import copy

DTYPES = {getattr(torch, name): dtype for name, dtype in dtypes.DTYPES.items()}
FORMATS = {getattr(torch, each.name): each for each in MemoryFormat}
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 3e-6, torch.float64: 1e-12,
             torch.complex32: 4e-3, torch.complex64: 5e-6, torch.complex128: 1e-12}  # fmt: skip


def to_lab(value):
    """The same tensor, type, device or number for labkit; strides and bytes included."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        result = tensor_impl.empty_strided(
            tuple(value.shape), tuple(value.stride()), DTYPES[value.dtype]
        )
        span = result.storage().nbytes
        start = value.storage_offset() * value.element_size()
        if span:
            source = torch.tensor([], dtype=torch.uint8).set_(value.untyped_storage()).clone()
            result.storage().bytes(writable=True)[:] = source.numpy()[start : start + span]
        return result
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, torch.memory_format):
        return FORMATS[value]
    if isinstance(value, torch.device):
        return Device(value.type)
    return value


def numbers_of(tensor):
    """A PyTorch tensor's values in a type NumPy has."""
    if tensor.dtype is torch.complex32:
        tensor = tensor.to(torch.complex64)
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return tensor.numpy()


def difference(ours, theirs, tolerance=None, strides=True):
    """What differs between a labkit result and PyTorch's, in words; "" for nothing."""
    if isinstance(theirs, list | tuple):
        if len(ours) != len(theirs):
            return f"{len(ours)} results, {len(theirs)} expected"
        pairs = zip(ours, theirs, strict=True)
        found = [difference(*pair, tolerance, strides) for pair in pairs]
        return "; ".join(filter(None, found))
    if not isinstance(theirs, torch.Tensor):
        return "" if ours == theirs else f"{ours!r}, expected {theirs!r}"
    if not isinstance(ours, TensorImpl):
        return f"a {type(ours).__name__}, expected a tensor"
    theirs = theirs.detach().resolve_conj().resolve_neg()
    if ours.dtype is not DTYPES[theirs.dtype]:
        return f"{ours.dtype}, expected {theirs.dtype}"
    if ours.sizes != tuple(theirs.shape):
        return f"sizes {ours.sizes}, expected {tuple(theirs.shape)}"
    if strides and ours.strides != theirs.stride():
        return f"strides {ours.strides}, expected {theirs.stride()}"
    mine, wanted = copy.values(ours), numbers_of(theirs)
    close = TOLERANCE.get(theirs.dtype, 0) if tolerance is None else tolerance
    with np.errstate(all="ignore"):
        equal = np.isclose(mine, wanted, rtol=close, atol=close, equal_nan=True) | (mine == wanted)
        if np.iscomplexobj(wanted):  # a part that is not finite must not hide the other one
            equal |= _close(mine.real, wanted.real, close) & _close(mine.imag, wanted.imag, close)
    if equal.all():
        return ""
    where = tuple(np.argwhere(~equal)[0]) if equal.ndim else ()
    return f"{mine[where]!r} at {[int(i) for i in where]}, expected {wanted[where]!r}"


def _close(mine, wanted, tolerance):
    return np.isclose(mine, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def call(function, *args, **kwargs):
    """The result, or the exception."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


def replay(operator, args, kwargs, theirs, tolerance=None, strides=True):
    """What differs when labkit makes the same call; `args` are labkit's already."""
    overload = operator._overloadname
    handle = getattr(getattr(aten, operator.__name__.split(".")[0]), overload)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = call(handle, *args, **kwargs)
    if isinstance(theirs, Exception):
        if not isinstance(ours, Exception):
            return f"answered, where PyTorch raises {type(theirs).__name__}: {theirs}"
        if isinstance(theirs, type(ours)) or isinstance(ours, type(theirs)):
            return ""
        return f"{type(ours).__name__}: {ours}; expected {type(theirs).__name__}: {theirs}"
    if isinstance(ours, Exception):
        return f"{type(ours).__name__}: {ours}"
    return difference(ours, theirs, tolerance, strides)


class Replay(TorchDispatchMode):
    """Every call of an operator under test is made on labkit too.

    names      base names of the operators
    ignored    base names whose values are free (such as `empty`)
    """

    def __init__(self, names, tolerances=None, strides=True):
        super().__init__()
        self.names, self.tolerances, self.strides = set(names), tolerances or {}, strides
        self.seen, self.failures = {}, []
        self.context = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        if name not in self.names or func.namespace != "aten":
            return func(*args, **kwargs)
        our_args, our_kwargs = tree_map(to_lab, (args, kwargs))
        theirs = call(func, *args, **kwargs)
        found = replay(func, our_args, our_kwargs, theirs, self.tolerances.get(name), self.strides)
        self.seen[str(func)] = self.seen.get(str(func), 0) + 1
        if found:
            shapes = [
                (each.sizes, each.dtype.name) if isinstance(each, TensorImpl) else each
                for each in tree_flatten((our_args, our_kwargs))[0]
            ]
            self.failures.append(f"{self.context} {func} {shapes}: {found}")
        if isinstance(theirs, Exception):
            raise theirs
        return theirs


def run_samples(names, op_names, tolerances=None, strides=True, limit=6, dtypes_wanted=None):
    """A `Replay` after PyTorch's samples of the named OpInfos, at most `limit` per type."""
    from torch.testing._internal.common_methods_invocations import op_db

    mode = Replay(names, tolerances, strides)
    for info in op_db:
        if info.name not in op_names:
            continue
        for dtype in sorted(info.supported_dtypes("cpu"), key=str):
            if dtype not in DTYPES or (dtypes_wanted and dtype not in dtypes_wanted):
                continue
            opinfo.seed_samples(0)
            mode.context = f"{info.full_name} {dtype}:"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                samples = itertools.islice(opinfo.samples_of(info, dtype), limit)
                for sample in samples:
                    with mode:
                        call(info.op, sample.input, *sample.args, **sample.kwargs)
    return mode


REAL = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
        torch.bfloat16, torch.float32, torch.float64]  # fmt: skip
COMPUTING = [*REAL, torch.complex64, torch.complex128]


def random_tensor(r, dtype, sizes=None, special=True, ties=False):
    """A strided tensor; floats may hold NaN and infinities, `ties` makes equal elements likely."""
    if sizes is None:
        sizes = [r.choice((0, 1, 2, 3, 3, 4, 5)) for _ in range(r.choice((0, 1, 1, 2, 2, 3, 4)))]
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    order = list(range(len(sizes)))
    r.shuffle(order)
    steps = [r.choice((1, 1, 2)) for _ in sizes]
    shape = [sizes[dim] * steps[dim] for dim in order]
    if dtype.is_floating_point or dtype.is_complex:
        x = torch.randn(shape, dtype=torch.complex128, generator=generator) * 3
        x = torch.complex(x.real.round(), x.imag.round()) if ties else x
        x = (x if dtype.is_complex else x.real).to(dtype)
        if special and r.random() < 0.4 and x.numel():
            where = torch.randint(0, x.numel(), (1 + x.numel() // 4,), generator=generator)
            x.view(-1)[where] = r.choice((float("nan"), float("inf"), -float("inf"), 0.0))
    else:
        low = -6 if dtype.is_signed else 0
        x = torch.randint(low, 7, shape, generator=generator).to(dtype)
    x = x.permute([order.index(dim) for dim in range(len(sizes))])
    return x[tuple(slice(None, None, step) for step in steps)]


VECTORFUL = 128
"""So many elements fill vectors whatever their type and the processor."""


@torch.backends.mkldnn.flags(enabled=False)
def other_answers(operator, args, kwargs):
    """What PyTorch's own loops say of a pointwise call, then single elements, then whole vectors.

    Which elements go through which loop, and which through oneDNN in place of any, depends on the
    processor, the length and the type. They disagree in places over NaN and infinity, and on some
    processors oneDNN refuses what it was given.
    """
    theirs = call(operator, *args, **kwargs)
    if isinstance(theirs, Exception):
        return [theirs]
    results, structure = tree_flatten(theirs)
    shape = results[0].shape

    def repeated(value, place, repeats):
        """A tensor's element of one place, so many times; anything else as it is."""
        if not isinstance(value, torch.Tensor):
            return value
        return value.expand(shape)[place].reshape(1).repeat(repeats)

    found = [theirs]
    for repeats in (1, VECTORFUL):
        answers = [
            torch.empty_strided(each.shape, each.stride(), dtype=each.dtype) for each in results
        ]
        for place in itertools.product(*map(range, shape)):
            here = functools.partial(repeated, place=place, repeats=repeats)
            given, options = tree_map(here, (args, kwargs))
            parts = tree_flatten(operator(*given, **options))[0]
            for answer, part in zip(answers, parts, strict=True):
                answer[place] = part[0]
        found.append(tree_unflatten(answers, structure))
    return found


class Fuzz:
    """Counts calls that differ; each call names the operator and gives PyTorch's arguments.

    pointwise   a result's element depends on the elements of its place alone: where PyTorch's two
                loops answer differently, either answer is right
    """

    def __init__(self, tolerance=None, strides=True, pointwise=False):
        self.tolerance, self.strides, self.pointwise = tolerance, strides, pointwise
        self.failures, self.answered, self.refused = [], 0, 0

    def __call__(self, operator, *args, **kwargs):
        ours = tree_map(to_lab, (args, kwargs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = call(operator, *args, **kwargs)
            found = self.compare(operator, ours, theirs)
            if found and self.pointwise:
                others = other_answers(operator, args, kwargs)
                found = found if all(self.compare(operator, ours, each) for each in others) else ""
        self.refused += isinstance(theirs, Exception)
        self.answered += not isinstance(theirs, Exception)
        if found:
            self.failures.append(f"{operator} {args} {kwargs}: {found}")

    def compare(self, operator, ours, theirs):
        return replay(operator, *ours, theirs, self.tolerance, self.strides)
