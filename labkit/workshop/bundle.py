"""`labkit workshop bundle`: all that a room without internet needs, in one folder.

It is a copy of the lab with a folder `wheels/`, which lab.py takes packages from, and the course as
pages. It fits the Python and the system it was made with.
"""

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from labkit.course.notebook_form import ROOT, notebook_paths
from labkit.launcher.environment import Environment
from labkit.launcher.installer import CONSTRAINTS, Pip, run_installer
from labkit.launcher.problem import Problem, quoted
from labkit.launcher.requirements import declared
from labkit.launcher.wheels import FOLDER

EXTRAS = ("test", "video", "workshop")
PAGES = "pages"


def bundle(out: Path, pages: bool, say: Callable[[str], None] = print) -> None:
    """The folder `out` sets up and starts a workshop without internet.

    pages   with the course as pages, for which every chapter is run

    Raises   Problem        this is no checkout, `out` holds something, or a package has no wheel
             RuntimeError   a chapter could not be run to its end
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Problem(f"{out} holds something already.", "name a new folder.")
    files = committed_files(ROOT)
    say(f"Copying {len(files)} files of the lab ...")
    for file in files:
        target = out / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target)
    say(f"Fetching wheels for Python {sys.version_info.major}.{sys.version_info.minor} ...")
    environment = Environment(ROOT, Path(sys.executable))
    Pip(environment)  # a set-up by uv leaves none behind
    wheels = out / FOLDER
    fetch(environment, wheels)
    size = sum(wheel.stat().st_size for wheel in wheels.iterdir()) / 1e6
    say(f"  {len(list(wheels.iterdir()))} of them, {size:.0f} MB")
    if pages:
        from labkit.workshop.site.build import build  # torch and more, which nothing else needs

        say("Running every chapter for the pages ...")
        build(out / PAGES, notebook_paths())


def committed_files(root: Path) -> list[str]:
    """The files of the checkout that git knows, without those that were deleted.

    Raises   Problem   it is no checkout
    """
    try:
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--", "."], capture_output=True, check=True
        ).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        raise Problem(
            f"{root} is no git checkout, so nothing says which files belong to the lab.",
            "run it in a clone of the repository, with git installed.",
        ) from None
    return [name for name in listed.split("\0") if name and (root / name).is_file()]


def needed(root: Path) -> list[str]:
    """What a set-up installs, and what it builds labkit with; torch as it is installed here."""
    with (root / "pyproject.toml").open("rb") as file:
        build_system: list[str] = tomllib.load(file)["build-system"]["requires"]
    torch = f"torch=={importlib.metadata.version('torch')}"
    return [torch, *declared(root, EXTRAS), *build_system, "editables"]


def fetch(environment: Environment, wheels: Path) -> None:
    """The folder has a wheel of everything that is needed, and that has been tried.

    Raises   Problem   a wheel cannot be had
    """
    requirements = needed(environment.root)
    pip = [str(environment.python), "-m", "pip"]
    chosen = [*requirements, "--constraint", CONSTRAINTS, "--only-binary", ":all:"]
    say_less = ["--quiet", "--disable-pip-version-check"]
    download = [*pip, "download", *say_less, "--only-binary", ":all:", "--dest", str(wheels)]
    others = for_other_patches(environment.root, platform.python_version())
    for command in (
        [*download, *requirements, "--constraint", CONSTRAINTS],
        *(
            [*download, "--no-deps", "--python-version", version, *pins]
            for version, pins in others.items()
        ),
        [*pip, "install", *say_less, "--dry-run", "--ignore-installed", "--no-index",
         "--find-links", str(wheels), *chosen],
    ):  # fmt: skip
        run_installer(command, "the wheels", environment.root, environment.variables)


def for_other_patches(root: Path, here: str) -> dict[str, list[str]]:
    """Oldest and newest Python of this 3.x -> what is pinned for it, and not for `here`."""
    from packaging.markers import Marker
    from packaging.requirements import Requirement

    lines = (root / CONSTRAINTS).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    marked = [(pin, pin.marker) for pin in pins if pin.marker]

    def applies(marker: Marker, version: str) -> bool:
        return marker.evaluate({"python_full_version": version})

    minor = here.rpartition(".")[0]
    found = {
        version: [
            f"{pin.name}{pin.specifier}"
            for pin, marker in marked
            if applies(marker, version) and not applies(marker, here)
        ]
        for version in (f"{minor}.0", f"{minor}.99")
    }
    return {version: names for version, names in found.items() if names}


def told(out: Path) -> list[str]:
    """What to do with the folder, in lines."""
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [
        f"Copy {quoted(out)} to the machine of the room, which has Python {minor}, too. There:",
        "  python3 lab.py setup",
        "  sudo .venv/bin/labkit workshop start --learners names.txt",
    ]
