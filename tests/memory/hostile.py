"""Files that attack whoever reads a snapshot, and a child with limits that reads them.

Each attack runs in a forked child with limits on its processor time and memory, which are what is
judged: the machine may be slow or shared.
"""

import gzip
import os
import pickle
import random
from pathlib import Path

from labkit.memory.snapshots.snapshot import SnapshotError, load_columns

FIXTURES = Path(__file__).with_name("fixtures")
REAL = gzip.decompress((FIXTURES / "snapshots" / "train_mlp.pickle.gz").read_bytes())
GIB = 1 << 30
SECONDS = 5


def in_a_child(work, sources):
    """What `work(source)` did for each source, one forked child for all of them.

    The child is killed beyond the limits; then the source it was at is named.
    """
    import resource  # Linux and macOS have it

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + GIB, held + GIB))
            for source in sources:
                used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
                hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
                resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS + 1, hard))
                try:
                    work(source)
                    said = b"o"
                except SnapshotError:
                    said = b"r"
                os.write(writing, said)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"source {len(said)} ended the child with status {status}"
    assert len(said) == len(sources)
    return said


def real():
    return pickle.loads(REAL)


def laughs(depth):
    """Ten to the power of `depth` strings in a few bytes."""
    value = "ha"
    for _ in range(depth):
        value = [value] * 10
    return value


def bombs():
    zeros = gzip.compress(bytes(300 << 20))
    yield "gzip", zeros
    yield "empty lists", b"\x80\x04(" + b"]" * 12_000_000 + b"l."
    yield "empty sets", b"\x80\x04(" + b"\x8f" * 12_000_000 + b"l."
    trace = real()["device_traces"][0]
    yield "devices", pickle.dumps({**real(), "device_traces": [trace] * 100_000})
    yield "annotations", pickle.dumps({**real(), "external_annotations": laughs(40)})
    yield "settings", pickle.dumps({**real(), "allocator_settings": {"x": laughs(40)}})
    deep = b"]" * 300_000 + b"a" * 299_999
    yield (
        "deep",
        b"\x80\x04}(\x8c\x08segments]\x8c\rdevice_traces]\x8c\x12allocator_settings%bu." % deep,
    )


def mutations(count):
    """Real recordings with bytes flipped, doubled, cut out, and values exchanged for others."""
    rng = random.Random(20)
    files = [*FIXTURES.glob("h200/*.gz"), *FIXTURES.glob("snapshots/train_*.gz")]
    whole = [gzip.decompress(path.read_bytes()) for path in sorted(files)]
    telling = b"hjKMJ}]\x94(eu.\x8a\x8c\x86\x8f\x90\x8e\x8dr2"
    odd = [-5, 1 << 62, 1 << 200, "x", None, [], {}, 1.5, b"\xff", True, laughs(20)]
    for _ in range(count):
        if rng.random() < 0.5:
            snapshot = pickle.loads(rng.choice(whole))
            rows = rng.choice([snapshot["device_traces"][0], snapshot["segments"]])
            row = rng.choice(rows)
            row = rng.choice([row, snapshot, rng.choice(row.get("blocks") or [row])])
            row[rng.choice(list(row))] = rng.choice(odd)
            yield pickle.dumps(snapshot)
            continue
        data = bytearray(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(data))] = rng.choice((rng.randrange(256), *telling))
        if rng.random() < 0.3:
            at = rng.randrange(len(data))
            part = slice(at, at + rng.randrange(1, 4000))
            data[part] = rng.choice((b"", 2 * data[part]))
        yield bytes(data)


def bombs_said():
    """Of each bomb, by its name, whether it was read ("o") or refused ("r")."""
    names, sources = zip(*bombs(), strict=True)
    return dict(zip(names, in_a_child(load_columns, sources), strict=True))


def mutations_said():
    """Of 200 mutated recordings, whether each was read ("o") or refused ("r")."""
    return in_a_child(load_columns, list(mutations(200)))
