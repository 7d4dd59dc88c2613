"""What happens to the parts when something goes wrong around them, each thing done for real."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import labkit
from tests.course.notebook_answers import answer_from_notebook

ID, OTHER = "strides.needed", "broadcasting.loop_strides"
PASS = """
    import sys
    sys.path[:0] = {paths!r}
    import answers
    from labkit import course

    for name in {names!r}:
        print(repr(course.check(name, getattr(answers, name.partition(".")[2]))))
"""


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """A folder with a module of answers, and progress beside it."""
    texts = []
    for name in (ID, OTHER, "tensors.promote", "strides.view_strides"):
        answer_from_notebook(name, tmp_path)
        texts.append((tmp_path / f"{name}.py").read_text(encoding="utf-8"))
    (tmp_path / "answers.py").write_text("\n\n".join(texts), encoding="utf-8")
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "kept" / "progress.json"))
    return tmp_path


def script(learner, names, after="", before="", paths=()):
    """Starts a Python that passes these exercises."""
    asked = textwrap.dedent(PASS).format(paths=[*map(str, paths), str(learner)], names=names)
    text = f"{textwrap.dedent(before)}\n{asked}\n{textwrap.dedent(after)}"
    return subprocess.Popen(
        [sys.executable, "-c", text], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def said(process):
    """What it printed, when it came to its end."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def shell(*arguments):
    """What `labkit course machine` prints in a shell."""
    command = [sys.executable, "-m", "labkit", "course", "machine", *arguments]
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=300)


def yours(text):
    """The exercises whose seat is said to be the learner's."""
    return {line.split()[-2] for line in text.splitlines() if line.endswith(" yours")}


def test_two_notebooks_at_once_lose_nothing_of_each_other(learner):
    first = script(learner, [ID, "tensors.promote"] * 3)
    second = script(learner, [OTHER, "strides.view_strides"] * 3)
    assert "parts" in said(first) and "parts" in said(second)
    assert yours(shell().stdout) == {ID, OTHER, "tensors.promote", "strides.view_strides"}
    left = {file.name for file in (learner / "kept" / "parts").iterdir()}
    assert not any(name.startswith(".part-") for name in left)


def test_on_a_full_disk_the_part_lasts_as_long_as_the_notebook(learner):
    """No file may grow beyond 64 bytes: what a full disk does to a write."""
    said(script(learner, [ID]))
    before = (learner / "kept" / "parts" / f"{ID}.py").read_bytes()
    full = """
        import resource, signal, warnings
        warnings.simplefilter("ignore")
        sys_limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        import labkit.course.checks, labkit.course.your_machine.page
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, sys_limit))
    """
    after = """
        from labkit.course.your_machine.last_run import LastRun, keep_run, last_run
        print(course.machine())
        keep_run(LastRun(day="today"))
        print(last_run().day)
    """
    out = said(script(learner, [ID, OTHER], after=after, before=full))
    assert "Your machine now has 2 of" in out and yours(out) == {ID, OTHER}
    assert "today" in out
    files = {file.name for file in (learner / "kept" / "parts").iterdir()}
    assert files == {f"{ID}.py"}, "no half of a file is left"
    assert (learner / "kept" / "parts" / f"{ID}.py").read_bytes() == before
    assert yours(shell().stdout) == {ID}


def test_parts_and_checkout_may_move(learner, monkeypatch):
    """The parts lie in another folder, and labkit itself is found in another place."""
    said(script(learner, [ID, OTHER]))
    shutil.move(learner / "kept", learner / "elsewhere")
    moved = learner / "moved"
    moved.mkdir()
    (moved / "labkit").symlink_to(Path(labkit.__file__).parent, target_is_directory=True)
    monkeypatch.setenv("LABKIT_PROGRESS", str(learner / "elsewhere" / "progress.json"))
    after = "import labkit; print(labkit.__file__); print(course.machine())"
    out = said(script(learner, [], after=after, paths=[moved]))
    assert str(moved) in out and yours(out) == {ID, OTHER}


def test_a_folder_that_cannot_be_read_is_said_to_be_so(learner):
    """A folder where the file of a part should be."""
    said(script(learner, [ID, OTHER]))
    file = learner / "kept" / "parts" / f"{ID}.py"
    file.unlink()
    file.mkdir()
    out = shell().stdout
    assert "refused" in out and "cannot be read" in out and yours(out) == {OTHER}


def test_an_export_that_cannot_be_written_says_so(learner):
    said(script(learner, [ID]))
    (learner / "file").write_text("no folder")
    ran = shell("--export", str(learner / "file" / "mine"))
    assert ran.returncode == 1 and "--export" in ran.stderr


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_parts_are_files_that_git_can_compare(learner):
    """A part that passes in another way is a change of a few lines."""
    said(script(learner, [OTHER]))
    parts = learner / "kept" / "parts"

    def git(*arguments):
        about = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.autocrlf=false"]
        return subprocess.run(
            ["git", *about, *arguments], cwd=parts, check=True, text=True, capture_output=True,
            env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(learner)},
        ).stdout  # fmt: skip

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    said(script(learner, [OTHER]))
    assert git("status", "--porcelain") == "", "the same answer is the same file"
    answers = learner / "answers.py"
    text = answers.read_text(encoding="utf-8")
    start = text.index("def loop_strides")
    answers.write_text(
        text[:start] + text[start:].replace("return ", "return (  # in one line\n        ", 1)
        .replace("\n\n", ")\n\n", 1), encoding="utf-8",
    )  # fmt: skip
    said(script(learner, [OTHER]))
    changed = [line for line in git("diff", "-U0").splitlines() if line[:1] in "+-"]
    assert any("in one line" in line for line in changed) and len(changed) <= 8
