"""Snapshots made by hand, and what reading damaged ones says.

Each load of a file is tried in a forked child first, and a fork costs what its process holds: so
those who read thousands run `in_a_small_process`, which has not imported torch.
"""

import json
import pickle
import random
import subprocess
import sys
from pathlib import Path

from labkit.memory.snapshots.snapshot import SnapshotError, columns, load, load_columns

ROOT = Path(__file__).parents[2]


def small_snapshot():
    frame = {"name": "forward", "filename": "model.py", "line": 3}
    entry = {"addr": 4096, "size": 100, "stream": 7, "time_us": 5, "frames": [frame]}
    block = {"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated"}
    return {
        "segments": [
            {
                "device": 0, "address": 4096, "total_size": 2 << 20, "stream": 7,
                "segment_type": "small", "segment_pool_id": (0, 1), "is_expandable": True,
                "blocks": [{**block, "frames": [frame]}],
            }
        ],
        "device_traces": [
            [
                {**entry, "action": "segment_alloc", "pool_id": (0, 1), "frames": []},
                {**entry, "action": "alloc", "pool_id": (0, 1), "user_metadata": "step 1"},
            ]
        ],
    }  # fmt: skip


def parts(found):
    """Everything in the columns, comparable."""
    groups = {name: getattr(found, name) for name in ("events", "segments", "blocks")}
    return {
        **{f"{g}.{k}": (v.dtype, v.tolist()) for g, row in groups.items() for k, v in row.items()},
        "stacks": [found.stacks[i] for i in range(len(found.stacks))],
        "frames": found.stacks.frames,
        **{name: getattr(found, name) for name in ("device", "actions", "streams", "pools")},
        **{name: getattr(found, name) for name in ("notes", "settings")},
    }


def synthetic(count, seed=0, share_lists=False, metadata=True, protocol=4):
    """A trace with fresh strings and tuples in each row, as PyTorch's recordings have them."""
    rng = random.Random(seed)
    keys = ("name", "filename", "line")
    frames = [
        dict(zip(keys, (f"f{i}", "a.py" if i % 2 else "b.py", 70 * i), strict=True))
        for i in range(300)
    ]
    stacks = [rng.sample(frames, rng.choice((0, 1, 2, 5, 40))) for _ in range(25)]
    rows = []
    for i in range(count):
        stack = rng.choice(stacks)
        row = {
            "action": rng.choice(("alloc", "free_requested", "free_completed")),
            "addr": rng.choice((0, 255, 65536, 1 << 31, 0x7F00_0000_0000 + 512 * i, (1 << 63) - 1)),
            "size": rng.choice((0, 1, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, 1 << 40)),
            "stream": rng.choice((0, 0, 7, 0x5555_0000_0000)),
            "time_us": 1_790_000_000_000_000 + i,
            "compile_context": "".join(("N/", "A")),
            "pool_id": tuple([rng.choice((0, 1, 300)), 0]),
            "frames": stack if share_lists else list(stack),
        }
        if metadata:
            row["user_metadata"] = "".join(("step ", "ä" * (i // 50 % 3), str(i // 40)))
            row["frames"] = row.pop("frames")  # the last key
        if i % 97 == 5:  # as PyTorch's entries of running out of memory
            row = {"action": "oom", "device_free": i, **{k: row[k] for k in list(row)[2:]}}
        rows.append(row)
    shared = {"active_size": 0, "requested_size": 0, "stream": 0, "segment_type": "small"}
    segment = {"device": 0, "address": 4096, "total_size": 2 << 20, "frames": stacks[3], **shared}
    block = {"address": 4096, "size": 512, "requested_size": 5, "state": "active_allocated"}
    snapshot = {
        "segments": [{**segment, "blocks": [{**block, "frames": stacks[4]}]}],
        "device_traces": [rows, [dict(row) for row in rows[: count // 3]]],
        "allocator_settings": {"a": rows[-1]["compile_context"], "b": rows[7]["pool_id"]},
        "external_annotations": [],
    }
    return pickle.dumps(snapshot, protocol)


def in_a_small_process(name, module=__name__):
    """What the function of that name in a module returns, asked in a fresh Python."""
    code = f"import json; from {module} import {name}; print(json.dumps({name}()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def truncated():
    """What each beginning of a snapshot's bytes gives."""
    data = pickle.dumps(small_snapshot())
    return [_said(load, data[:length]) for length in range(len(data))]


def flipped(count=1500):
    """What snapshots give in which one to three bytes are others."""
    data = bytearray(pickle.dumps(small_snapshot()))
    rng = random.Random(1)
    said = []
    for _ in range(count):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        said.append(_said(lambda one: columns(load(one)), bytes(damaged)))
    return said


def _said(read, data):
    try:
        read(data)
    except SnapshotError:
        return "refused"
    return "read"


def read_both_ways(count=400):
    """Whether the fast way reads of damaged traces what the plain one does."""
    rng = random.Random(11)
    whole = [synthetic(60, seed, share_lists=bool(seed % 2)) for seed in range(4)]
    telling = b"hjKMJ}]\x94(eu.\x8a\x8c\x86"
    said = []
    for _ in range(count):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(data))] = rng.choice((rng.randrange(256), *telling))
        if rng.random() < 0.3:
            at = rng.randrange(len(data))
            part = slice(at, at + rng.randrange(1, 60))
            data[part] = rng.choice((b"", 2 * data[part]))
        try:
            expected = columns(load(bytes(data)))
        except SnapshotError:
            said.append("refused")
            continue
        same = parts(load_columns(bytes(data))) == parts(expected)
        said.append("equal" if same else "different")
    return said
