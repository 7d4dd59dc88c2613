"""The two thread-local key sets every call consults, and the guards that change them.

`included` is OR-ed into the arguments' key sets, then the functionalities of `excluded` are
taken out. Layers switch themselves on by including their key, and off, for what they call, by
excluding it.

Source   c10/core/impl/LocalDispatchKeySet.h
"""

from labkit.core.alias_keys import AUTOCAST_SET
from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import BACKEND_MASK, DispatchKeySet, keyset
from labkit.core.thread_local_state import CarriedLocal

DEFAULT_INCLUDED = DispatchKeySet(DispatchKey.BackendSelect, DispatchKey.ADInplaceOrView)
DEFAULT_EXCLUDED = AUTOCAST_SET
AUTOGRAD_KEYS = DispatchKeySet(
    DispatchKey.AutogradFunctionality, DispatchKey.AutogradOther, DispatchKey.AutogradNestedTensor
)
"""The autograd functionalities without any backend: what a guard excludes."""


class _LocalSets(CarriedLocal):
    """Both sets as the two words a call needs: what is OR-ed in, and what then survives.

    Differs  PyTorch stores both sets XOR-ed with their defaults, so that a fresh thread's
             zeroes mean the defaults.
    """

    masks: tuple[int, int] = (DEFAULT_INCLUDED.raw, BACKEND_MASK | ~DEFAULT_EXCLUDED.raw)
    excluded: int = DEFAULT_EXCLUDED.raw


LOCAL = _LocalSets()


def included() -> DispatchKeySet:
    """The calling thread's included set."""
    return keyset(LOCAL.masks[0])


def excluded() -> DispatchKeySet:
    """The calling thread's excluded set."""
    return keyset(LOCAL.excluded)


def set_local(included: DispatchKeySet, excluded: DispatchKeySet) -> None:
    """Replace both sets of this thread."""
    LOCAL.masks = (included.raw, BACKEND_MASK | ~excluded.raw)
    LOCAL.excluded = excluded.raw


class ForceDispatchKeyGuard:
    """Both sets are exactly these inside the `with`, and what they were after it.

    Source   c10/core/impl/LocalDispatchKeySet.h  ForceDispatchKeyGuard
    """

    def __init__(self, included: DispatchKeySet, excluded: DispatchKeySet) -> None:
        self.sets = (included, excluded)

    def __enter__(self) -> None:
        self._saved = (LOCAL.masks, LOCAL.excluded)
        set_local(*self.sets)

    def __exit__(self, *_exception: object) -> None:
        LOCAL.masks, LOCAL.excluded = self._saved


class IncludeDispatchKeyGuard:
    """These keys are included as well inside the `with`; after it, the included set is as before.

    Source   c10/core/impl/LocalDispatchKeySet.h  IncludeDispatchKeyGuard
    """

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        self.keys = keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)

    def __enter__(self) -> None:
        self._saved = included()
        set_local(self._saved | self.keys, excluded())

    def __exit__(self, *_exception: object) -> None:
        set_local(self._saved, excluded())


class ExcludeDispatchKeyGuard:
    """These keys are excluded as well inside the `with`; after it, the excluded set is as before.

    Source   c10/core/impl/LocalDispatchKeySet.h  ExcludeDispatchKeyGuard
    """

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        self.keys = keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)

    def __enter__(self) -> None:
        self._saved = excluded()
        set_local(included(), self._saved | self.keys)

    def __exit__(self, *_exception: object) -> None:
        set_local(included(), self._saved)


class InferenceMode:
    """Autograd is excluded, and ADInplaceOrView is not included: no versions, no views.

    mode  False lifts an inference mode that is open

    Source   c10/core/InferenceMode.h  InferenceMode
    Differs  The key sets alone: `labkit.autograd.grad_mode.inference_mode` also has fresh tensors
             carry no autograd keys.
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        if self.mode:
            sets = included().remove(DispatchKey.ADInplaceOrView), excluded() | AUTOGRAD_KEYS
        else:
            sets = included().add(DispatchKey.ADInplaceOrView), excluded() - AUTOGRAD_KEYS
        self._guard = ForceDispatchKeyGuard(*sets)
        self._guard.__enter__()

    def __exit__(self, *_exception: object) -> None:
        self._guard.__exit__()
