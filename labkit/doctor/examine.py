"""Look at each part of this machine in turn; nothing here may raise because a part is bad."""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from labkit.core import compile_cache, host_compiler
from labkit.doctor import tools
from labkit.doctor.report import Finding, Report
from labkit.launcher import requirements

ROOT = Path(__file__).parents[2]
GB = 1e9
TORCH_FACTS = """
import json, torch
print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.is_available()]))
"""
CUPY_FACTS = """
import json, cupy
print(json.dumps([cupy.__version__, cupy.cuda.runtime.getDeviceCount()]))
"""


def report() -> Report:
    """Everything the lab can use on this machine. Takes about as long as importing torch."""
    examinations = (
        python, packages, torch, gpu, cupy, compiler, cache, nvrtc, video, counters, chromium,
        memory, disk, strangers,
    )  # fmt: skip
    with ThreadPoolExecutor(len(examinations)) as pool:  # each waits for a process of its own
        found = {finding.part: finding for finding in pool.map(lambda look: look(), examinations)}
    driver = serving(found)
    return Report((*found.values(), device(driver, found), lab_device(driver, found)), driver)


def serving(found: dict[str, Finding]) -> str | None:
    """Which driver serves device="cuda": the card through CuPy, else the emulator, else nothing.

    The rule of `labkit.cuda`, asked of the machine and not of an import that may itself fail.
    """
    wish = os.environ.get("LABKIT_CUDA", "auto")
    if wish != "emulator" and found["CuPy"].status == "ok" and found["GPU"].status == "ok":
        return "cupy"
    emulates = EMULATES and found["C++ compiler"].status == "ok"
    return "emulator" if wish != "gpu" and emulates else None


EMULATES = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


def device(driver: str | None, found: dict[str, Finding]) -> Finding:
    """What device="cuda" means here."""
    part = 'device="cuda"'
    if driver == "cupy":
        return Finding(part, "ok", f"cupy: {found['GPU'].found}", "Kernels run on the real card.")
    if driver == "emulator":
        meaning = (
            "Every kernel runs, on the host. Its values and its counters may be believed, its "
            "seconds say nothing about a GPU."
        )
        return Finding(part, "ok", f"emulator: {found['C++ compiler'].found}", meaning)
    meaning = "The lab opens, but cells that launch a kernel stop and say what to install."
    if os.environ.get("LABKIT_CUDA") == "gpu":
        remedy = "unset LABKIT_CUDA, which asks for a GPU and nothing else"
    elif not EMULATES:
        remedy = "run the lab in a Linux container, x86-64 or arm64: the emulator needs one"
    else:
        remedy = found["C++ compiler"].remedy
    return Finding(part, "missing", "no driver", meaning, remedy)


def lab_device(driver: str | None, found: dict[str, Finding]) -> Finding:
    """Whether PyTorch itself can run on labkit's device."""
    part, torch_found, compiler_found = 'device="lab"', found["PyTorch"], found["C++ compiler"]
    cost = "import labkit.torch_device fails: PyTorch's own tensors cannot be on labkit's device."
    on_the_host = 'The host computes every operator of device="lab"; it has no streams or events.'
    for needed, meaning in ((torch_found, cost), (compiler_found, on_the_host)):
        if needed.status != "ok":
            return Finding(part, "missing", f"no {needed.part}", meaning, needed.remedy)
    if driver is None:
        return Finding(part, "missing", "no driver", cost, found["C++ compiler"].remedy)
    meaning = (
        "PyTorch itself on labkit's device, after import labkit.torch_device. Its shim is compiled "
        "at the first import, for this very PyTorch."
    )
    return Finding(part, "ok", f"{driver}, under PyTorch {torch_found.found}", meaning)


def python() -> Finding:
    """The interpreter."""
    found = f"{platform.python_version()} ({sys.executable})"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("Python", "ok", found, "Runs labkit.", required=True)
    meaning = "labkit is written for Python 3.11, 3.12 and 3.13."
    return Finding("Python", "broken", found, meaning, "run lab.py with one of those", True)


def packages() -> Finding:
    """Everything pyproject.toml asks for, and what it asks for in turn."""
    part = "packages"
    if not (ROOT / "pyproject.toml").is_file():
        return Finding(part, "not needed", "installed as a wheel", "Its installer has seen to it.")
    lacking = requirements.unmet(ROOT, ())
    names = ("labkit", "jupyterlab", "ipywidgets", "anywidget", "numpy")
    versions = ", ".join(f"{name} {tools.version_of(name) or '-'}" for name in names)
    if not lacking:
        _, trouble = ask(IMPORTS)
        if trouble:
            return Finding(part, "broken", trouble, COST_OF_PACKAGES, REPAIR, True)
        return Finding(part, "ok", versions, "JupyterLab, widgets and notebooks.", required=True)
    return Finding(part, "missing", "; ".join(lacking), COST_OF_PACKAGES, SET_UP, True)


