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


def test_a_text_is_taken_or_refused_and_a_missing_compiler_is_no_refusal(monkeypatch):
    assert host_compiler.compiles(SOURCE, language="c")
    assert not host_compiler.compiles("no_such_type x;")
    assert not host_compiler.compiles("#ifndef NAME\n#error none\n#endif", "-E")
    assert host_compiler.compiles("#ifndef NAME\n#error none\n#endif", "-E", "-DNAME")
    monkeypatch.setenv("PATH", "")
    for name in host_compiler.VARIABLES.values():
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(host_compiler.CompilerMissing):
        host_compiler.compiles(SOURCE)
