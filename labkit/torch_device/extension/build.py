"""An extension's two builds: a library for this process, and its kernels for the device's."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from labkit.cuda.emulator.build import Compiler, tree_hash
from labkit.cuda.programs.builds import Pass, Program, runtime

HERE = Path(__file__).parent
TORCH = Path(torch.__file__).parent
HEADERS = TORCH / "include", TORCH / "include/torch/csrc/api/include"
STANDARD = "-std=c++20"
_OF_PYTORCH = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<((?:torch|ATen|c10)/[^>\n]+)>", re.MULTILINE)


@dataclass(frozen=True)
class ExtensionProgram(Program):
    """The sources of an extension: C++ and CUDA files that register operators with PyTorch.

    Differs  from what nvcc makes of them: the host's half and the kernels are compiled apart
    """

    @cached_property
    def own_headers(self) -> list[str]:
        """What the files include of PyTorch's: it has to stand before CUDA's words."""
        found = [name for file in self.files for name in _OF_PYTORCH.findall(file.text)]
        return [name for name in dict.fromkeys(found) if not (HERE / "include" / name).exists()]

    def ahead(self, which: Pass) -> Sequence[str]:
        """PyTorch's headers, then CUDA's words, then the device's name for CUDA."""
        stand_ins = HERE / "include"
        before = [str(stand_ins / "first.h"), *self.own_headers]
        return [
            *(f"-I{folder}" for folder in (stand_ins, *HEADERS)),
            *(f"-include{name}" for name in before),
            *super().ahead(which),
            f"-include{stand_ins / 'last.h'}",
        ]

    def read_before(self, compiler: Compiler, which: Pass, folder: Path) -> list[str]:
        """Nowhere: PyTorch's headers, read, are 350 MB, and cost as much as three extensions."""
        return []

    def surroundings(self) -> Sequence[str]:
        """PyTorch's version, and the headers that stand in for CUDA's of PyTorch."""
        return (torch.__version__, str(TORCH), tree_hash(HERE / "include"))

    def linking(self, which: Pass, compiler: Compiler) -> list[str]:
        """A library either way: of this process, or of the device's, which has PyTorch's beside."""
        libraries = [
            f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'}", "-ltorch_cpu", "-lc10"
        ]  # fmt: skip
        own = [str(runtime(compiler, HERE / "ask.cpp"))] if which == "host" else []
        return ["-shared", "-Wl,-Bsymbolic", *own, *libraries]


def program(sources: Sequence[Path], options: Sequence[str]) -> ExtensionProgram:
    """The sources of an extension, read but not compiled."""
    return ExtensionProgram(tuple(sources), (STANDARD, *options))