IMPORTS = """
import anywidget, ipykernel, ipywidgets, jupyterlab, matplotlib, nbformat, numpy, yaml
import zmq, tornado.speedups, matplotlib.ft2font, matplotlib.pyplot  # what is compiled in them
print("true")
"""
COST_OF_PACKAGES = "Notebooks or widgets may fail to open or to run."
SET_UP = "python3 lab.py setup"
REPAIR = "python3 lab.py repair"
PATIENCE = 120
"""Seconds for an import, on a machine that does much else."""


def ask(program: str) -> tuple[Any, str]:
    """What a small program in a fresh interpreter prints as JSON, or None and why it failed.

    In a process of its own: a broken extension module can end the process that imports it.
    """
    try:
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"the import did not end in {PATIENCE} s"
    except OSError as error:
        return None, str(error)
    if result.returncode == 0:
        answer = result.stdout.strip().rpartition("\n")[2]  # whatever an import printed is above
        return json.loads(answer), ""
    if result.returncode < 0:
        return None, f"the process was ended by signal {-result.returncode}"
    return None, result.stderr.strip().rpartition("\n")[2]


def torch() -> Finding:
    """The installed PyTorch: which build, and whether it can be imported at all."""
    facts, trouble = ask(TORCH_FACTS)
    if facts is None:
        cost = "Nothing can be compared with PyTorch, and most notebooks stop at their first cell."
        version = tools.version_of("torch")
        if version is None and "No module named 'torch'" in trouble:
            return Finding("PyTorch", "missing", "not installed", cost, SET_UP, True)
        found = f"{version or 'unknown version'}, but it cannot be imported: {trouble}"
        return Finding("PyTorch", "broken", found, cost, REPAIR, True)
    version, cuda, available = facts
    build = f"built for CUDA {cuda}" if cuda else "CPU build"
    sees = ", sees a GPU" if available else ""
    meaning = "The oracle everything here is compared with."
    return Finding("PyTorch", "ok", f"{version}, {build}{sees}", meaning, required=True)


def gpu() -> Finding:
    """The NVIDIA card, its driver and its memory."""
    part = "GPU"
    fields = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    line = tools.first_line(fields)
    if line:
        name, driver, memory = (field.strip() for field in line.split(","))
        found = f"{name}, driver {driver}, {memory}"
        return Finding(part, "ok", found, "Times on this machine are times of a GPU.")
    meaning = "No time of a GPU can be measured here. Everything else works on the emulator."
    return Finding(part, "not needed", "no NVIDIA GPU (nvidia-smi lists none)", meaning)


def cupy() -> Finding:
    """CuPy, through which the card is used; of no use without one."""
    part = "CuPy"
    version = next(
        filter(None, map(tools.version_of, ("cupy-cuda13x", "cupy-cuda12x", "cupy"))), None
    )
    has_card = gpu().status == "ok"
    if not has_card:
        found = f"{version}, without a GPU" if version else "not installed"
        return Finding(part, "not needed", found, "CuPy is the way to a GPU; there is none.")
    cost = "The card lies idle: kernels run on the emulator."
    remedy = f"{shlex.quote(sys.executable)} -m pip install -e '.[gpu]'"
    if version is None:
        return Finding(part, "missing", "not installed", cost, remedy)
    facts, trouble = ask(CUPY_FACTS)
    if facts is None:
        return Finding(part, "broken", f"{version}: {trouble}", cost, remedy)
    return Finding(part, "ok", f"{facts[0]}, {facts[1]} device(s)", "Runs kernels on the card.")


def compiler() -> Finding:
    """The C++ compiler the emulator takes, $CXX or the first on PATH, and whether it builds."""
    part = "C++ compiler"
    cost = "The emulator cannot build kernels, and C++ extensions of PyTorch cannot be built."
    first, *others = host_compiler.installed("c++") or [""]
    if not first:
        found = f"none of {', '.join(host_compiler.NAMES['c++'])} is on PATH"
        return Finding(part, "missing", found, cost, HOW_TO_GET_A_COMPILER)
    trouble = tools.compiles(first)
    if trouble is None:
        found = f"{tools.first_line([first, '--version']) or 'no version'} ({first})"
        return Finding(part, "ok", found, "Builds kernels for the emulator.")
    working = next((path for path in others if tools.compiles(path) is None), None)
    remedy = f"export CXX={shlex.quote(working)}" if working else HOW_TO_GET_A_COMPILER
    return Finding(part, "broken", f"{first}: {trouble}", cost, remedy)


HOW_TO_GET_A_COMPILER = (
    "xcode-select --install"
    if sys.platform == "darwin"
    else "apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), "
    "or conda install -c conda-forge cxx-compiler"
)


