"""A program compiled three times, as nvcc has passes: for the host, the device, to be watched."""

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from labkit.core import compile_cache
from labkit.cuda import own_arrays
from labkit.cuda import source as cuda_source
from labkit.cuda.emulator import build, diagnose
from labkit.cuda.emulator.build import INCLUDE, Compiler
from labkit.cuda.errors import CompileError, InvalidValueError
from labkit.cuda.programs import launches, symbols
from labkit.cuda.programs.includes import SourceFile, read_files
from labkit.cuda.ptx import translate as ptx
from labkit.cuda.source import KERNELS, KernelText

HOST = Path(__file__).parent / "host"
Pass = Literal["host", "fast", "trace"]
_NOT_HERE = ("-std=c++20", "-shared", "-fno-exceptions", "-fno-rtti", "-fmax-errors=20")
_OWN_FLAGS = (
    "-DCUEMU_PROGRAM=1", "-fmax-errors=8", "-w",
    "-fno-ipa-icf",  # two kernels of one text are two kernels
    "-pthread",
)  # fmt: skip
_PASS_FLAGS: dict[Pass, tuple[str, ...]] = {
    "host": ("-O2", "-DCUEMU_HOST=1", "-fno-optimize-sibling-calls"),
    "fast": build.FAST_FLAGS,
    "trace": build.TRACE_FLAGS,
}
_DYNAMIC_BYTES = {
    "host": 16,
    "fast": build.DYNAMIC_SHARED_LIMIT,
    "trace": build.DYNAMIC_SHARED_LIMIT,
}
_HOST_ONLY = (".cpp", ".cc", ".cxx", ".c")
"""Files whose `asm` is the host's."""
_ELSEWHERE = {"cuemu_state", "threadIdx", "blockIdx", "blockDim", "gridDim"}


