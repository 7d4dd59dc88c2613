"""A tensor small enough to read: a list of floats with a key set."""

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import Dispatcher, Library


class Tiny:
    def __init__(self, values, *keys, dtype="float32", requires_grad=False):
        self.values = values
        self.dtype = dtype
        self.requires_grad = requires_grad
        self._version = 0
        self._base = None
        self._key_set = DispatchKeySet(*(keys or ("CPU", "AutogradCPU", "AutocastCPU")))

    def to(self, dtype):
        return Tiny(self.values, dtype=dtype)

    def __getitem__(self, i):
        return Tiny([self.values[i]])

    def __len__(self):
        return len(self.values)


def world():
    """A dispatcher with add, add_, view and a composite."""
    dispatcher = Dispatcher()
    lib = Library("lab", "DEF", dispatcher=dispatcher)
    add = lib.define("add(Tensor a, Tensor b, *, int alpha=1) -> Tensor")
    add_ = lib.define("add_(Tensor(a!) a, Tensor b) -> Tensor(a!)")
    view = lib.define("view(Tensor(a) x) -> Tensor(a)")
    twice = lib.define("twice(Tensor x) -> Tensor")

    def add_cpu(a, b, alpha=1):
        pairs = zip(a.values, b.values, strict=True)
        return Tiny([x + alpha * y for x, y in pairs], dtype=a.dtype)

    def add_cpu_(a, b):
        a.values = [x + y for x, y in zip(a.values, b.values, strict=True)]
        return a

    lib.impl("add", add_cpu, "CPU")
    lib.impl("add_", add_cpu_, "CPU")
    lib.impl("view", lambda x: Tiny(x.values), "CPU")
    lib.impl("twice", lambda x: add(x, x), "CompositeImplicitAutograd")
    return dispatcher, lib, add, add_, view, twice
