"""Figures that look for peaks only now and then find the same as those that always look."""

import random

import pytest

from labkit.memory.statistics import METRICS, StatArray, Statistics


class AlwaysLooking:
    """PyTorch's way: four numbers of every figure, three times, with every request."""

    def __init__(self):
        self.arrays = {metric: StatArray() for metric in METRICS}

    def increase(self, small, **amounts):
        for metric, amount in amounts.items():
            self.arrays[metric].increase(small, amount)

    def decrease(self, small, **amounts):
        for metric, amount in amounts.items():
            self.arrays[metric].decrease(small, amount)

    def flat(self):
        flat = {}
        for metric, array in self.arrays.items():
            flat |= array.flat(f"{metric}.")
        return flat


@pytest.mark.parametrize("seed", range(8))
def test_peaks_of_both_pools_are_exact(seed):
    for program in range(100):
        run_program(random.Random(f"{seed}-{program}"), pending=seed % 3)


def run_program(chooser, pending):
    burst = chooser.choice([0.05, 0.2, 0.5])
    statistics, always = Statistics(-1), AlwaysLooking()
    live, growing = [], True
    for small, counts in ((True, statistics.small_pool), (False, statistics.large_pool)):
        counts.split_bytes.increase(50_000_000)  # never below 0
        always.increase(small, inactive_split_bytes=50_000_000)
    for _ in range(chooser.randrange(20, 200)):
        small = chooser.random() < chooser.choice([0.1, 0.5, 0.9])
        counts = statistics.small_pool if small else statistics.large_pool
        if chooser.random() < burst:
            growing = not growing  # in bursts, so that peaks are passed and left again
        if growing or not live:
            size = 512 * chooser.randrange(1, 50)
            requested = size - chooser.randrange(512)
            live.append((small, size, requested, False))
            counts.blocks.increase(1)
            counts.requested.up += requested
            counts.bytes.up += size
            if counts.bytes.up > counts.bytes.due:
                counts.take_peaks_of_bytes()
            counts.split_bytes.down += size
            always.increase(small, allocation=1, allocated_bytes=size, active=1,
                            active_bytes=size, requested_bytes=requested)  # fmt: skip
            always.decrease(small, inactive_split_bytes=size)
        else:
            small, size, requested, waits = live.pop(chooser.randrange(len(live)))
            counts = statistics.small_pool if small else statistics.large_pool
            if not waits:
                always.decrease(small, allocation=1, allocated_bytes=size)
                if chooser.random() < 0.1 * pending:
                    counts.blocks.became_pending(1)
                    counts.bytes.became_pending(size)
                    live.append((small, size, requested, True))
                    continue
            else:
                counts.blocks.became_pending(-1)
                counts.bytes.became_pending(-size)
            counts.blocks.down += 1
            counts.bytes.down += size
            counts.requested.down += requested
            counts.split_bytes.increase(size)
            always.decrease(small, active=1, active_bytes=size, requested_bytes=requested)
            always.increase(small, inactive_split_bytes=size)
        if chooser.random() < 0.002:
            statistics.reset_peak()
            for array in always.arrays.values():
                for stat in (array.all, array.small_pool, array.large_pool):
                    stat.reset_peak()
        if chooser.random() < 0.002:
            statistics.reset_accumulated()
            for array in always.arrays.values():
                for stat in (array.all, array.small_pool, array.large_pool):
                    stat.reset_accumulated()
    compare(statistics, always)


def compare(statistics, always):
    ours = statistics.flat()
    for name, value in always.flat().items():
        assert ours[name] == value, name
