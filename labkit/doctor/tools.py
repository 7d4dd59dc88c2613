"""Find the programs the lab can use, and see whether they work; shared with who runs them."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ON_MACOS = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
SMALL_PROGRAM = (
    "#include <vector>\nint main() { return static_cast<int>(std::vector<int>{}.size()); }"
)


def find_chromium() -> str | None:
    """Where a Chromium or Chrome is, or None; $LABKIT_CHROMIUM decides when it is set."""
    chosen = os.environ.get("LABKIT_CHROMIUM")
    candidates = [chosen] if chosen else [shutil.which(name) for name in CHROMIUM_NAMES]
    candidates += [str(path) for path in CHROMIUM_ON_MACOS if path.exists()]
    return next((path for path in candidates if path), None)


def compiles(compiler: str) -> str | None:
    """None when the compiler builds a shared object from C++20; else the line that says why not.

    Only a build tells: macOS has a `c++` that merely offers to install one, and a clang without
    the standard library's headers answers --version all the same.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "small.cpp"
        source.write_text(SMALL_PROGRAM, encoding="utf-8")
        options = [
            "-std=c++20",
            "-fPIC",
            "-shared",
            str(source),
            "-o",
            str(source.with_suffix(".so")),
        ]
        return failure([compiler, *options])


def failure(command: list[str]) -> str | None:
    """None when the command succeeds; else one line that says why it did not."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode == 0:
        return None
    lines = (result.stderr or result.stdout).strip().splitlines()
    telling = [line for line in lines if "error" in line.lower()] or lines[-1:]
    return telling[0].strip() if telling else f"exit status {result.returncode}"


def first_line(command: list[str]) -> str | None:
    """The first line a command prints, or None when it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip().partition("\n")[0] if result.returncode == 0 else None


def find_nvrtc() -> str | None:
    """NVRTC's version (of its wheel) or file (of a CUDA toolkit), or None."""
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        version = version_of(name)
        if version:
            return f"{version} ({name})"
    folders = [
        Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "lib64",
        Path(sys.prefix) / "lib",
    ]
    libraries = [path for folder in folders for path in sorted(folder.glob("libnvrtc.so.*"))]
    return str(libraries[0]) if libraries else None


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
