"""What others put into the cache, or break in it, is not loaded; and nothing stops for it."""

import ctypes
import errno
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.core import compile_cache, host_compiler

ROOT = Path(__file__).parents[2]
SOURCE = "int answer(void) { return 42; }"
EVIL = "int answer(void) { return 666; }"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("LABKIT_CACHE", str(folder))
    monkeypatch.setattr(compile_cache, "_said", set())
    monkeypatch.setattr(compile_cache, "_made_here", set())
    return folder


def built(source=SOURCE):
    return host_compiler.shared_library("answer", source, "c")


def answer():
    return host_compiler.load_library(built).answer()


@pytest.fixture
def planted(tmp_path):
    """A shared object that answers otherwise, made outside the cache."""
    path = tmp_path / "planted.so"
    command = [host_compiler.compiler("c"), "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=EVIL, text=True, check=True)
    return path


def mode(path):
    return path.stat().st_mode & 0o777


def test_only_the_user_may_enter(cache):
    path = built()
    assert (mode(cache), mode(path.parent), mode(path)) == (0o700, 0o700, 0o700)


def test_a_umask_of_nothing_changes_nothing(cache):
    script = (
        "import os; os.umask(0)\n"
        "from labkit.core import host_compiler\n"
        f"print(host_compiler.shared_library('answer', {SOURCE!r}, 'c'))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    path = Path(told.stdout.strip())
    assert (mode(cache), mode(path.parent), mode(path)) == (0o700, 0o700, 0o700)


def test_a_planted_shared_object_is_not_loaded(cache, planted):
    path = built()
    shutil.copy(planted, path)
    assert answer() == 42


def test_a_planted_link_is_not_followed(cache, planted):
    path = built()
    path.unlink()
    path.symlink_to(planted)
    assert answer() == 42
    assert not built().is_symlink()


@pytest.mark.parametrize("opened", ["cache", "cache/compiled"])
def test_what_lay_in_a_folder_open_to_all_is_not_believed(cache, opened):
    """Its name can be right: whoever may write there can compute it."""
    good, evil = built(), built(EVIL)
    stem, rest = good.name.split(".")[0], evil.name.partition(".")[2]
    evil.rename(evil.with_name(f"{stem}.{rest}"))
    good.unlink()
    assert answer() == 666  # so would it be loaded, were the folder not open
    (cache.parent / opened).chmod(0o777)
    assert answer() == 42
    assert (mode(cache), mode(cache / "compiled")) == (0o700, 0o700)


def test_a_link_in_place_of_the_folder_is_refused(cache, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o777)
    mine.chmod(0o777)
    (mine / "letter").touch()
    cache.mkdir()
    (cache / "compiled").symlink_to(mine)
    assert answer() == 42
    assert (mine / "letter").exists()
    assert "is not a folder" in capsys.readouterr().err


def test_a_folder_of_another_user_is_refused_in_clear_words(cache, monkeypatch, capsys):
    built()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    path = built()
    assert cache not in path.parents
    assert ctypes.CDLL(str(path)).answer() == 42
    built()
    told = capsys.readouterr().err
    assert told.count(f"{cache} belongs to user {me}, and you are user {me + 1}") == 1
    assert "LABKIT_CACHE to a folder of your own" in told


@pytest.mark.parametrize("uses", [1, 3])
@pytest.mark.parametrize("keep", [0, 100, 0.5])
def test_a_truncated_entry_is_built_again(cache, keep, uses):
    (path,) = {built() for _ in range(uses)}
    size = path.stat().st_size
    os.truncate(path, keep if isinstance(keep, int) else int(size * keep))
    assert answer() == 42
    assert built().stat().st_size == size


def test_the_folder_is_looked_through_once_for_an_entry(cache, monkeypatch):
    """A course leaves thousands of them there."""
    built()
    path, looked = built(), []
    monkeypatch.setattr(os, "listdir", lambda place: looked.append(place) or [])
    assert built() == path and looked == []
    path.unlink()
    assert built() == path and looked == [cache / compile_cache.COMPILED]


def test_an_entry_that_does_not_load_is_built_again(cache, monkeypatch):
    """Whole, the user's own and of the right name, and yet of another machine."""
    with monkeypatch.context() as other_machine:
        other_machine.setattr(host_compiler, "run", lambda command, *_: not_elf(command))
        foreign = built()
    monkeypatch.setattr(compile_cache, "_made_here", set())  # another process had built it
    assert foreign.read_bytes() == b"not for this machine"
    assert built() == foreign
    assert answer() == 42
    assert not foreign.exists()


def not_elf(command):
    Path(command[command.index("-o") + 1]).write_bytes(b"not for this machine")


def test_what_this_process_built_is_not_built_a_second_time(cache, monkeypatch):
    builds = []
    monkeypatch.setattr(host_compiler, "run", lambda c, *_: (builds.append(c), not_elf(c)))
    with pytest.raises(OSError, match=r"answer-.*\.so"):
        answer()
    assert len(builds) == 1


def test_an_entry_is_fsynced_before_it_gets_its_name(cache, monkeypatch):
    """A power cut leaves the whole entry or none: its bytes are on the disk before its name is."""
    done, replace, fsync = [], Path.replace, os.fsync

    def fsynced(descriptor):
        fsync(descriptor)
        found = os.fstat(descriptor)
        done.append(("fsync", found.st_ino, found.st_size))

    def renamed(path, target):
        found = path.stat()
        done.append(("rename", found.st_ino, found.st_size))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsynced)
    monkeypatch.setattr(Path, "replace", renamed)
    entry = built().stat()
    assert done == [(call, entry.st_ino, entry.st_size) for call in ("fsync", "rename")]


@pytest.mark.parametrize("refused", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize(
    "call", [(os, "fsync"), (Path, "replace"), (Path, "mkdir"), (compile_cache.tempfile, "mkstemp")]
)
def test_a_disk_that_refuses_is_not_fatal(cache, monkeypatch, capsys, call, refused):
    with monkeypatch.context() as disk:
        real = getattr(*call)

        def refuse(*given, **named):
            disk.setattr(*call, real)  # the private folder is on another disk
            raise OSError(refused, os.strerror(refused))

        disk.setattr(*call, refuse)
        path = built()
    assert ctypes.CDLL(str(path)).answer() == 42
    assert cache not in path.parents
    assert not [entry for entry in cache.rglob("*") if entry.is_file()]
    assert os.strerror(refused) in capsys.readouterr().err


NO_MOUNT = 77
SMALL_DISK = f"""
mount -t tmpfs -o size=64k none "$1" || exit {NO_MOUNT}
mkdir -m 700 "$1/compiled"
head -c 1000000 /dev/zero > "$1/ballast" 2> /dev/null
exec "$2" -c '
from labkit.core import host_compiler
find = lambda: host_compiler.shared_library("answer", "{SOURCE}", "c")
print(host_compiler.load_library(find).answer())'
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare to mount a disk with")
def test_a_real_disk_that_is_full_is_not_fatal(cache):
    cache.mkdir()
    told = subprocess.run(
        ["unshare", "-m", "sh", "-c", SMALL_DISK, "sh", str(cache), sys.executable],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if told.returncode == NO_MOUNT or "unshare failed" in told.stderr:
        pytest.skip("this user may not mount a disk")
    assert told.stdout == "42\n", told.stderr
    assert "No space left on device" in told.stderr


def test_a_home_that_is_nowhere_is_not_fatal(monkeypatch, capsys):
    monkeypatch.delenv("LABKIT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert answer() == 42
    assert "HOME is not set" in capsys.readouterr().err


def test_a_cache_that_vanishes_is_made_again(cache):
    path = built()
    shutil.rmtree(cache)
    assert answer() == 42
    assert built() == path


def test_the_private_folder_that_vanishes_is_made_again(cache, monkeypatch):
    cache.touch()  # a file where the folder should be
    path = built()
    shutil.rmtree(path.parent)
    assert answer() == 42


def test_two_processes_build_at_once(cache):
    script = (
        "import sys\n"
        "from labkit.core import host_compiler\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"find = lambda: host_compiler.shared_library('answer', {SOURCE!r}, 'c')\n"
        "print(host_compiler.load_library(find).answer())\n"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [one.communicate() for one in both] == [("42\n", "")] * 2
    entries = [entry.name for entry in (cache / "compiled").iterdir()]
    assert len(entries) in (1, 2)  # compilers need not write the same bytes twice
    assert not [name for name in entries if name.startswith("half-done")]


def test_nobody_else_builds_the_same_meanwhile(cache):
    def build(target):
        (lock,) = (cache / "compiled").glob("*.building")
        with lock.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        target.write_bytes(b"x")

    path = compile_cache.kept("one", ["key"], build)
    assert list((cache / "compiled").iterdir()) == [path]  # the lock is gone


def test_what_was_waited_for_is_taken(cache, monkeypatch):
    real = fcntl.flock

    def waits(file, how):
        monkeypatch.setattr(fcntl, "flock", real)
        compile_cache.kept("one", ["key"], lambda target: target.write_bytes(b"theirs"))
        raise BlockingIOError

    monkeypatch.setattr(fcntl, "flock", waits)
    path = compile_cache.kept("one", ["key"], lambda target: target.write_bytes(b"ours"))
    assert path.read_bytes() == b"theirs"
