"""Right and wrong answers to the exercises on results that are kept on disk."""

import io
import pickle
import zlib

import pytest
import torch

from labkit.course import exercises
from labkit.course.checks import failing_cases
from tests.course.answers import Answers, catches, first_hint
from tests.seeds import full_only

answers = Answers("kept_results")

# --- warm-ups

answers.right("cache_key")(lambda film, frame, s: repr((film, frame, sorted(s.items()))))
for why, wrong in {
    "the frame number only": lambda film, frame, s: f"frame_{frame}",
    "without the settings": lambda film, frame, s: repr((film, frame)),
    "only joins the texts": lambda film, frame, s: f"{film}{frame}{sorted(s.items())}",
    "keeps the order of the settings": lambda film, frame, s: repr((film, frame, s)),
    "joins names and values": lambda film, frame, s: (
        f"{film}-{frame}-" + "".join(f"{name}{value}" for name, value in sorted(s.items()))
    ),
    "uses Python's hash": lambda film, frame, s: str(hash((film, frame, *sorted(s.items())))),
}.items():
    answers.wrong("cache_key", why)(wrong)


# --- unpacked


def loaded(content, safe=True):
    return torch.load(io.BytesIO(content), weights_only=safe)


def unpacked(content, load=loaded, caught=(pickle.UnpicklingError, RuntimeError)):
    try:
        found = load(content)
    except caught:
        return None
    return found if isinstance(found, torch.Tensor) else None


def both_ways(content):
    try:
        return loaded(content)
    except pickle.UnpicklingError:
        return loaded(content, safe=False)


def frame_in(found):
    found = found.get("frame") if isinstance(found, dict) else found
    return found if isinstance(found, torch.Tensor) else None


answers.right("unpacked")(unpacked)
for why, wrong in {
    "loads arbitrary pickles": lambda content: unpacked(content, lambda c: loaded(c, False)),
    "tries the safe way first, then the other": lambda content: unpacked(content, both_ways),
    "gives what is no tensor": catches(loaded),
    "lets the refusal out": lambda content: unpacked(content, caught=RuntimeError),
    "takes the frame out of a dict": lambda content: frame_in(catches(loaded)(content)),
    "forgets the shape": lambda content: None if (t := unpacked(content)) is None else t.flatten(),
    "lets half a file out": lambda content: unpacked(content, caught=pickle.UnpicklingError),
}.items():
    answers.wrong("unpacked", why)(wrong)

# --- whole_file


def cached(check=lambda c: zlib.crc32(c).to_bytes(4, "big"), atomic=True, safe=True, deletes=False,
           short=False):  # fmt: skip
    def store(folder, name, content):
        data = check(content) + content
        if deletes and folder.read(name) is not None:
            folder.rename(name, "gone")
        if not atomic:
            folder.write(name, data)
            return
        folder.write(name + ".new", data)
        folder.rename(name + ".new", name)

    def load(folder, name):
        data = folder.read(name)
        if data is None and safe:
            return None
        size = len(check(b""))
        if short and len(data) < size:
            raise ValueError("not enough bytes")
        return data[size:] if data[:size] == check(data[size:]) and len(data) >= size else None

    return store, load


answers.right("whole_file")(cached())
answers.wrong("whole_file", "writes under the final name")(cached(atomic=False))
answers.wrong("whole_file", "has no checksum")(cached(check=lambda content: b""))
answers.wrong("whole_file", "knows the length only")(
    cached(check=lambda content: len(content).to_bytes(4, "big"))
)
answers.wrong("whole_file", "adds all bytes up")(
    cached(check=lambda content: sum(content).to_bytes(4, "big"))
)
answers.wrong("whole_file", "takes an empty content for none")(
    (cached()[0], lambda folder, name: cached()[1](folder, name) or None)
)
answers.wrong("whole_file", "fails on an empty folder")(cached(safe=False))
answers.wrong("whole_file", "deletes before it writes")(cached(deletes=True))
answers.wrong("whole_file", "catches every exception and returns a default")(
    (cached()[0], catches(lambda folder, name: folder.read(name)[4:]))
)


# --- disk_cache


def packed(frame):
    file = io.BytesIO()
    torch.save(frame, file)
    return file.getvalue()


