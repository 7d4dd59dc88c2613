"""Find an environment that satisfies pyproject.toml, or make one in .venv."""

import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from labkit.launcher import leftovers, requirements
from labkit.launcher.environment import Environment, in_venv, is_activated, python_version
from labkit.launcher.gpu import has_gpu
from labkit.launcher.installer import CONSTRAINTS, TORCH, choose_installer
from labkit.launcher.lock import only_one
from labkit.launcher.problem import DISK_FULL, FREE_SPACE, Problem, disks, quoted

SPACE_NEEDED_BYTES = 2_000_000_000  # 1.7 GB stay; wheels pass through the temporary folder
SPACE_NEEDED_WITH_CUDA_BYTES = 8_000_000_000  # 5.2 GB stay, 2.7 GB are fetched
STAMP = "lab-is-ready"  # in .venv, written last: without it a set-up was killed half way
OURS = "made-by-lab"  # in .venv, written first: what lab.py made, lab.py may throw away


def ready(root: Path, extras: tuple[str, ...], say: Callable[[str], None] = print) -> Environment:
    """An environment with everything pyproject.toml asks for; made or completed where needed.

    root    the folder of pyproject.toml
    extras  the optional dependencies that are needed as well

    Raises   Problem   something only the user can mend: no network, full disk, a foreign .venv
    """
    venv = root / ".venv"
    if not in_venv(venv) and (is_activated() or not venv.exists()):
        lacking = requirements.unmet(root, extras)
        if not lacking:
            say(f"Using the Python you are in: {sys.executable}")
            return Environment(root, Path(sys.executable))
        if is_activated():
            say(f"{sys.prefix}, which you are in, lacks {len(lacking)} things the lab needs,")
            say("so the lab uses its own environment, in .venv. The first of them:")
            for line in lacking[:5]:
                say(f"  {line}")
    environment = Environment(root, venv / "bin" / "python")
    if is_complete(environment, extras):
        return environment
    with only_one(root, say):
        if not is_complete(environment, extras):  # whoever held the lock may have done it
            complete(environment, extras, say)
    return environment


