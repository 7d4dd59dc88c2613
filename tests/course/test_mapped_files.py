"""Right and wrong answers to the exercises on mapped files."""

import math
import os
from pathlib import Path

import numpy as np
import torch

from labkit.course.checking.tester import schedule
from labkit.course.exercises.mapped_files import SPOILT
from tests.course.answers import Answers, first_hint

answers = Answers("mapped_files")

answers.right("file_bytes")(lambda shape, itemsize, header: header + math.prod(shape) * itemsize)
for why, wrong in {
    "forgets the header": lambda shape, itemsize, header: math.prod(shape) * itemsize,
    "numbers instead of bytes": lambda shape, itemsize, header: header + math.prod(shape),
    "no dimension, no number": lambda shape, itemsize, header: (
        header + math.prod(shape or (0,)) * itemsize
    ),
    "wraps at 32 bits": lambda shape, itemsize, header: (
        (header + math.prod(shape) * itemsize) & 0xFFFFFFFF
    ),
    "a header of 128 bytes": lambda shape, itemsize, header: 128 + math.prod(shape) * itemsize,
    "header in numbers": lambda shape, itemsize, header: (header + math.prod(shape)) * itemsize,
}.items():
    answers.wrong("file_bytes", why)(wrong)

answers.right("pages")(lambda first, count: (first + count - 1) // 4096 - first // 4096 + 1)
for why, wrong in {
    "count divided": lambda first, count: -(-count // 4096),
    "one page too many": lambda first, count: (first + count) // 4096 - first // 4096 + 1,
    "rounded up from the first byte": lambda first, count: -(-(first + count) // 4096),
    "rounded down": lambda first, count: count // 4096,
}.items():
    answers.wrong("pages", why)(wrong)


class Mapped:
    """Right; each subclass breaks one thing."""

    names = True

    def __init__(self, paths):
        self.paths, self.counts, self.maps = paths, [], {}
        for path in paths:
            try:
                array = self.open(path)
                if array.offset + array.nbytes != Path(path).stat().st_size:
                    raise ValueError("another size than its header says")
            except (ValueError, EOFError) as error:
                raise ValueError(f"{path}: {error}" if self.names else "damaged") from None
            self.counts.append(len(array))

    def open(self, path):
        return np.load(path, mmap_mode="r")

    def __len__(self):
        return sum(self.counts)

    def __getitem__(self, n):
        for path, count in zip(self.paths, self.counts, strict=True):
            if n < count:
                return self.tensor(path, n)
            n -= count
        raise IndexError(n)

    def tensor(self, path, n):
        return torch.from_numpy(np.array(self.open(path)[n]))


answers.right("mapped_dataset")(Mapped)


@answers.wrong("mapped_dataset", "loads the shard")
class Loads(Mapped):
    def tensor(self, path, n):
        return torch.from_numpy(np.load(path)[n].copy())


@answers.wrong("mapped_dataset", "writable tensor over read-only memory")
class ReadOnly(Mapped):
    def tensor(self, path, n):
        return torch.from_numpy(self.open(path)[n])


@answers.wrong("mapped_dataset", "ignores Fortran order")
class InOrder(Mapped):
    def tensor(self, path, n):
        array = self.open(path)
        raw = np.memmap(path, array.dtype, "r", array.offset, array.shape)
        return torch.from_numpy(np.array(raw[n]))


@answers.wrong("mapped_dataset", "trusts the header's shape")
class Trusts(Mapped):
    def __init__(self, paths):
        self.paths, self.counts = paths, []
        for path in paths:
            try:
                self.counts.append(len(self.open(path)))
            except (ValueError, EOFError) as error:
                raise ValueError(f"{path}: {error}") from None


@answers.wrong("mapped_dataset", "sends the maps")
class Sends(Mapped):
    def open(self, path):
        if path not in self.maps:
            self.maps[path] = np.load(path, mmap_mode="r")
        return self.maps[path]


class Seeks(Mapped):
    """Reads what lies in order from files that stay open, by seek and read."""

    numbers = None

    def tensor(self, path, n):
        array = self.open(path)
        if np.isfortran(array):
            return super().tensor(path, n)
        self.numbers = self.numbers or {one: os.open(one, os.O_RDONLY) for one in self.paths}
        os.lseek(self.numbers[path], array.offset + n * array[0].nbytes, os.SEEK_SET)
        content = bytearray(os.read(self.numbers[path], array[0].nbytes))
        return torch.from_numpy(np.frombuffer(content, array.dtype).reshape(array.shape[1:]))


answers.wrong("mapped_dataset", "shares a file position")(Seeks)


@answers.wrong("mapped_dataset", "shares a file position")
class SeeksAndReopens(Seeks):
    def __getstate__(self):
        return {**self.__dict__, "numbers": None}


@answers.right("mapped_dataset")
class KeepsMaps(Mapped):
    def open(self, path):
        return self.maps.setdefault(path, np.load(path, mmap_mode="r"))

    def __getstate__(self):
        return {**self.__dict__, "maps": {}}


@answers.wrong("mapped_dataset", "does not name the file")
class Nameless(Mapped):
    names = False


@answers.wrong("mapped_dataset", "the first shard only")
class First(Mapped):
    def __len__(self):
        return self.counts[0]


@answers.right("mapped_dataset")
class ByName(Mapped):
    def __reduce__(self):
        return type(self), (self.paths,)


@answers.wrong("mapped_dataset", "in the order of the alphabet")
class Sorted(Mapped):
    def __init__(self, paths):
        super().__init__(sorted(paths))


@answers.wrong("mapped_dataset", "sorts the caller's list")
class Cleared(Mapped):
    def __init__(self, paths):
        super().__init__(list(paths))
        paths.sort()


@answers.wrong("mapped_dataset", "packs nothing")
class Nothing(Mapped):
    def __getstate__(self):
        return {}


@answers.wrong("mapped_dataset", "packs no counts")
class NoCounts(Mapped):
    def __getstate__(self):
        return {"paths": self.paths, "counts": []}


@answers.wrong("mapped_dataset", "reads the files at once")
class Reads(Mapped):
    def __init__(self, paths):
        super().__init__(paths)
        self.sizes = [len(Path(path).read_bytes()) for path in paths]


@answers.wrong("mapped_dataset", "knows the length of the header")
class Header128(Mapped):
    def __init__(self, paths):
        super().__init__(paths)
        for path in paths:
            if 128 + self.open(path).nbytes != Path(path).stat().st_size:
                raise ValueError(path)


@answers.wrong("mapped_dataset", "goes on behind the end")
class Endless(Mapped):
    def __getitem__(self, n):
        return super().__getitem__(n) if n < len(self) else None


@answers.wrong("mapped_dataset", "lets EOFError through")
class Through(Mapped):
    def __init__(self, paths):
        if empty := [path for path in paths if not Path(path).stat().st_size]:
            raise EOFError(empty[0])
        super().__init__(paths)


@answers.wrong("mapped_dataset", "names the file without its folder")
class NameOnly(Mapped):
    def __init__(self, paths):
        try:
            super().__init__(paths)
        except ValueError as error:
            path = next(path for path in paths if path in str(error))
            raise ValueError(Path(path).name) from None


@answers.wrong("mapped_dataset", "catches every exception and returns a default")
class Catches(Mapped):
    def __init__(self, paths):
        try:
            super().__init__(paths)
        except ValueError:
            self.counts = [1] * len(paths)

    def tensor(self, path, n):
        try:
            return super().tensor(path, n)
        except (ValueError, EOFError):
            return torch.zeros(1)


@answers.wrong("mapped_dataset", "begins again behind the end")
class Wraps(Mapped):
    def __getitem__(self, n):
        return super().__getitem__(n % len(self))


@answers.wrong("mapped_dataset", "keeps the frames it has given")
class Cached(Mapped):
    def __getitem__(self, n):
        if n not in self.maps:
            self.maps[n] = super().__getitem__(n)
        return self.maps[n]

    def __getstate__(self):
        return {**self.__dict__, "maps": {}}


class Floats(Mapped):
    def tensor(self, path, n):
        return super().tensor(path, n).float()


def test_small_mistakes_get_their_hints():
    size, pages = answers.exercises["file_bytes"], answers.exercises["pages"]
    header = lambda shape, itemsize, header: (header + math.prod(shape)) * itemsize  # noqa: E731
    assert "in bytes already" in first_hint(size, header)
    fixed = lambda shape, itemsize, header: 128 + math.prod(shape) * itemsize  # noqa: E731
    assert "not always 128" in first_hint(size, fixed)
    from_zero = lambda first, count: -(-(first + count) // 4096)  # noqa: E731
    assert "counting begins" in first_hint(pages, from_zero)
    one_more = lambda first, count: (first + count) // 4096 - first // 4096 + 1  # noqa: E731
    assert "the next one is not read" in first_hint(pages, one_more)


def test_mistakes_get_their_hints():
    exercise = answers.exercises["mapped_dataset"]
    assert "read-only memory" in first_hint(exercise, ReadOnly)
    assert "one position for both" in first_hint(exercise, SeeksAndReopens)
    assert "travels as numbers" in first_hint(exercise, Sends)
    assert "compare the size" in first_hint(exercise, Trusts)
    assert "path in its text" in first_hint(exercise, Nameless)
    assert "was not packed" in first_hint(exercise, Nothing)
    assert "change nothing" in first_hint(exercise, Cleared)
    assert "ends a loop" in first_hint(exercise, Wraps)
    assert "of a cache" in first_hint(exercise, Cached)
    assert "it is the file's" in first_hint(exercise, Floats)


def test_every_check_asks_every_way_to_damage_a_file():
    exercise = answers.exercises["mapped_dataset"]
    for seed in range(40):
        cases = [exercise.make(seed, *each) for each in schedule(exercise)]
        damages = [case.inputs[1] for case in cases]
        assert {one[1] for one in damages if one} == set(SPOILT), seed
        assert None in damages


test_answers = answers.tests()
