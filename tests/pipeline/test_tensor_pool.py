"""The pool: one borrower at a time, bounded, right in every order of the queues."""

import random

import pytest
import torch

from labkit.pipeline.memory.tensor_pool import TensorPool, UsedAfterReturn, bucket
from tests.torch_device.apart import apart


def test_two_borrowers_share_no_bytes():
    pool = TensorPool()
    with pool.lend((2, 3), torch.float32) as one, pool.lend((2, 3), torch.float32) as other:
        one.fill_(7)
        other.fill_(1)
        assert one.tolist() == [[7] * 3] * 2
    assert (pool.misses, pool.hits, pool.idle_bytes) == (2, 0, 1024)


def test_memory_is_lent_again_in_another_shape_and_dtype():
    pool = TensorPool()
    with pool.lend((600,), torch.float32) as one:
        place = one.data_ptr()
    with pool.lend((50, 6), torch.float64) as two:
        assert (two.data_ptr(), two.shape, two.dtype) == (place, (50, 6), torch.float64)
    assert (pool.hits, pool.misses) == (1, 1)


def test_idle_bytes_are_bounded():
    pool = TensorPool(limit=2_000)
    for size in (600, 1_000, 2_000, 300):
        with pool.lend((size,), torch.uint8):
            pass
        assert pool.idle_bytes <= 2_000
    pool.trim()
    assert pool.idle_bytes == 0


def test_an_error_in_the_block_gives_the_memory_back():
    pool = TensorPool()
    with pytest.raises(ZeroDivisionError), pool.lend((4,), torch.int64):
        raise ZeroDivisionError
    assert pool.idle_bytes == 512


def test_a_write_after_the_return_is_found():
    pool = TensorPool(debug=True)
    with pool.lend((4,), torch.float32) as kept:
        pass
    kept[0] = 1
    with pytest.raises(UsedAfterReturn, match="512 bytes"), pool.lend((4,), torch.float32):
        pass


@pytest.mark.parametrize("nbytes", [1, 512, 513, 1000, 4096, 4097, 10**6, 10**9 + 1])
def test_a_bucket_holds_the_bytes_and_a_quarter_more_at_most(nbytes):
    assert nbytes <= bucket(nbytes) <= max(512, nbytes * 1.25)
    assert bucket(bucket(nbytes)) == bucket(nbytes)


def test_random_borrowers_never_meet():
    rng, pool = random.Random(0), TensorPool(limit=20_000)
    held = []
    for step in range(400):
        if held and rng.random() < 0.5:
            lease, tensor, mark = held.pop(rng.randrange(len(held)))
            assert bool((tensor == mark).all())
            lease.__exit__(None, None, None)
        else:
            lease = pool.lend((rng.randint(1, 900),), torch.int32)
            tensor = lease.__enter__()
            tensor.fill_(step)
            held.append((lease, tensor, step))
    assert pool.hits > 50
    for lease, *_ in held:
        lease.__exit__(None, None, None)


@apart
def test_another_stream_waits_for_the_last_borrower():
    queue = torch.lab._devices[0].driver.queue
    for seed in range(32):
        queue.reseed(seed)
        pool = TensorPool()
        with pool.lend((1_000,), torch.float32, "lab") as one:
            one.fill_(1)
            doubled = one * 2
        with torch.Stream("lab") as side, pool.lend((1_000,), torch.float32, "lab") as two:
            two.fill_(5)
        assert (pool.hits, pool.misses) == (1, 1)
        assert doubled[0].item() == 2, seed
        side.synchronize()
