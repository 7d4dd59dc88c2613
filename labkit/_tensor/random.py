"""Seeds and the state of the default generators.

Source   torch/random.py
"""

from collections.abc import Iterator
from contextlib import contextmanager

from labkit._tensor.tensor import Tensor
from labkit.core.generator import Generator, default_generator, manual_seed_all
from labkit.ops.tensors import copy, tensor_new


def manual_seed(seed: int) -> Generator:
    """All default generators start again from this seed; the host's."""
    manual_seed_all(int(seed))
    return default_generator()


def initial_seed() -> int:
    """The seed the host's default generator started from."""
    return default_generator().initial_seed()


def get_rng_state() -> Tensor:
    """The state of the host's default generator, as PyTorch writes it: a uint8 tensor."""
    return Tensor(tensor_new.from_numpy(default_generator().state_bytes()))


def set_rng_state(state: Tensor) -> None:
    """The host's default generator goes on from a state that `get_rng_state` gave.

    Raises   RuntimeError   the bytes are no such state
    """
    default_generator().load_state_bytes(copy.values(state))


@contextmanager
def fork_rng() -> Iterator[None]:
    """After the `with`, the host's default generator is where it was before it."""
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
