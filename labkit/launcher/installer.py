"""pip or uv behind one face, and the way to a torch without gigabytes of CUDA.

On Linux the torch of the default index brings about 3 GB of CUDA libraries. uv can be asked
for the CPU build by name (`--torch-backend cpu`), pip cannot, so a machine without a GPU is
served by uv: the one on PATH, or one fetched into .venv (20 MB). Whoever has told pip or uv
where packages come from is taken at their word: then nothing is overridden.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from labkit.launcher.environment import Environment
from labkit.launcher.gpu import has_gpu
from labkit.launcher.problem import Problem, install_failure
from labkit.launcher.wheels import FOLDER

TORCH = "torch==2.13.0"  # pinned: an open range would take a CUDA build where a CPU one lies ready
CONSTRAINTS = "constraints.txt"  # the exact version of everything else, `lab.py lock` writes it


class Pip:
    """pip inside the environment; bootstrapped from the standard library when it is not there."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        if run_quietly([environment.python, "-m", "pip", "--version"]).returncode:
            made = run_quietly([environment.python, "-m", "ensurepip", "--default-pip"])
            if made.returncode:
                raise without_pip(made.stdout, environment.root)

    def install_torch(self) -> None:
        """The pinned torch is installed."""
        self.install([TORCH], TORCH)

    def install(self, arguments: list[str], what: str) -> None:
        """Everything `arguments` name is installed; `what` names it in an error."""
        command = [str(self.environment.python), "-m", "pip", "install", *arguments]
        command += ["--constraint", CONSTRAINTS]
        run_installer(command, what, self.environment.root, self.environment.variables)


class Uv:
    """uv from `path`; asks for torch's CPU build when `cpu_torch`."""

    def __init__(self, environment: Environment, path: Path, cpu_torch: bool) -> None:
        self.environment = environment
        self.path = path
        self.cpu_torch = cpu_torch
        self.variables = dict(environment.variables)
        if "PIP_FIND_LINKS" in os.environ:  # uv reads none of pip's settings
            self.variables.setdefault("UV_FIND_LINKS", os.environ["PIP_FIND_LINKS"])

    def install_torch(self) -> None:
        """The pinned torch is installed, its CPU build where one is wanted and can be reached."""
        if self.cpu_torch:
            try:
                self.install([TORCH, "--torch-backend", "cpu"], f"{TORCH} (CPU build)")
                return
            except Problem as problem:
                if not problem.what.startswith("No network"):
                    raise
                print("  The CPU build's own index cannot be reached from here; taking the default")
                print("  build, with about 3 GB of CUDA libraries to fetch (5 GB on disk).")
        self.install([TORCH], TORCH)

    def install(self, arguments: list[str], what: str) -> None:
        """Everything `arguments` name is installed; `what` names it in an error."""
        command = [str(self.path), "pip", "install", "--python", str(self.environment.python)]
        command += [*arguments, "--constraint", CONSTRAINTS]
        run_installer(command, what, self.environment.root, self.variables)


def choose_installer(environment: Environment, say: Callable[[str], None]) -> Pip | Uv:
    """Choose uv when it is on PATH or is the way to a CPU torch; else, and for wheels/, pip."""
    if (environment.root / FOLDER).is_dir():
        return Pip(environment)
    cpu_torch = sys.platform == "linux" and not has_gpu()
    on_path = shutil.which("uv")
    if on_path:
        own_supply = any(name in os.environ for name in SUPPLIES_OF_UV)
        return Uv(environment, Path(on_path), cpu_torch and not own_supply)
    pip = Pip(environment)
    if cpu_torch and not pip_has_own_supply(environment):
        say("Fetching uv, which knows the way to torch's CPU build ...")
        pip.install(["uv"], "uv")
        return Uv(environment, environment.python.with_name("uv"), cpu_torch)
    return pip


SUPPLIES_OF_UV = (
    "PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL", "UV_TORCH_BACKEND", "UV_OFFLINE",
)  # fmt: skip
SUPPLIES_OF_PIP = ("find-links", "index-url", "no-index")  # extra-index-url holds the second


def pip_has_own_supply(environment: Environment) -> bool:
    """True when the user has told pip, by file or variable, where packages come from."""
    if any(f"PIP_{word.replace('-', '_').upper()}" in os.environ for word in SUPPLIES_OF_PIP):
        return True
    settings = run_quietly([environment.python, "-m", "pip", "config", "list"]).stdout
    return any(word in settings for word in SUPPLIES_OF_PIP)


def run_installer(
    command: list[str], what: str, root: Path, variables: dict[str, str], stdout: int | None = None
) -> None:
    """Run an installer in sight of the user; its last words decide which Problem it was.

    Raises   Problem   it failed
    """
    last_words: deque[str] = deque(maxlen=60)
    with subprocess.Popen(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,  # progress bars are on stdout, and stay on the user's terminal
        text=True,
        errors="replace",
        env=variables,
        cwd=root,
        close_fds=False,  # the set-up lock stays taken as long as the installer lives
    ) as process:
        assert process.stderr is not None
        echo = threading.Thread(target=echo_lines, args=(process.stderr, last_words))
        echo.start()
        try:
            process.wait()
        except BaseException:
            process.terminate()
            raise
        finally:
            echo.join()
    if process.returncode:
        raise install_failure(what, "".join(last_words), root)


def echo_lines(stream: IO[str], last_words: deque[str]) -> None:
    """Every line reaches the terminal, and the last ones are kept."""
    for line in stream:
        sys.stderr.write(line)
        last_words.append(line)


def run_quietly(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """The finished command, with all it said in `stdout`."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def without_pip(output: str, root: Path) -> Problem:
    """The Problem of a Python whose standard library cannot provide pip."""
    if "No module named ensurepip" in output or "ensurepip is not available" in output:
        return Problem(
            f"{sys.executable} comes without ensurepip, so .venv gets no pip.",
            "on Debian and Ubuntu: apt install python3-venv. Or install uv, which needs no pip.",
        )
    return install_failure("pip", output, root)
