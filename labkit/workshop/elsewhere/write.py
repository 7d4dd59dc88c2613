"""The files of a room that other spawners run: Docker, systemd, Kubernetes.

Each is a template of this package with the room's settings in it; nothing is started here.
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template

from labkit.launcher.problem import Problem
from labkit.workshop.roster import NAME, TEACHER

TEMPLATES = Path(__file__).parent / "templates"
IMAGE = re.compile(r"(?P<name>[a-z0-9][a-z0-9._/:-]*):(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]*)")


@dataclass(frozen=True)
class Room:
    """What the files say of a room.

    teacher       who approves the names that sign up
    image         the course's container image, name:tag
    memory        GiB that one learner's server and kernels may hold together
    idle_minutes  until a server that nobody uses is put away
    """

    teacher: str = TEACHER
    image: str = "labkit-course:1"
    memory: float = 2.0
    idle_minutes: int = 90

    def words(self) -> dict[str, str]:
        """Each placeholder of the templates, and what stands for it.

        Raises   ValueError   a setting that no file could say
        """
        if not NAME.fullmatch(self.teacher):
            raise ValueError(f"teacher {self.teacher!r}: a name is {NAME.pattern}")
        if not (image := IMAGE.fullmatch(self.image)):
            raise ValueError(f"image {self.image!r}: it is name:tag, the name in lower case")
        if self.memory < 1 or self.idle_minutes < 1:
            raise ValueError(
                f"{self.memory:g} GiB, {self.idle_minutes} minutes: both are 1 or more"
            )
        return {
            **{key: str(value) for key, value in asdict(self).items()},
            "image_name": image["name"],
            "image_tag": image["tag"],
            "memory_mib": str(round(self.memory * 1024)),
            "idle_seconds": str(self.idle_minutes * 60),
        }


def write(out: Path, room: Room) -> list[Path]:
    """The files lie in `out`, README.md the first to read.

    Raises   Problem      `out` holds something
             ValueError   a setting that no file could say
    """
    words = room.words()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Problem(f"{out} holds something already.", "name a new folder.")
    written = []
    for source in sorted(path for path in TEMPLATES.rglob("*") if path.is_file()):
        target = out / str(source.relative_to(TEMPLATES)).removesuffix(".template")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_Filled(source.read_text(encoding="utf-8")).substitute(words))
        target.chmod(source.stat().st_mode & 0o777)
        written.append(target)
    return written


class _Filled(Template):
    """Placeholders are @{word}: shells and YAML have `$` for their own."""

    delimiter = "@"
    idpattern = "[a-z_]+"
