"""CONTRIBUTING.md says where wall time still ends something, and why."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = re.compile(
    r"\btimeout=|STANDSTILL|\bwait_limit\b|stopwatch import .*(ends|happens)|waits: float"
)


def test_every_module_with_a_limit_of_wall_time_is_named():
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    labkit = ROOT / "labkit"
    found = {
        path.relative_to(labkit).as_posix()
        for path in labkit.rglob("*.py")
        if LIMIT.search(path.read_text(encoding="utf-8"))
    }
    assert "cuda/emulator/worker.py" in found
    assert not {name for name in found if f"`{name}`" not in told}
