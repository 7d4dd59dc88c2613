"""Frames out of mapped files: right ones, writable, and few pages."""

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from labkit.pipeline.memory.mapped import MappedFrames


@pytest.fixture
def shards(tmp_path):
    arrays = [
        np.arange(60, dtype=np.float32).reshape(5, 4, 3),
        np.asfortranarray(np.arange(36, dtype=np.float32).reshape(3, 4, 3) * 7),
        np.empty((0, 4, 3), np.float32),
        np.arange(24, dtype=np.float32).reshape(2, 4, 3) - 9,
    ]
    paths = [tmp_path / f"{n}.npy" for n in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths, torch.from_numpy(np.concatenate(arrays))


def test_every_frame_is_there_in_order(shards):
    paths, right = shards
    frames = MappedFrames(paths)
    assert len(frames) == 10
    assert torch.equal(torch.stack([frames[n] for n in range(10)]), right)
    for index in (-1, 10):
        with pytest.raises(IndexError, match="of 10"):
            frames[index]


def test_a_frame_may_be_written_to_and_the_file_stays(shards):
    paths, right = shards
    frames, before = MappedFrames(paths), [path.read_bytes() for path in paths]
    frames[6].zero_()
    assert torch.equal(frames[6], right[6])
    assert [path.read_bytes() for path in paths] == before


def test_what_travels_holds_no_frames(tmp_path):
    np.save(tmp_path / "large.npy", np.zeros((1000, 8, 8)))
    frames = MappedFrames([tmp_path / "large.npy"])
    frames[3]
    assert len(pickle.dumps(frames)) < 1000
    assert torch.equal(pickle.loads(pickle.dumps(frames))[3], frames[3])


def test_workers_open_the_files_themselves(shards):
    paths, right = shards
    loader = DataLoader(
        MappedFrames(paths), batch_size=4, num_workers=2, multiprocessing_context="fork"
    )
    assert torch.equal(torch.cat(list(loader)), right)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"RIFF" + content[4:],
        lambda content: content[:20],
        lambda content: content.replace(b"(5, 4, 3)", b"(4, 4, 3)"),
        lambda content: content.replace(b"(5, 4, 3)", b"(6, 4, 3)"),
        lambda content: b"",
    ],
    ids=["short", "long", "another format", "half a header", "fewer", "more", "empty"],
)
def test_a_damaged_file_is_refused_by_name(shards, spoil):
    paths, _ = shards
    paths[0].write_bytes(spoil(paths[0].read_bytes()))
    with pytest.raises(ValueError, match=r"0\.npy"):
        MappedFrames(paths)


def test_what_is_no_frames_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.float32(3))
    np.save(tmp_path / "things.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name in ("one", "things"):
        with pytest.raises(ValueError, match=name):
            MappedFrames([tmp_path / f"{name}.npy"])