@dataclass(frozen=True)
class Program:
    """The sources of a program, read but not compiled.

    sources   .cu, .cpp and .c files
    options   -D, -U, -I, -std=, -l, -L, -O and -Xcompiler= as nvcc takes them
    text      of the first source, which is then no file
    """

    sources: tuple[Path, ...]
    options: tuple[str, ...] = ()
    text: str | None = None
    files: tuple[SourceFile, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.sources:
            raise InvalidValueError("a program has at least one source file")
        object.__setattr__(
            self, "files", read_files(self.sources, self.include_directories, self.text)
        )

    @property
    def include_directories(self) -> list[Path]:
        """What -I names, in order."""
        return [Path(option[2:]) for option in self.options if option.startswith("-I")]

    @property
    def kernels(self) -> list[KernelText]:
        """Every kernel of every file."""
        return [kernel for file in self.files for kernel in cuda_source.parse(file.text).kernels]

    def text_of(self, name: str) -> str:
        """A file's text, by the name that the compiler reports."""
        for file in self.files:
            if file.name == name:
                return file.text
        return ""

    def named(self, reported: str) -> str:
        """The name as given of a file whose path the compiler may have made absolute."""
        for file in self.files:
            if reported == file.name or reported.endswith("/" + file.name):
                return file.name
        return reported

    def build(self, which: Pass) -> Path:
        """The compiled program: an executable for the host, a module for the device.

        Raises   CompileError              the compiler refused it
                 UnsupportedFeatureError   it uses something the emulator does not do
        """
        compiler, flags, texts = self._prepared(which)
        key = [*texts, *(file.name for file in self.files), *flags, *self._libraries()]
        key += [compiler.path, compiler.version, build.tree_hash(INCLUDE), build.tree_hash(HOST)]
        key += [str(INCLUDE), build.FROM_THE_HEAP, *self.surroundings()]

        def make(target: Path) -> None:
            _Making(self, which, compiler, flags, texts, target).run()

        return compile_cache.kept(f"program-{which}", key, make, "" if which == "host" else ".so")

    def check(self) -> None:
        """Host and device pass accept every file; nothing is linked, so it needs no main().

        Raises   CompileError, UnsupportedFeatureError   as `build`
        """
        for which in ("host", "fast"):
            compiler, flags, texts = self._prepared(which)
            with tempfile.TemporaryDirectory() as folder:
                target = Path(folder, "checked")
                making = _Making(self, which, compiler, [*flags, "-fsyntax-only"], texts, target)
                making.compiled_all()

    def _prepared(self, which: Pass) -> tuple[Compiler, list[str], list[str]]:
        """The compiler, its flags and what each file has become for a pass."""
        build.require_linux()
        compiler = build.find_compiler()
        texts = [self._translated(file, which) for file in self.files]
        if which == "trace":
            names = [file.name for file in self.files]
            told = own_arrays.told(dict(zip(names, texts, strict=True)))
            texts = [
                text + told if file.is_source else text
                for file, text in zip(self.files, texts, strict=True)
            ]
        flags = self._usual(compiler, which)
        flags += [f for f in self.options if f.startswith(("-D", "-U", "-I"))]
        flags += [*self.ahead(which), *(self.of_host() if which == "host" else [])]
        return compiler, flags, texts

    def _usual(self, compiler: Compiler, which: Pass) -> list[str]:
        """The flags of any program in that version of the language."""
        flags = [flag for flag in build.COMMON_FLAGS if flag not in _NOT_HERE]
        return compiler.flags([*flags, *_OWN_FLAGS, *_PASS_FLAGS[which]]) + self._standard()

    def for_c(self) -> list[str]:
        """Flags for a file in C, which knows nothing of CUDA: nvcc hands it to a C compiler."""
        chosen = [option for option in self.options if option.startswith(("-D", "-U", "-I"))]
        return ["-x", "c", "-O2", "-g1", "-fPIC", "-pthread", "-w", *chosen, *self.of_host()]

    def of_host(self) -> list[str]:
        """What -Xcompiler hands to the host's compiler, and to its linker."""
        head = "-Xcompiler="
        given = [option.removeprefix(head) for option in self.options if option.startswith(head)]
        return [one for words in given for one in words.split(",")]

    def ahead(self, which: Pass) -> Sequence[str]:
        """Flags for headers that stand before every file, and for where they are."""
        return ("-includecuemu.h",)

    def read_before(self, compiler: Compiler, which: Pass, folder: Path) -> list[str]:
        """Where the first of these headers is looked for first, read already."""
        return build.precompiled(compiler, self._usual(compiler, which), folder)

    def surroundings(self) -> Sequence[str]:
        """What else a build of it depends on, besides its text and the emulator."""
        return ()

    def linking(self, which: Pass, compiler: Compiler) -> list[str]:
        """How the linker makes a program of its objects, or a module."""
        if which == "host":
            return ["-pie", str(runtime(compiler))]
        return ["-shared", "-Wl,-Bsymbolic", build.FROM_THE_HEAP]

    def build_all(self, passes: Sequence[Pass]) -> list[Path]:
        """Several builds, at once where there are processors for it."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(self.build, passes))

    def _standard(self) -> list[str]:
        chosen = [option for option in self.options if option.startswith("-std=")]
        return [option.replace("=c++", "=gnu++") for option in chosen] or ["-std=gnu++17"]

    def _libraries(self) -> list[str]:
        return [option for option in self.options if option.startswith(("-l", "-L"))]

    def _translated(self, file: SourceFile, which: Pass) -> str:
        text = cuda_source.alignas_first(cuda_source.noinline(file.text))
        text = launches.as_calls(text, self.kernels, file.name)
        text = ptx.as_cpp(text) if file.path.suffix not in _HOST_ONLY else text
        if which == "host":
            return launches.without_bodies(text)
        if which == "trace":
            return cuda_source.stored_results(text)
        return cuda_source.gcc_unroll(text)


@dataclass(frozen=True)
class _Making:
    """One build under way, in the private folder of its target."""

    program: Program
    which: Pass
    compiler: Compiler
    flags: list[str]
    texts: list[str]
    target: Path

    def run(self) -> None:
        objects = self.compiled_all()
        objects.append(self.tail(objects))
        self.linked(objects)

    def compiled_all(self) -> list[Path]:
        """An object of each source file that this pass compiles."""
        folder = self.target.parent
        places = {
            file.path: folder / f"file{i}{file.path.suffix}"
            for i, file in enumerate(self.program.files)
        }
        for file, text in zip(self.program.files, self.texts, strict=True):
            body = file.with_includes(text, places)
            places[file.path].write_text(f'#line 1 "{file.name}"\n{body}', encoding="utf-8")
        units = [
            (file, places[file.path])
            for file in self.program.files
            if file.is_source and (self.which == "host" or not file.is_c)
        ]
        ahead = self.program.read_before(self.compiler, self.which, folder)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(lambda unit: self.compiled(ahead, *unit), units))

    def compiled(self, ahead: Sequence[str], file: SourceFile, place: Path) -> Path:
        target = place.with_suffix(".o")
        search = [f"-iquote{file.path.parent}", f"-iquote{KERNELS}", *ahead, f"-I{INCLUDE}"]
        flags = self.program.for_c() if file.is_c else self.flags
        arguments = [*flags, *search, "-c", str(place), "-o", str(target)]
        told = build.run_compiler(self.compiler, arguments)
        if told.returncode:
            raise diagnose.compile_error(told.stderr, file.name, str(place), [])
        return target

    def tail(self, objects: Sequence[Path]) -> Path:
        """What stands once in a module: its anchor, and one dynamic shared array of many names."""
        names = {name for one in objects for name in symbols.undefined_thread_locals(one)}
        names -= _ELSEWHERE
        lines = (
            ['#include "cuemu/abi.h"', '#include "cuemu/anchor.h"'] if self.which != "host" else []
        )
        lines += build.dynamic_shared(sorted(names), _DYNAMIC_BYTES[self.which])
        place, target = self.target.with_name("tail.cpp"), self.target.with_name("tail.o")
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")
        flags = [
            "-x",
            "c++",
            "-std=gnu++17",
            "-fPIC",
            "-O1",
            f"-I{INCLUDE}",
            "-fno-extern-tls-init",
        ]
        told = build.run_compiler(self.compiler, [*flags, "-c", str(place), "-o", str(target)])
        if told.returncode:
            raise CompileError(f"the end of a module does not compile:\n{told.stderr}")
        return target

    def linked(self, objects: Sequence[Path]) -> None:
        libraries = [*self.program._libraries(), "-lm", "-pthread", "-ldl"]
        how = self.program.linking(self.which, self.compiler)
        if self.which == "host":
            libraries += self.program.of_host()
        arguments = [*map(str, objects), *how, "-o", str(self.target), *libraries]
        told = build.run_compiler(self.compiler, arguments)
        if told.returncode:
            names = ", ".join(file.name for file in self.program.files if file.is_source)
            raise CompileError(f"{names} does not link:\n{_readable(told.stderr)}")


def _readable(stderr: str) -> str:
    kept = [
        line for line in stderr.splitlines() if "undefined reference" in line or "multiple" in line
    ]
    short = [line.rsplit("): ", 1)[-1].rsplit(": ", 1)[-1] for line in kept]
    return "\n".join(dict.fromkeys(short)) or stderr


def runtime(compiler: Compiler, wire: Path = HOST / "ask.cpp") -> Path:
    """The runtime API's end in a program, compiled once per change of its sources.

    wire   how it asks labkit: through a socket, or another way
    """
    flags = ["-std=gnu++17", "-O2", "-g1", "-fPIC"]
    key = [*flags, build.tree_hash(HOST), build.tree_hash(INCLUDE / "cuemu"), compiler.version]
    key += [str(wire), wire.read_text(encoding="utf-8")]

    def make(target: Path) -> None:
        objects = []
        for file in (wire, *sorted(set(HOST.glob("*.cpp")) - {HOST / "ask.cpp"})):
            objects.append(str(target.with_name(file.stem + ".o")))
            told = build.run_compiler(compiler, [*flags, "-c", str(file), "-o", objects[-1]])
            if told.returncode:
                raise CompileError(f"labkit's host runtime does not compile:\n{told.stderr}")
        told = build.run_compiler(compiler, ["-r", "-nostdlib", *objects, "-o", str(target)])
        if told.returncode:
            raise CompileError(f"labkit's host runtime does not link:\n{told.stderr}")

    return compile_cache.kept("program-runtime", key, make, ".o")
