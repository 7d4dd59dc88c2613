import numpy as np
import pytest
import torch

from labkit.core import generator as generators
from labkit.core.device import Device
from labkit.core.generator import CPUGenerator, Generator
from labkit.core.philox import DeviceGenerator, philox4x32, random4

SEEDS = [0, 1, 123, 2**40 + 5, 2**64 - 1, -3]


def bytes_of(generator):
    return generator.get_state().numpy()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_host_generator_has_pytorchs_state_byte_for_byte(seed):
    theirs, ours = torch.Generator().manual_seed(seed), Generator().manual_seed(seed)
    assert ours.initial_seed() == theirs.initial_seed()
    assert (ours.state_bytes() == bytes_of(theirs)).all()
    for count in (1, 622, 1, 1, 5, 1000):
        wanted = torch.randint(0, 1 << 20, (count,), generator=theirs).numpy()
        assert (ours.random(count) % (1 << 20) == wanted).all()
        assert (ours.state_bytes() == bytes_of(theirs)).all()


def test_a_state_of_pytorch_is_gone_on_from():
    theirs = torch.Generator().manual_seed(9)
    torch.empty(5).normal_(generator=theirs)  # leaves half a pair behind
    ours = CPUGenerator()
    ours.load_state_bytes(bytes_of(theirs))
    assert ours.next_double_normal is not None
    assert (ours.state_bytes() == bytes_of(theirs)).all()
    twin = ours.clone_state()
    assert (twin.random(700) == ours.random(700)).all()


def test_a_generator_is_of_the_class_of_its_device():
    import labkit.ops.random.device_distributions  # noqa: F401  registers it

    assert isinstance(Generator("cuda:0"), DeviceGenerator)
    assert isinstance(Generator(), CPUGenerator)
    assert Generator("cuda").manual_seed(5).initial_seed() == 5


@pytest.mark.parametrize("state", [np.zeros(10, np.uint8), np.zeros(5056, np.uint8)])
def test_bytes_that_are_no_state_are_refused(state):
    with pytest.raises(RuntimeError, match="state"):
        CPUGenerator().load_state_bytes(state)


def test_a_seed_beyond_64_bits_is_refused():
    with pytest.raises(RuntimeError, match=str(1 << 64)):
        Generator().manual_seed(1 << 64)


def test_every_default_generator_gets_the_seed():
    import labkit.ops.random.device_distributions  # noqa: F401

    before = generators.default_generator().clone_state()
    try:
        early = generators.default_generator(Device("cuda", 0))
        generators.manual_seed_all(77)
        late = generators.default_generator(Device("cuda", 3))
        assert {g.initial_seed() for g in (early, late, generators.default_generator())} == {77}
    finally:
        generators.manual_seed_all(generators.DEFAULT_SEED)
        generators.default_generator().load_state_bytes(before.state_bytes())


# The known answers that came with the authors' paper.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_philox_gives_its_known_answers(counter, key, wanted):
    found = philox4x32(np.array(counter, np.uint32), np.array(key, np.uint32))
    assert found.tolist() == wanted


def test_subsequence_and_offset_are_parts_of_the_counter():
    threads = np.array([0, 1, (5 << 32) + 7], np.uint64)
    found = random4(0x123456789ABCDEF0, threads, 8)
    key = np.array([0x9ABCDEF0, 0x12345678], np.uint32)
    counters = np.array([[2, 0, 0, 0], [2, 0, 1, 0], [2, 0, 7, 5]], np.uint32)
    assert (found == philox4x32(counters, key)).all()
    with pytest.raises(ValueError, match="got 6"):
        random4(0, threads, 6)
