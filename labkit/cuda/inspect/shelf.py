"""What every kernel of the shelf takes of an SM: `python -m labkit.cuda.inspect.shelf`."""

import json
from pathlib import Path
from typing import Any

from labkit.cuda.inspect.compiled import Compiled
from labkit.cuda.inspect.nvrtc import compile_source
from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.rung import Rung
from labkit.cuda.source import KERNELS

RECORD = KERNELS / "resources.json"
ARCHS = ("sm_80", "sm_90", "sm_100")
FIELDS = ("registers", "shared_bytes", "stack_bytes", "spill_bytes")


def compile_rung(rung: Rung, arch: str) -> Compiled:
    """The rung's file compiled for that arch.

    Raises   CompileError, NvrtcMissingError
    """
    return compile_source(rung.path.read_text(encoding="utf-8"), arch, path=rung.path)


def resources_of(rung: Rung, arch: str) -> dict[str, dict[str, int]]:
    """Kernel -> field -> number, for every kernel of the rung's file."""
    return {
        name: {field: int(getattr(used, field)) for field in FIELDS}
        for name, used in compile_rung(rung, arch).kernels.items()
    }


def record() -> str:
    """The whole text of `kernels/resources.json`."""
    kernels: dict[str, dict[str, dict[str, int]]] = {}
    rungs = [rung for ladder in LADDERS.values() for rung in ladder]
    for rung in rungs:
        for arch in rung.archs or ARCHS:
            for name, numbers in resources_of(rung, arch).items():
                kernels.setdefault(name, {})[arch] = numbers
    lines = [
        f'  "nvrtc": {json.dumps(compile_rung(rungs[0], (rungs[0].archs or ARCHS)[0]).compiler)}'
    ]
    lines += [f"  {json.dumps(name)}: {_one_arch_a_line(by)}" for name, by in kernels.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _one_arch_a_line(archs: dict[str, Any]) -> str:
    inner = ",\n".join(f'    "{arch}": {json.dumps(numbers)}' for arch, numbers in archs.items())
    return "{\n" + inner + "\n  }"


def recorded(path: Path = RECORD) -> tuple[str, dict[str, dict[str, dict[str, int]]]]:
    """NVRTC's version and the numbers, as committed."""
    kernels = json.loads(path.read_text(encoding="utf-8"))
    return kernels.pop("nvrtc"), kernels


if __name__ == "__main__":
    RECORD.write_text(record(), encoding="utf-8")