def disk_cache(
    files=None,
    unpack=unpacked,
    measure=lambda sizes: sum(sizes.values()),
    at_start=True,
    cleans=True,
    touches=True,
    first=0,
    refuses=True,
    clears=False,
):
    store, load = files or cached()

    class DiskCache:
        def __init__(self, folder, limit):
            self.folder, self.limit = folder, limit
            for name in list(folder.sizes()):
                if clears or (cleans and name.endswith(".new")):
                    folder.delete(name)
            if at_start:
                self.trim()

        def get(self, key):
            content = load(self.folder, key)
            frame = None if content is None else unpack(content)
            if frame is not None and touches:
                self.folder.touch(key)
            return frame

        def put(self, key, frame):
            content = packed(frame)
            if len(content) + 4 <= self.limit or not refuses:
                store(self.folder, key, content)
                self.trim()

        def trim(self):
            while measure(self.folder.sizes()) > self.limit:
                self.folder.delete(list(self.folder.sizes())[first])

    return DiskCache


class OfItsOwnList(disk_cache()):
    """It measures what it has put itself."""

    def __init__(self, folder, limit):
        self.folder, self.limit, self.mine = folder, limit, {}

    def put(self, key, frame):
        self.mine.pop(key, None)
        self.mine[key] = len(packed(frame)) + 4
        super().put(key, frame)

    def trim(self):
        while sum(self.mine.values()) > self.limit:
            key = next(iter(self.mine))
            del self.mine[key]
            if key in self.folder.sizes():
                self.folder.delete(key)


def unsafe(content):
    return unpacked(content, lambda c: loaded(c, False))


PLAIN = cached(check=lambda content: b"")
CACHES = {
    "counts entries": (
        disk_cache(measure=lambda sizes: 2_500 * len(sizes)), "used longest ago first"),
    "deletes at the limit": (
        disk_cache(measure=lambda sizes: 1 + sum(sizes.values())), "all of it stays"),
    "limit ignored on restart": (disk_cache(at_start=False), "in __init__"),
    "forgets at restart what is there": (disk_cache(clears=True), "in __init__"),
    "leaves unfinished files": (disk_cache(cleans=False), "unfinished"),
    "non-atomic writes": (disk_cache(cached(atomic=False)), "gives what was put"),
    "drops the one stored first": (disk_cache(touches=False), "folder.touch"),
    "drops the one used last": (disk_cache(first=-1), "the last one to go"),
    "what is too large empties it": (disk_cache(refuses=False), "pushes nobody out"),
    "trusts torch.load to see damage": (disk_cache(PLAIN), "checksum"),
    "loads arbitrary pickles": (disk_cache(unpack=unsafe), "let it run"),
    "catches every exception and returns a default": (
        disk_cache((PLAIN[0], catches(PLAIN[1])), unpack=catches(loaded)), "checksum"),
}  # fmt: skip
answers.right("disk_cache")(disk_cache())
for why, (wrong, _) in CACHES.items():
    answers.wrong("disk_cache", why)(wrong)
answers.wrong("disk_cache", "limit ignored on restart")(OfItsOwnList)

test_answers = answers.tests()


@pytest.mark.parametrize(("wrong", "said"), CACHES.values())
def test_mistakes_of_a_cache_get_their_hints(wrong, said):
    assert said in first_hint(answers.exercises["disk_cache"], wrong)


def test_mistakes_of_its_parts_get_their_hints():
    file, keys = answers.exercises["whole_file"], answers.exercises["cache_key"]
    assert "then rename" in first_hint(file, cached(atomic=False))
    assert "checksum" in first_hint(file, cached(check=lambda content: b""))
    assert "raised an error" in first_hint(file, cached(short=True))
    assert "no bytes" in first_hint(file, (cached()[0], lambda *at: cached()[1](*at) or None))
    assert "nothing is stored" in first_hint(file, cached(safe=False))
    assert "where one ends" in first_hint(keys, lambda film, n, s: f"{film}{n}{sorted(s.items())}")
    assert "next process" in first_hint(keys, lambda film, n, s: str(hash((film, n))))
    assert "all settings in it" in first_hint(keys, lambda film, n, s: repr((film, n)))
    opened = answers.exercises["unpacked"]
    assert "it ran" in first_hint(opened, unsafe)
    assert "weights" not in first_hint(opened, answers.wrongs["unpacked"][-1][1]())


REFUSED_ONCE = (952456, 13, 10, 12, 62, 63)
"""Where a right cache was refused: two each for a frame too large, for damage and for a kill."""
OTHERS = sorted({*range(80)} - {*REFUSED_ONCE})


@pytest.mark.parametrize("seed", [*REFUSED_ONCE, *full_only(*OTHERS)])
def test_a_right_disk_cache_passes_whatever_is_drawn(seed):
    """Also where a restart raised the limit before a frame is too large, or a kill follows."""
    assert failing_cases(exercises.find("kept_results.disk_cache"), disk_cache(), seed) == []
