"""What is worked out when somebody asks is what PyTorch counts with every request."""

import random

import pytest

from labkit.memory.block import Block, BlockPool, Segment
from labkit.memory.statistics import METRICS, PLAIN, DeviceStats, StatArray


class Counted:
    """PyTorch's way: four numbers, each changed with every request."""

    def __init__(self):
        self.current = self.peak = self.allocated = self.freed = 0

    def change(self, amount):
        self.current += amount
        self.peak = max(self.peak, self.current)
        self.allocated += max(amount, 0)
        self.freed += max(-amount, 0)


@pytest.mark.parametrize("seed", range(20))
def test_sums_and_freed_amounts_are_exact(seed):
    chooser = random.Random(seed)
    pools = {"small_pool": BlockPool(True), "large_pool": BlockPool(False)}
    array = StatArray()
    counted = {name: Counted() for name in ("all", *pools)}
    for _ in range(500):
        name = chooser.choice(list(pools))
        amount = chooser.randrange(1, 1000)
        stat, growing = array.of(pools[name]), chooser.random() < 0.6
        if not growing:
            amount = min(amount, stat.current)
        stat.change(amount if growing else -amount)
        for one in (counted[name], counted["all"]):
            one.change(amount if growing else -amount)
        if chooser.random() < 0.02:
            array.reset_peak()
            for one in counted.values():
                one.peak = one.current
        if chooser.random() < 0.02:
            array.reset_accumulated()
            for one in counted.values():
                one.allocated = one.freed = 0
        assert array.flat() == {
            f"{name}.{key}": value
            for name, one in counted.items()
            for key, value in vars(one).items()
        }


def a_block(size, requested, *, is_small=False):
    segment = Segment(0, 1, BlockPool(is_small), 0)
    block = segment.first = Block(0, size, segment, None, None, "inactive")
    block.requested_size = requested
    return block


def test_a_pending_block_is_active_but_not_allocated():
    stats, block = DeviceStats(2**64 - 1), a_block(1024, 1000, is_small=True)
    stats.allocated(block)
    stats.freed(block)
    flat = stats.flat()
    assert (flat["allocation.all.current"], flat["allocated_bytes.small_pool.current"]) == (0, 0)
    assert (flat["active.all.current"], flat["active_bytes.small_pool.current"]) == (1, 1024)
    assert flat["requested_bytes.all.current"] == 1000
    stats.became_inactive(block)
    assert all(value == 0 for name, value in stats.flat().items() if name.endswith("current"))


def test_oversize_follows_the_settings_and_max_split_size_does_not():
    stats, block = DeviceStats(20), a_block(25, 25)
    stats.allocated(block)
    stats.oversize = 30
    stats.allocated(block)
    flat = stats.flat()
    assert (flat["oversize_allocations.current"], flat["max_split_size"]) == (1, 20)


def test_the_names_are_pytorchs():
    names = DeviceStats(2**64 - 1).flat()
    assert len(names) == 123
    assert {name.split(".")[0] for name in names} == {
        *METRICS, *PLAIN, "max_split_size", "oversize_allocations", "oversize_segments",
    }  # fmt: skip
