import ctypes

import pytest

from labkit.core import host_compiler

SOURCE = "int answer(void) { return 42; }"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_source_is_compiled_once():
    path = host_compiler.shared_library("answer", SOURCE, "c")
    assert ctypes.CDLL(str(path)).answer() == 42
    written = path.stat().st_mtime_ns
    assert host_compiler.shared_library("answer", SOURCE, "c") == path
    assert path.stat().st_mtime_ns == written
    assert host_compiler.shared_library("answer", SOURCE, "c", ["-DX"]) != path


def test_the_compilers_words_are_passed_on():
    with pytest.raises(RuntimeError, match="no_such_type"):
        host_compiler.shared_library("wrong", "no_such_type x;", "c")


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(host_compiler.CompilerMissing, match=r"\$CXX, g\+\+, clang\+\+, c\+\+"):
        host_compiler.compiler("c++")
