"""The cache on disk: what it gives is what was put, whoever dies and whatever the disk does."""

import os
import pickle
import random
import zlib
from collections import OrderedDict

import pytest
import torch

from labkit.pipeline.disk_cache import HEADER, MAGIC, DiskCache, key_of


def frame(number, size=100):
    return torch.full((size,), number, dtype=torch.uint8)


def test_a_value_comes_back_in_another_process_too(tmp_path):
    cache = DiskCache(tmp_path, 10**6)
    assert cache.get(key_of("film", 3)) is None
    cache.put(key_of("film", 3), {"pixels": frame(3), "boxes": [frame(1, 4)]})
    found = DiskCache(tmp_path, 10**6).get(key_of("film", 3))
    assert torch.equal(found["pixels"], frame(3)) and torch.equal(found["boxes"][0], frame(1, 4))
    assert (cache.hits, cache.misses) == (0, 1)


def test_every_value_is_in_the_key():
    keys = {key_of(*parts) for parts in (("a", 1), ("a", 2), ("b", 1), ("a1",), ("a", "1"))}
    keys |= {key_of("a", 1, blur=3), key_of("a", 1, blur=4), key_of("a", 1, sharp=3)}
    assert len(keys) == 8
    assert key_of("a", x=1, y=2) == key_of("a", y=2, x=1)
    with pytest.raises(TypeError):
        key_of(object())


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other file", "longer"])
def test_a_damaged_file_is_a_miss_and_gone(tmp_path, damage):
    cache = DiskCache(tmp_path, 10**6)
    cache.put("key", frame(1))
    path = tmp_path / "key"
    content = path.read_bytes()
    flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
    path.write_bytes({"cut": content[:-1], "flipped": flipped, "empty": b"",
                      "other file": b"hello" * 99, "longer": content + b"x"}[damage])  # fmt: skip
    assert cache.get("key") is None
    assert cache.damaged == 1 and not path.exists()


class Bad:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def test_a_poisoned_file_runs_nothing(tmp_path, capfd):
    body = pickle.dumps(Bad())
    (tmp_path / "key").write_bytes(MAGIC + HEADER.pack(len(body), zlib.crc32(body)) + body)
    assert DiskCache(tmp_path, 10**6).get("key") is None
    assert "never" not in capfd.readouterr().out


def test_it_is_bounded_and_the_least_recently_used_goes_first(tmp_path):
    """Against a model, with restarts; every file has the same size."""
    cache, rng, model = DiskCache(tmp_path, 10**6), random.Random(0), OrderedDict()
    cache.put("0", frame(0))
    each = cache.nbytes
    (tmp_path / "0").unlink()
    now = 0
    for step in range(150):
        if step % 40 == 0:
            cache = DiskCache(tmp_path, 5 * each)
        key = str(rng.randrange(9))
        if rng.random() < 0.5:
            cache.put(key, frame(step))
            model[key] = step
        else:
            found = cache.get(key)
            assert (found is None) == (key not in model)
            assert found is None or int(found[0]) == model[key]
        if key in model:
            model.move_to_end(key)
            now += 1
            os.utime(tmp_path / key, ns=(now, now))  # a clock that tells two steps apart
        while len(model) > 5:
            model.popitem(last=False)
        assert {path.name for path in tmp_path.iterdir()} == set(model)


def test_a_smaller_limit_holds_from_the_start(tmp_path):
    cache = DiskCache(tmp_path, 10**6)
    for number in range(4):
        cache.put(str(number), frame(number))
    assert DiskCache(tmp_path, 2 * cache.nbytes // 4).nbytes <= cache.nbytes
    assert len(list(tmp_path.iterdir())) == 2
    cache.limit = 10
    cache.put("too large", frame(1))
    assert not (tmp_path / "too large").exists()


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path, 10**6)
    cache.put("key", frame(1))

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        cache.put("key", frame(2))
    assert torch.equal(cache.get("key"), frame(1))
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
