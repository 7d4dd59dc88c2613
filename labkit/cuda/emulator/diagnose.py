"""Compiler output in the learner's terms: their file, their line, the feature's name."""

import re
from collections.abc import Sequence

from labkit.cuda.errors import CompileError, UnsupportedFeatureError
from labkit.cuda.source import Source

UNSUPPORTED = {
    "inline_PTX": "inline PTX (asm) in a header: in the file itself it would do",
    "__activemask": "__activemask(): which lanes are together is the hardware's choice; pass a "
    "mask you computed, or 0xffffffff",
    "textures": "textures",
    "surfaces": "surfaces",
    "multi_grid": "multi-device groups",
    "thread_block_clusters": "thread block clusters",
    "dynamic_parallelism": "launching from device code (dynamic parallelism)",
    "host_API": "the host API inside a .cu file: labkit allocates, copies and launches from Python",
    "managed_memory": "managed memory (__managed__)",
    "address_space_queries": "address space queries and casts",
    "alloca": "alloca",
    "wmma_type": "a wmma fragment of this type or shape: half, bfloat16 and int8 in 16x16x16, "
    "32x8x16 and 8x32x16, tf32 in 16x16x8 and double in 8x8x4 are emulated",
}
_LIBRARIES = {
    r"nvrtc\.h": "NVRTC, compiling kernels while the program runs",
    r"cuda\w*_interop\.h|cudaEGL\.h|cudaGL\.h": "graphics interoperability",
    r"thrust/.*": "this part of thrust",
    r"cublas\w*\.h": "this part of cuBLAS; cublas_v2.h has its matrix products",
    r"cu(?:fft|sparse|solver|dnn)\w*\.h": "NVIDIA's mathematical libraries",
    r"cub/.*": "this part of cub; its block and warp collectives are there",
    r"cuda/.*|nv/.*": "this part of libcu++",
    r"mpi\.h": "MPI",
    r"nccl\.h": "NCCL",
    r"GL/.*|GLFW/.*|vulkan/.*|EGL/.*": "graphics",
}
_CALLED = {"cublas": "cuBLAS", "cufft": "cuFFT", "curand": "cuRAND"}
_LIBRARY_NAME = re.compile(
    r"^(?P<where>[^\n]*?:\d+):\d+: error: .*?'(?P<name>(?P<library>cublas|cufft|curand)\w+)'"
    r"[^\n]*(?:not declared|not name a type|not been declared)",
    re.MULTILINE | re.IGNORECASE,
)
REFUSED_CALL = "cuemu_refused_"
_REFUSED = re.compile(
    rf"^(?P<where>[^\n]*?:\d+):\d+: error: call to '[^\n]*{REFUSED_CALL}[^\n]*error: "
    r"(?P<what>[^\n]*)",
    re.MULTILINE,
)
_DRIVER_NAME = re.compile(
    r"^(?P<where>[^\n]*?:\d+):\d+: error: .*?'(?P<name>CU[a-z]\w*|cu[A-Z]\w*|CUDA_[A-Z]\w*)'"
    r"[^\n]*(?:not declared|not name a type|not been declared)",
    re.MULTILINE,
)
_RUNTIME_NAME = re.compile(
    r"^(?P<where>[^\n]*?:\d+):\d+: error: '(?:const |struct )*(?P<name>cuda[A-Z]\w*)'"
    r"[^\n]*(?:not declared|not name a type|not been declared)",
    re.MULTILINE,
)
_BEFORE = (
    (r"<<<", "dynamic_parallelism"),
    (r"\bint\s+main\s*\(", "host_API"),
)


def refuse_before_compiling(source: Source, path: str) -> None:
    """Refuse what would not even parse as C++.

    Raises   UnsupportedFeatureError   naming the feature and the line
    """
    for pattern, feature in _BEFORE:
        match = re.search(pattern, source.stripped)
        if match:
            line = source.stripped.count("\n", 0, match.start()) + 1
            raise unsupported(feature, f"{path}:{line}")


def unsupported(feature: str, where: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{where}: the emulator does not run {UNSUPPORTED.get(feature, feature)}. "
        "On a GPU the same file may use it."
    )


def _missing(stderr: str) -> UnsupportedFeatureError | None:
    """The refusal of the first CUDA library or function that the emulator has not."""
    header = re.search(
        r"^(?P<where>[^\n]*?:\d+):\d+: fatal error: (?P<name>\S+): No such", stderr, re.MULTILINE
    )
    if header:
        for pattern, feature in _LIBRARIES.items():
            if re.fullmatch(pattern, header["name"]):
                return unsupported(feature, header["where"])
    if found := _LIBRARY_NAME.search(stderr):
        library = _CALLED[found["library"].lower()]
        return unsupported(f"this part of {library} ({found['name']})", found["where"])
    if found := _REFUSED.search(stderr):
        return unsupported(found["what"].strip(), found["where"])
    if found := _DRIVER_NAME.search(stderr):
        return unsupported(f"the driver API ({found['name']})", found["where"])
    if found := _RUNTIME_NAME.search(stderr):
        return unsupported(found["name"], found["where"])
    return None


def host_options(options: Sequence[str]) -> list[str]:
    """The compiler options that mean something to a host compiler: -D, -U and -I."""
    kept = []
    for option in options:
        if re.match(r"(-D|-U|-I|--define-macro=|--undefine-macro=|--include-path=)", option):
            option = re.sub(r"^--define-macro=", "-D", option)
            option = re.sub(r"^--undefine-macro=", "-U", option)
            kept.append(re.sub(r"^--include-path=", "-I", option))
    return kept


def compile_error(stderr: str, path: str, unit: str, names: Sequence[str]) -> CompileError:
    """The error to raise for this compiler output."""
    named = re.search(
        r"^(?P<where>[^\n]*?:\d+):(?:\d+:)?[^\n]*cuemu_unsupported_(?P<feature>\w+)",
        stderr,
        re.MULTILINE,
    )
    if named:
        own = re.search(rf"^({re.escape(path)}:\d+):\d+: ", stderr, re.MULTILINE)
        return unsupported(named.group("feature"), own.group(1) if own else named.group("where"))
    if "Error: " in stderr and "Assembler messages" in stderr:
        return unsupported("inline_PTX", path)
    refused = _missing(stderr)
    if refused is not None:
        return refused
    by_name = [line for line in stderr.splitlines() if line.startswith("labkit: kernels by name")]
    errors = [
        line for line in stderr.splitlines() if re.match(r".*?:\d+:\d+: (?:fatal )?error:", line)
    ]
    if by_name and not any(not line.startswith("labkit:") for line in errors):
        return CompileError(
            f"{path}: no kernel matches the names asked for, {list(names)}; an overloaded or "
            f"namespaced kernel needs its full name expression\n{stderr.replace(unit, path)}"
        )
    return CompileError(f"{path} does not compile:\n{stderr.replace(unit, path).strip()}")
