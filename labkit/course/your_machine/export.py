"""The machine as a folder of the learner's own: parts, tests, the loss curve, a command."""

from collections.abc import Sequence
from pathlib import Path

from labkit.course.your_machine.inventory import Sitting
from labkit.course.your_machine.kept_parts import Part, with_head
from labkit.course.your_machine.last_run import LastRun
from labkit.course.your_machine.picture import curves

INIT = '''"""My machine: parts that I wrote, in a PyTorch that trains.

    python -m my_machine        trains a network with them
    python -m pytest tests      asks each of them its exercise's questions again
"""

import importlib.util
from pathlib import Path

PARTS = Path(__file__).parent / "parts"


def answers():
    """Exercise -> my answer."""
    found = {}
    for file in sorted(PARTS.glob("*.py")):
        spec = importlib.util.spec_from_file_location(file.stem.replace(".", "_"), file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[file.stem] = module.answer
    return found
'''
MAIN = '''"""Trains the network with my parts, with labkit's, and by PyTorch."""

import sys

from my_machine import answers

from labkit.course.your_machine.page import TrainingPage
from labkit.course.your_machine.seats import SEATS
from labkit.course.your_machine.training import STEPS, trained

parts = answers()
done = trained(SEATS, parts, int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
print(TrainingPage(done, len(parts)))
raise SystemExit(0 if done.is_equal and not done.run.troubles else 1)
'''
TESTS = '''"""Every part still answers its exercise's questions."""

import pytest
from my_machine import answers

from labkit import course

ANSWERS = answers()


@pytest.mark.parametrize("exercise", ANSWERS)
def test_part(exercise):
    course.check(exercise, ANSWERS[exercise], record=False)
'''


def export(folder: Path, sittings: Sequence[Sitting], run: LastRun) -> Path:
    """The folder holds the machine; files of an earlier export are replaced.

    Raises   FileExistsError   the folder has something in it that is no machine
    """
    package = folder / "my_machine"
    if folder.exists() and any(folder.iterdir()) and not package.is_dir():
        raise FileExistsError(f"{folder} is not empty, and holds no machine")
    parts = [one.part for one in sittings if one.part is not None and one.answer is not None]
    for old in (package / "parts").glob("*.py"):
        old.unlink()
    files = {
        package / "__init__.py": INIT,
        package / "__main__.py": MAIN,
        folder / "tests" / "test_parts.py": TESTS,
        folder / "README.md": _readme(parts, sittings, run),
        folder / "conftest.py": '"""Lets the tests find `my_machine`."""\n',
        **{package / "parts" / f"{part.exercise}.py": with_head(part) for part in parts},
    }
    if drawn := curves(run.losses):
        files[folder / "loss_curve.svg"] = drawn
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def _readme(parts: Sequence[Part], sittings: Sequence[Sitting], run: LastRun) -> str:
    titles = {one.seat.exercise: one.seat for one in sittings}
    rows = [
        f"| {titles[part.exercise].title} | `{part.exercise}` | {part.passed} | "
        f"`{titles[part.exercise].pytorch}` |"
        for part in parts
    ]
    lines = [
        "# My machine",
        "",
        f"{len(parts)} of {len(sittings)} parts of a PyTorch that trains are mine. It needs "
        "`labkit`, which holds the rest.",
        "",
        "```bash",
        "python -m my_machine      # trains a network on digits with them",
        "python -m pytest tests    # asks each part its exercise's questions again",
        "```",
        "",
    ]
    if run.losses.get("yours"):
        losses = run.losses["yours"]
        lines += [
            f"Its last run: loss {losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} steps; "
            f"{run.percent} of the calls went through my code.",
            "",
            "![loss curve](loss_curve.svg)",
            "",
        ]
    return "\n".join(
        [*lines, "| part | exercise | passed | in PyTorch |", "|---|---|---|---|", *rows, ""]
    )
