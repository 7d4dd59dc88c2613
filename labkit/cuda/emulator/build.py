"""Turn a .cu file, or the worker itself, into a file this machine can run; cached by content."""

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.core import compile_cache, cpu_time, host_compiler
from labkit.cuda import own_arrays
from labkit.cuda import source as cuda_source
from labkit.cuda.emulator import diagnose
from labkit.cuda.errors import CudaError
from labkit.cuda.ptx import translate as ptx
from labkit.cuda.source import KERNELS

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"

DYNAMIC_SHARED_LIMIT = 227 * 1024
ON_ARM = platform.machine() == "aarch64"
NATIVE = "-mcpu=native" if ON_ARM else "-march=native"
"""The processor's own instructions; clang for arm64 knows them by one of the names only."""
COMMON_FLAGS = (
    "-std=c++20",
    "-x", "c++",
    "-fPIC", "-shared",
    "-g1", "-gdwarf-4",  # addr2line names the wrong file for DWARF 5 with #line
    NATIVE,
    "-fsigned-char",  # as beside a GPU; a compiler for arm64 would take char for unsigned
    "-ffp-contract=off",  # the same bits from every compiler and every build
    "-fno-math-errno",
    "-fno-strict-aliasing",  # device code reinterprets float* as float4* freely
    "-fno-gnu-unique",  # else two builds of one file share one __shared__ array
    "-fno-extern-tls-init",
    "-fno-exceptions", "-fno-rtti",
    "-fno-stack-protector",
    "-fstack-clash-protection",  # a frame larger than a stack's guard must not step over it
    "-Wno-unknown-pragmas", "-Wno-attributes",
    "-fdiagnostics-color=never", "-fmax-errors=20",
    "-ftrack-macro-expansion=0",  # an error in a shim's macro is reported where the learner used it
)  # fmt: skip
ASK_DIVISORS = "-fsanitize=integer-divide-by-zero"
FAST_FLAGS = ("-O2", ASK_DIVISORS) if ON_ARM else ("-O2",)
"""x86-64 faults at a division by zero; arm64 goes on with 0, so there the compiler asks first."""
FROM_THE_HEAP = "-Wl," + ",".join(
    f"--wrap={name}"
    for name in ("malloc", "free", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm")
)
"""malloc, free, new and delete of a module are runtime/heap.cpp's."""
TRACE_FLAGS = (
    "-O1",
    "-DCUEMU_TRACE=1",
    "-fsanitize=thread",  # for its calls alone: the link leaves its runtime out
    "-fsanitize-coverage=trace-pc",
    "-fno-tree-vectorize",
    "-fno-reorder-blocks",  # lowest address first must be a topological order
    "-fno-thread-jumps",  # it may copy a barrier into both arms of a condition asked twice
    "-fno-store-merging",
    "-fno-ipa-icf", "-fno-ipa-sra",
    "-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset",  # calls are watched
    "-fsanitize=shift-exponent", "-fsanitize=bounds", ASK_DIVISORS,
)  # fmt: skip
CLANG_ONLY = {
    "-fno-extern-tls-init": None, "-fno-gnu-unique": None, "-fno-store-merging": None,
    "-fno-ipa-icf": None, "-fno-ipa-sra": None, "-fno-reorder-blocks": None,
    "-ftrack-macro-expansion=0": None, "-fno-thread-jumps": None,
    "-fmax-errors=20": "-ferror-limit=20", "-fno-tree-vectorize": "-fno-vectorize",
    "-fsanitize=bounds": "-fsanitize=array-bounds",
    "-fsanitize-coverage=trace-pc": "-fsanitize-coverage=trace-pc,no-prune",
}  # fmt: skip
"""What clang calls these, None where it has no such thing or never does it."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler on this machine."""

    path: str
    version: str

    @property
    def is_clang(self) -> bool:
        """Clang takes other flags than g++."""
        return "clang" in self.version

    def flags(self, given: Sequence[str]) -> list[str]:
        """The flags in this compiler's own words."""
        if not self.is_clang:
            return list(given)
        translated = (CLANG_ONLY.get(flag, flag) for flag in given)
        extra = ["-Wno-everything"]
        if "-fsanitize=thread" in given:
            extra += ["-mllvm", "-tsan-instrument-read-before-write"]
            extra += ["-mllvm", "-tsan-instrument-atomics=0"]  # cuemu/atomics.h tells of them
        return [flag for flag in translated if flag] + extra


def find_compiler() -> Compiler:
    """The C++ compiler of this machine.

    Raises   CompilerMissing   there is none
    """
    return _compiler_at(host_compiler.compiler("c++"))


@functools.cache
def _compiler_at(path: str) -> Compiler:
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return Compiler(path, told.stdout.splitlines()[0] if told.stdout else path)


@functools.cache
def tree_hash(directory: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(directory).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


PLAIN_CALLS = "-U_FORTIFY_SOURCE"


def run_compiler(compiler: Compiler, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """One call of the compiler, in English.

    Ubuntu's g++ and others turn printf and memcpy into checked twins unless told not to; the
    emulator puts its own in place of the plain ones.
    """
    return subprocess.run(
        [compiler.path, PLAIN_CALLS, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip


def require_linux() -> None:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise CudaError(
            f"the emulator runs on Linux, x86-64 or aarch64; this is {sys.platform} on "
            f"{platform.machine()} (on other systems, run the lab in a Linux container)",
            "cudaErrorNoDevice",
        )


def worker_program() -> Path:
    """The emulator's worker, compiled once per change of its sources (some seconds)."""
    require_linux()
    compiler = find_compiler()
    flags = ["-std=c++20", "-O2", "-g1", NATIVE, "-fsigned-char", "-fno-stack-protector"]
    agreed = (INCLUDE / "cuemu" / "abi.h").read_text(encoding="utf-8")
    key = [*flags, tree_hash(RUNTIME), agreed, compiler.version]
    with cpu_time.uncounted():  # whoever happens to need it first, or waits for who does
        return compile_cache.kept(
            "emulator-worker", key, lambda target: _build_worker(compiler, flags, target), suffix=""
        )


def _build_worker(compiler: Compiler, flags: Sequence[str], target: Path) -> None:
    """One unit of all files: a watched access crosses four of them, and headers are read once."""
    print("labkit: building the CUDA emulator, once ...", file=sys.stderr, flush=True)
    unit = target.with_name("worker.cpp")
    files = sorted(RUNTIME.glob("*.cpp"))
    unit.write_text("".join(f'#include "{file}"\n' for file in files), encoding="utf-8")
    assembly = map(str, sorted(RUNTIME.glob("*.S")))
    build = [*flags, "-rdynamic", "-pthread", str(unit), *assembly, "-o", str(target), "-ldl"]
    result = run_compiler(compiler, build)
    if result.returncode:
        raise CudaError(f"the emulator does not compile with {compiler.version}:\n{result.stderr}")


def compile_cuda(
    code: str,
    path: str,
    name_expressions: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    trace: bool = False,
) -> Path:
    """A shared object of `code`, whose lines are reported as lines of `path`.

    Raises   CompileError              the compiler refused it
             UnsupportedFeatureError   it uses something the emulator does not do
             CompilerMissing           there is no C++ compiler
    """
    require_linux()
    compiler = find_compiler()
    parsed = cuda_source.parse(code)
    diagnose.refuse_before_compiling(parsed, path)
    directories = [Path(path).parent, KERNELS] if path and Path(path).exists() else [KERNELS]
    included = cuda_source.included_files(code, directories)
    usual = compiler.flags([*COMMON_FLAGS, *(TRACE_FLAGS if trace else FAST_FLAGS)])
    flags = [*usual, *diagnose.host_options(options)]
    names = list(name_expressions) or parsed.extern_c_kernels
    text = _translation_unit(code, path, names, parsed.dynamic_shared_names, compiler, trace)
    key = [text, *flags, compiler.path, compiler.version, tree_hash(INCLUDE)]
    # The line table names these folders, and a frame of the shims is told by its folder: another
    # checkout's build would blame lines of the shims.
    key += [str(INCLUDE), str(KERNELS), FROM_THE_HEAP]
    key += [file.read_text(encoding="utf-8") for file in included]

    def make(target: Path) -> None:
        unit = target.with_name("unit.cpp")
        unit.write_text(text, encoding="utf-8")
        search = [f"-iquote{directory}" for directory in directories]
        search += [*precompiled(compiler, usual, target.parent), f"-I{INCLUDE}"]
        result = _compile_unit(compiler, [*flags, "-include", "cuemu.h", *search], unit, target)
        if result.returncode:
            raise diagnose.compile_error(result.stderr, path, str(unit), names)

    return compile_cache.kept("emulator-trace" if trace else "emulator", key, make)


def precompiled(compiler: Compiler, flags: Sequence[str], folder: Path) -> list[str]:
    """Where to look for cuemu.h first, for g++ to find it read: half of what a kernel costs.

    The same bytes are compiled. Beside flags that matter to the header g++ reads it anew.

    flags    of every kernel, whatever else one asks for
    folder   of the compilation alone
    """
    if compiler.is_clang:
        return []
    flags = [flag for flag in flags if flag != "-shared"]
    key = [*flags, compiler.path, compiler.version, tree_hash(INCLUDE), str(INCLUDE)]

    def make(target: Path) -> None:
        header = target.with_name("header.h")
        header.write_text('#include "cuemu.h"\n', encoding="utf-8")
        reading = [*flags, f"-I{INCLUDE}", "-x", "c++-header", "-c", str(header)]
        result = run_compiler(compiler, [*reading, "-o", str(target)])
        if result.returncode:
            raise CudaError(f"cuemu.h does not compile with {compiler.version}:\n{result.stderr}")

    with cpu_time.uncounted():
        kept = compile_cache.kept("emulator-header", key, make, ".gch")
    (folder / "cuemu.h.gch").symlink_to(kept)
    return [f"-I{folder}"]


def _compile_unit(
    compiler: Compiler, flags: Sequence[str], unit: Path, target: Path
) -> subprocess.CompletedProcess[str]:
    """What the compiler said while it made a shared object, with no library of its own in it."""
    link = ["-nodefaultlibs", "-Wl,-Bsymbolic", FROM_THE_HEAP, "-lm", "-lc", "-lgcc"]
    if not any(flag.startswith("-fsanitize") for flag in flags):
        return run_compiler(compiler, [*flags, str(unit), "-x", "none", "-o", str(target), *link])
    # Linked without the sanitizer's runtime: the worker answers its calls.
    unit_object = target.with_name("unit.o")
    compiling = [flag for flag in flags if flag != "-shared"]
    result = run_compiler(compiler, [*compiling, "-c", str(unit), "-o", str(unit_object)])
    if result.returncode:
        return result
    return run_compiler(compiler, ["-shared", str(unit_object), "-o", str(target), *link])


def _translation_unit(
    code: str,
    path: str,
    names: Sequence[str],
    dynamic_names: Sequence[str],
    compiler: Compiler,
    trace: bool,
) -> str:
    """The learner's text, nearly untouched and line for line, then what exports its kernels."""
    code = ptx.as_cpp(cuda_source.noinline(code))
    if trace:
        code = cuda_source.stored_results(code)
    elif not compiler.is_clang:
        code = cuda_source.gcc_unroll(code)
    entries = ",\n".join(f'    CUEMU_KERNEL("{name}", {name})' for name in names)
    lines = [
        f'#line 1 "{path}"',
        code,
        own_arrays.told({path: code}) if trace else "",
        '#line 1 "labkit: kernels by name"',
        "#undef asm",
        '#include "cuemu/export.h"',
        'extern "C" {',
        f"extern const uint32_t cuemu_kernel_count = {len(names)};",
        "extern const CuemuKernel cuemu_kernels[] = {",
        entries or "    {}",
        "};",
        "}",
    ]
    lines += dynamic_shared(dynamic_names, DYNAMIC_SHARED_LIMIT)
    return "\n".join(lines) + "\n"


def dynamic_shared(names: Sequence[str], size_bytes: int) -> list[str]:
    """C++ that makes one array of all that kernels declare as `extern __shared__`."""
    array = (
        'extern "C" { __attribute__((used, aligned(128))) thread_local char '
        f"cuemu_dynamic_shared[{size_bytes}]; }}"
    )
    named = [
        f'asm(".hidden {name}\\n.globl {name}\\n.type {name}, @tls_object\\n'
        f'.set {name}, cuemu_dynamic_shared\\n");'
        for name in names
    ]
    return [array, *named] if names else []