def cache() -> Finding:
    """The folder of compiled files: whose it is, and whether it can be used."""
    part = "compile cache"
    try:
        folder = compile_cache.open_directory()
        if not os.access(folder, os.W_OK):
            raise compile_cache.Unusable(f"{folder} cannot be written to")
    except compile_cache.Unusable as why:
        cost = "What is compiled is forgotten when its process ends: each start costs seconds more."
        remedy = "set LABKIT_CACHE to a folder of your own"
        return Finding(part, "broken", str(why), cost, remedy)
    sizes = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process finished with it just now
            sizes.append(path.stat().st_size)
    found = f"{folder.parent}, {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
    meaning = "Kept for you alone, and checked before it is loaded. It may be deleted at any time."
    return Finding(part, "ok", found, meaning)


def nvrtc() -> Finding:
    """NVIDIA's compiler as a library, which needs no card."""
    part, found = "NVRTC", tools.find_nvrtc()
    if found:
        return Finding(part, "ok", found, "Shows the PTX and SASS of a kernel.")
    cost = "No PTX, SASS or register counts beside a kernel's source. Nothing else needs it."
    if sys.platform != "linux":
        return Finding(part, "not needed", "not made for this system", cost)
    remedy = f"{shlex.quote(sys.executable)} -m pip install -e '.[inspect]' (250 MB)"
    return Finding(part, "missing", "not installed", cost, remedy)


def video() -> Finding:
    """PyAV, which reads and writes films."""
    part = "PyAV"
    if found := tools.version_of("av"):
        return Finding(part, "ok", found, "`labkit video` and its chapters read and write films.")
    cost = "`labkit video` reads no film, and the chapters about it do not run."
    remedy = f"{shlex.quote(sys.executable)} -m pip install -e '.[video]' (36 MB)"
    return Finding(part, "missing", "not installed", cost, remedy)


def counters() -> Finding:
    """Whether the card's own counters may be read, which is NVIDIA's driver's to say."""
    part, settings = "GPU counters", Path("/proc/driver/nvidia/params")
    if not settings.is_file():
        return Finding(part, "not needed", "no NVIDIA driver", "The emulator has its own counters.")
    ncu = shutil.which("ncu")
    locked = "RmProfilingAdminOnly: 1" in settings.read_text() and os.geteuid() != 0
    if ncu and not locked:
        meaning = "The emulator's counters can be held to the card's."
        return Finding(part, "ok", f"readable, {ncu}", meaning)
    cost = "The emulator's counters cannot be held to the card's."
    if locked:
        return Finding(part, "missing", "the driver shows them to root only", cost, "run as root")
    return Finding(part, "missing", "no ncu on PATH", cost, "install NVIDIA Nsight Compute")


def chromium() -> Finding:
    """The browser the browser tests drive."""
    part, path = "Chromium", tools.find_chromium()
    if path and (version := tools.first_line([path, "--version"])):
        return Finding(part, "ok", f"{version} ({path})", "Runs the browser tests.")
    cost = "The browser tests are skipped. You can use the lab in any browser."
    remedy = "apt install chromium, or point LABKIT_CHROMIUM at one"
    if path:
        return Finding(part, "broken", f"{path} does not start", cost, remedy)
    return Finding(part, "missing", "not found", cost, remedy)


def memory() -> Finding:
    """How much memory there is; a container's limit counts, not its host's size."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        total = min(total, int(text))
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    found = f"{total / GB:.1f} GB, {cores} cores, {platform.system()} {platform.machine()}"
    if total >= 4 * GB:
        meaning = "Enough: an open notebook with torch takes 0.3 GB, JupyterLab 0.1 GB."
        return Finding("memory", "ok", found, meaning)
    cost = "The browser tests need 2 GB by themselves; keep one notebook open at a time."
    return Finding("memory", "missing", found, cost, "close other programs")


def disk() -> Finding:
    """How much can still be written beside the lab."""
    free = shutil.disk_usage(ROOT).free
    found = f"{free / GB:.1f} GB free at {ROOT}"
    if free >= 2 * GB:
        return Finding("disk", "ok", found, "Enough: the environment takes 1.7 GB.")
    cost = "Setting up needs 2 GB."
    return Finding("disk", "missing", found, cost, "free some space")


def strangers() -> Finding:
    """What a file from somebody else may do here; the same on every machine."""
    found = "notebooks opened by lab.py run no code until you run it"
    meaning = (
        "To be trusted all the same before you do it: running a cell, JupyterLab's Trust Notebook, "
        "a JupyterLab that lab.py did not start, labkit html --as-is, and labkit trace, which "
        "contains a crash and is no sandbox."
    )
    return Finding("others' files", "ok", found, meaning)