def repair(root: Path, extras: tuple[str, ...], say: Callable[[str], None] = print) -> Environment:
    """`.venv` is as a set-up leaves it: every file of every package was compared with its record.

    Raises   Problem   something only the user can mend
    """
    venv = root / ".venv"
    if is_activated() and not in_venv(venv):
        raise Problem(
            f"lab.py repairs its own environment, .venv, and you are in {sys.prefix}.",
            "leave it (deactivate), or mend it with the tool that made it.",
        )
    environment = Environment(root, venv / "bin" / "python")
    with only_one(root, say):
        say("Comparing every file in .venv with what was installed ...")
        (venv / STAMP).unlink(missing_ok=True)
        complete(environment, extras, say, thoroughly=True)
    trial = subprocess.run(
        [environment.python, "-c", "import labkit, torch"],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if trial.returncode:
        reason = trial.stderr.strip().rpartition("\n")[2] or f"exit status {trial.returncode}"
        raise Problem(
            f"Every file is as it was installed, and torch still cannot be imported:\n  {reason}",
            f"make the environment anew: rm -rf {quoted(venv)}, then run lab.py setup.",
        )
    return environment


def is_complete(environment: Environment, extras: tuple[str, ...]) -> bool:
    """True when a set-up for this lab and Python came to its end, and nothing has gone since."""
    venv = environment.root / ".venv"
    version = python_version(environment.python)
    if version is None or not (venv / STAMP).is_file():
        return False
    mark, *names = (venv / STAMP).read_text(encoding="utf-8").split()
    return mark == fingerprint(
        environment.root, version, extras
    ) and not leftovers.missing_or_broken(venv, set(names))


def complete(
    environment: Environment,
    extras: tuple[str, ...],
    say: Callable[[str], None],
    thoroughly: bool = False,
) -> None:
    """`.venv` has everything, and the stamp that says so.

    thoroughly  what is installed is compared with its record by content, and not by size alone
    """
    root, venv = environment.root, environment.root / ".venv"
    started = time.monotonic()
    if (venv / STAMP).is_file():
        say(reason_to_complete(venv))
        (venv / STAMP).unlink()
    make_venv(root, venv, python_version(environment.python), say)
    leftovers.forget_half_installed(venv, say, thoroughly)
    install(environment, extras, say)
    mark = fingerprint(root, python_version(environment.python) or "", extras)
    stamp = [mark, *sorted(leftovers.package_names(venv))]
    (venv / STAMP).write_text("\n".join(stamp), encoding="utf-8")
    say(f"Ready after {time.monotonic() - started:.0f} s.")


def reason_to_complete(venv: Path) -> str:
    """Why an environment that was complete no longer is, in words for the user."""
    names = (venv / STAMP).read_text(encoding="utf-8").split()[1:]
    broken = leftovers.missing_or_broken(venv, set(names))
    if broken:
        return f"Gone from .venv, or damaged: {', '.join(broken)}. Putting it right."
    return "pyproject.toml, Python or this folder has changed: bringing .venv up to date."


def fingerprint(root: Path, version: str, extras: tuple[str, ...]) -> str:
    """Changes when the environment must: with what is to be in it, Python or the folder."""
    parts = [(root / name).read_bytes() for name in ("pyproject.toml", CONSTRAINTS)]
    parts += [TORCH.encode(), version.encode()]
    parts += [str(root.resolve()).encode(), ",".join(extras).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def make_venv(root: Path, venv: Path, version: str | None, say: Callable[[str], None]) -> None:
    """`.venv` holds an interpreter that runs; a broken one that lab.py made is made again."""
    if venv.exists() and not venv.is_dir():
        raise Problem(
            f"{venv} is a file; the lab keeps its environment there.", f"rm {quoted(venv)}"
        )
    if version is not None:
        supported = tuple(map(int, version.split(".")[:2])) in {(3, 11), (3, 12), (3, 13)}
        if supported:
            return
    if venv.exists():
        trouble = f"has Python {version}" if version else "has no Python that runs"
        if not (venv / OURS).is_file():
            raise Problem(
                f"{venv} {trouble}, and lab.py did not make it.",
                f"remove it (rm -rf {quoted(venv)}), then run the same command again.",
            )
        say(f"{venv} {trouble}: making it again.")
        shutil.rmtree(venv)
    free = shutil.disk_usage(root).free
    needed = SPACE_NEEDED_WITH_CUDA_BYTES if has_gpu() else SPACE_NEEDED_BYTES
    if free < needed:
        raise Problem(
            f"The disk is too full: the environment needs {needed / 1e9:.1f} GB.\n" + disks(root),
            FREE_SPACE,
        )
    say(f"Making an environment in .venv with Python {sys.version.split()[0]} (about 10 s) ...")
    try:
        venv.mkdir()
        (venv / OURS).touch()
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", venv],
            check=True,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        output = f"{error}\n{error.stdout}\n{error.stderr}"
        if DISK_FULL.search(output):
            raise Problem(f"The disk is full.\n{disks(root)}", FREE_SPACE) from None
        raise Problem(
            f"{sys.executable} cannot make a virtual environment: {output.strip()}",
            "use a Python with the venv module (on Debian and Ubuntu: apt install python3-venv).",
        ) from None


def install(environment: Environment, extras: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Everything is installed, torch first and pinned; what is there is not fetched again."""
    installer = choose_installer(environment, say)
    started = time.monotonic()
    say(f"Installing {TORCH}: the large one, 1 to 5 minutes over most connections ...")
    installer.install_torch()
    say(f"  done after {time.monotonic() - started:.0f} s")
    started = time.monotonic()
    say("Installing JupyterLab, labkit itself and the rest: about 120 packages ...")
    installer.install(["-e", f"{environment.root}[{','.join(extras)}]"], "the lab's packages")
    say(f"  done after {time.monotonic() - started:.0f} s")
