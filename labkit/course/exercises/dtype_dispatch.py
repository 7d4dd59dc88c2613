"""One source, many dtypes: C functions made by including one list twice, and a table to call them.

The C of an answer runs in its own process, with every vector ending at a page that nobody may read.
"""

import ctypes
import re
import signal
import warnings
from typing import Any

import numpy as np
import torch

from labkit.core.host_compiler import load_library
from labkit.course import c_program
from labkit.course.exercise import Exercise, Hint, Rng, handed_out
from labkit.dispatch import dtype_switch

NOTEBOOK = "2_core_code/4_dtype_dispatch"

NAMES = {
    "Byte": ("uint8_t", np.uint8),
    "Char": ("int8_t", np.int8),
    "Short": ("int16_t", np.int16),
    "Int": ("int32_t", np.int32),
    "Long": ("int64_t", np.int64),
    "Float": ("float", np.float32),
    "Double": ("double", np.float64),
    "Bool": ("bool", np.bool_),
}
"""PyTorch's name -> (C type, NumPy's type)."""

POISON = 0xA5
CALLS = 63

MAIN = """
#include "add.h"
#include "add.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *pages[3];
static long page;

/* n bytes that end where the readable memory ends; what lies before them is poisoned */
static void *room(int which, long bytes) {
    memset(pages[which], 0xA5, page);
    return pages[which] + page - bytes;
}

static void get(void *to, size_t bytes) {
    if (bytes && fread(to, 1, bytes, stdin) != bytes) exit(2);
}

#define SERVE(Num, num) \\
    static void serve_##Num(const int64_t *n) { \\
        Num##Vector a = {room(0, n[0] * sizeof(num)), n[0]}; \\
        Num##Vector b = {room(1, n[1] * sizeof(num)), n[1]}; \\
        Num##Vector c = {room(2, n[2] * sizeof(num)), n[2]}; \\
        get(a.data, n[0] * sizeof(num)); \\
        get(b.data, n[1] * sizeof(num)); \\
        unsigned char refused = Num##Vector_add(&c, &a, &b) != 0; \\
        for (char *at = pages[2]; at < (char *)c.data; at++) refused |= (*at != (char)0xA5) << 1; \\
        (void)!write(1, &refused, 1); \\
        (void)!write(1, c.data, n[2] * sizeof(num)); \\
    }
@SERVES@

int main(void) {
    int64_t head[4];
    page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < 3; i++) {
        pages[i] = mmap(0, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages[i] == MAP_FAILED || mprotect(pages[i] + page, page, PROT_NONE)) return 3;
    }
    while (fread(head, sizeof head, 1, stdin) == 1) {
        switch (head[3]) {
            @CASES@
        }
    }
    return 0;
}
"""


@handed_out
def main_source() -> str:
    """The checker's main: it includes add.h twice, and calls the function of every dtype."""
    serves = "\n".join(f"SERVE({name}, {ctype})" for name, (ctype, _) in NAMES.items())
    cases = "\n".join(
        f"            case {number}: serve_{name}(head); break;"
        for number, name in enumerate(NAMES)
    )
    return MAIN.replace("@SERVES@", serves).replace("            @CASES@", cases)


Pair = tuple[list[Any], list[Any], int]


def _numbers(rng: Rng, name: str, length: int) -> list[Any]:
    dtype = np.dtype(NAMES[name][1])
    if dtype.kind == "b":
        return [rng.chance(0.6) for _ in range(length)]
    if dtype.kind == "f":
        numbers = [
            rng.choice((rng.uniform(-9, 9), rng.uniform(-1, 1) * 1e30)) for _ in "." * length
        ]
        return np.array(numbers, dtype).tolist()  # type: ignore[no-any-return]
    info = np.iinfo(dtype)  # type: ignore[type-var]
    low, high = int(info.min), int(info.max)
    return [
        rng.choice((rng.randint(max(low, -9), 9), rng.randint(low, high), low, high, high // 2 + 1))
        for _ in range(length)
    ]


def _vectors(rng: Rng, size: int) -> tuple[str, list[Pair]]:
    name = rng.choice(tuple(NAMES))
    pairs = []
    for _ in range(1 if size == 0 else CALLS):
        length = rng.randint(0, size)
        lengths = [length] * 3
        if rng.chance(0.25):
            lengths[rng.randint(0, 2)] = rng.randint(0, size + 1)
        pairs.append((_numbers(rng, name, lengths[0]), _numbers(rng, name, lengths[1]), lengths[2]))
    return name, pairs


def _sums(name: str, pairs: list[Pair]) -> dict[str, Any]:
    results: list[Any] = []
    for a, b, n in pairs:
        if len(a) == len(b) == n:
            dtype = NAMES[name][1]
            with np.errstate(over="ignore"):
                results.append((np.array(a, dtype) + np.array(b, dtype)).tolist())
        else:
            results.append("refused, nothing written")
    return {"dtypes not listed exactly once": [], "sums": results}


def _drive_c(answer: Any, name: str, pairs: list[Pair]) -> dict[str, Any]:
    """What the compiled functions make of the vectors, or how far they got."""
    header, source = answer()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header + "\n" + source, flags=re.DOTALL)
    listed = [each for each in NAMES if len(re.findall(rf"\b{each}(?:Vector\w*)?\b", text)) != 1]
    files = {"add.h": header, "add.c": source, "main.c": main_source()}
    try:
        program = c_program.build(files)
    except c_program.DoesNotCompile as error:
        return {"it does not compile": str(error)}
    dtype = np.dtype(NAMES[name][1])
    number = list(NAMES).index(name)
    given = b"".join(
        np.array([len(a), len(b), n, number], np.int64).tobytes()
        + np.array(a, dtype).tobytes()
        + np.array(b, dtype).tobytes()
        for a, b, n in pairs
    )
    ran = c_program.run(program, given)
    sums, at = [], 0
    for _, _, n in pairs:
        end = at + 1 + n * dtype.itemsize
        if end > len(ran.output):
            break
        sums.append(_one_sum(ran.output[at], ran.output[at + 1 : end], dtype))
        at = end
    found: dict[str, Any] = {"dtypes not listed exactly once": listed, "sums": sums}
    if ran.status:
        a, b, n = pairs[min(len(sums), len(pairs) - 1)]
        how = {-signal.SIGSEGV: "touched memory past the end of a vector"}
        how[-signal.SIGXCPU] = "does not come to an end"
        how[-signal.SIGBUS] = how[-signal.SIGSEGV]
        ended = how.get(ran.status, f"ended with status {ran.status}")
        found["crash"] = f"{name}Vector_add {ended}; lengths: a {len(a)}, b {len(b)}, c {n}"
    return found


@handed_out
def _one_sum(status: int, data: bytes, dtype: Any) -> Any:
    """One result as data: the numbers, or what happened to them."""
    if status & 2:
        return "bytes before the result were overwritten"
    if status:
        untouched = data == bytes([POISON]) * len(data)
        return "refused, nothing written" if untouched else "refused, but c was written"
    if dtype.kind == "b":
        return [{0: False, 1: True}.get(byte, f"the byte {byte}") for byte in data]
    return np.frombuffer(data, dtype).tolist()


def _fewer_calls(name: str, pairs: list[Pair]) -> Any:
    if len(pairs) > 1:
        for at in range(len(pairs)):
            yield name, [pairs[at]]
    else:
        a, b, n = pairs[0]
        if len(a) == len(b) == n > 1:
            for at in range(n):
                yield name, [([a[at]], [b[at]], 1)]


def _show_calls(name: str, pairs: list[Pair]) -> str:
    a, b, n = pairs[0]
    first = f"{name}Vector_add(c of {n}, a = {a}, b = {b})"
    return first if len(pairs) == 1 else f"{first} and {len(pairs) - 1} more calls"


def _says(*words: str) -> Any:
    return lambda evidence: any(word in f"{evidence.got}" for word in words)


def _large_long(evidence: Any) -> bool:
    name, pairs = evidence.inputs
    return name == "Long" and any(abs(x) > 1 << 53 for a, b, _ in pairs for x in (*a, *b))


generic_add = Exercise(
    id="dtype_dispatch.generic_add",
    statement=(
        "Return two C texts, (header, source): add.h and add.c. For each of Byte uint8_t, Char "
        "int8_t, Short int16_t, Int int32_t, Long int64_t, Float float, Double double, Bool bool "
        "the header declares a struct FloatVector { float *data; int64_t n; } and int "
        "FloatVector_add(FloatVector *c, const FloatVector *a, const FloatVector *b), under the "
        "dtype's own name; the source defines them all. Returns 0; unequal lengths are refused: "
        "return 1 and write nothing. Integers wrap, true + true is true. Example: "
        "FloatVector_add of {1, 2, 3} and {10, 20, 30} writes {11, 22, 33}."
    ),
    rules=(
        "each name (Byte, Char, ...) stands exactly once in the two texts, comments aside",
        "add.h may be included twice in one file",
    ),
    case=_vectors,
    expected=_sums,
    drive=_drive_c,
    smaller=_fewer_calls,
    show=_show_calls,
    cases=64,
    seconds=60.0,
    processes=True,
    minutes=25,
    difficulty=3,
    hints=(
        Hint(
            "The compiler stops: {got}. The check includes add.h twice in one file. Redefinitions "
            "and conflicting types mean that the guard is missing; an unknown type or an "
            "undefined reference means that this dtype was never made.",
            when=_says("does not compile"),
        ),
        Hint(
            "Something was touched that is not yours. Compare all three lengths first, and return "
            "1 before the loop.",
            when=_says("past the end", "overwritten"),
        ),
        Hint(
            "int64 differs above 2^53: a double has 53 bits of mantissa. Which type does your "
            "accumulator have?",
            when=_large_long,
        ),
        Hint(
            "A bool is one byte that holds 0 or 1. Who turns 1 + 1 back into 1? A conversion to "
            "bool does, one to uint8_t does not.",
            when=lambda evidence: bool(evidence.inputs) and evidence.inputs[0] == "Bool",
        ),
        "Which type does your accumulator have? Add in the dtype itself, and cast the sum back.",
        "One X-macro list, included twice: declarations and bodies. #define DTYPES(X) X(Byte, "
        "uint8_t) ...; then DTYPES(DECLARE) in the header and DTYPES(DEFINE) in the source.",
    ),
    must_fail=(
        "two dtypes only",
        "reads past the shorter input",
        "integer add through double",
        "wraps bool wrongly",
        "missing guard",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "returns the literal answer of the example in the statement",
        "remembers the answer of the first random case and returns it for all later cases",
    ),
)


# --- dtype_table

THIRTEEN = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128,
)  # fmt: skip

CODES = {
    0: "Byte", 1: "Char", 2: "Short", 3: "Int", 4: "Long", 5: "Half", 6: "Float", 7: "Double",
    8: "ComplexHalf", 9: "ComplexFloat", 10: "ComplexDouble", 11: "Bool", 15: "BFloat16",
}  # fmt: skip
"""ScalarType code -> PyTorch's name. Source: c10/core/ScalarType.h."""


class _Vector(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("n", ctypes.c_int64))


class AddFunctions:
    """The compiled C functions by name: functions["FloatVector_add"](c, a, b).

    c, a, b   one-dimensional tensors. As C does, a function takes the bytes from data_ptr on for
              its own dtype and never asks for the tensor's dtype or stride

    Raises   KeyError      nobody compiled a function of that name
             MemoryError   it would touch bytes that the tensor's storage does not have
             ValueError    the function refused unequal lengths
    """

    def __init__(self) -> None:
        self._library = load_library(lambda: dtype_switch.build("macros"))
        self._widths = {f"{n}Vector_add": np.dtype(d).itemsize for n, (_, d) in NAMES.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._widths

    def keys(self) -> list[str]:
        """The names of all functions."""
        return list(self._widths)

    def __getitem__(self, name: str) -> Any:
        width = self._widths[name]
        function = self._library[name]

        def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
            vectors = []
            for label, x in (("c", c), ("a", a), ("b", b)):
                room = x.untyped_storage().nbytes() - x.storage_offset() * x.itemsize
                if x.numel() * width > max(room, 0):
                    raise MemoryError(
                        f"{name} would touch {x.numel() * width} bytes of {label}, which has "
                        f"{room} ({x.dtype})"
                    )
                vectors.append(_Vector(x.data_ptr(), x.numel()))
            if function(*map(ctypes.byref, vectors)):
                raise ValueError(f"{name} refused lengths {[x.n for x in vectors]}")

        return call


def _operand(rng: Rng, length: int, dtype: torch.dtype) -> torch.Tensor:
    step = rng.choice((1, 1, 2, 3))
    skip = rng.randint(0, 2)
    numbers = torch.randint(-9, 10, (skip + length * step,), generator=rng.generator())
    if dtype in (torch.int32, torch.int64) and rng.chance(0.6):
        shift = 31 if dtype == torch.int32 else 60
        numbers = numbers * (1 << shift - 4) + 1
    elif dtype.is_floating_point or dtype.is_complex:
        numbers = numbers / 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex32 calls itself experimental
        with_dtype = (numbers > 0) if dtype == torch.bool else numbers.to(dtype)
    return with_dtype[skip::step] if length else with_dtype[:0]


Tensors = tuple[torch.Tensor, torch.Tensor]


def _mixed(rng: Rng, size: int) -> tuple[list[Tensors]]:
    pairs = []
    for a in THIRTEEN:
        for b in THIRTEEN:
            length = rng.randint(0, 1 + size // 2)
            pairs.append((_operand(rng, length, a), _operand(rng, length, b)))
    return (pairs,)


def _mixed_sums(pairs: list[Tensors]) -> list[Any]:
    compiled = {torch.tensor(np.zeros(1, dtype)).dtype for _, dtype in NAMES.values()}
    results: list[Any] = []
    for a, b in pairs:
        if torch.result_type(a, b) in compiled:
            results.append(a + b)
        else:
            results.append(f"TypeError naming {short(a.dtype)} and {short(b.dtype)}")
    return results


@handed_out
def short(dtype: torch.dtype) -> str:
    """A dtype without "torch."."""
    return str(dtype).removeprefix("torch.")


def _drive_table(answer: Any, pairs: list[Tensors]) -> list[Any]:
    """Every sum, or the error: whether it is a TypeError whose text names both dtypes."""
    functions = AddFunctions()
    results: list[Any] = []
    for a, b in pairs:
        try:
            result = answer(functions, a, b)
        except NotImplementedError:  # the stub
            raise
        except Exception as error:
            names = [short(a.dtype), short(b.dtype)]
            named = all(re.search(rf"\b{name}\b", str(error)) for name in names)
            if isinstance(error, TypeError) and named:
                results.append(f"TypeError naming {names[0]} and {names[1]}")
            else:
                results.append(f"{type(error).__name__}: {error}")
            continue
        results.append(result)
    return results


def _single_pairs(pairs: list[Tensors]) -> Any:
    if len(pairs) > 1:
        for pair in pairs:
            yield ([pair],)


def _show_pairs(pairs: list[Tensors]) -> str:
    if len(pairs) > 1:
        return f"{len(pairs)} pairs of vectors, each dtype with each"
    (a, b), *_ = pairs
    layout = (
        "" if a.is_contiguous() and b.is_contiguous() else f"  (strides {a.stride()}, {b.stride()})"
    )
    return f"{short(a.dtype)} {a.tolist()} + {short(b.dtype)} {b.tolist()}{layout}"


def _strided(evidence: Any) -> bool:
    """Whether the pair that came out wrong is not contiguous."""
    found = re.match(r"\[(\d+)\] element", evidence.property)
    return found is not None and not all(
        x.is_contiguous() for x in evidence.inputs[0][int(found[1])]
    )


dtype_table = Exercise(
    id="dtype_dispatch.dtype_table",
    statement=(
        "Write dtype_table(functions, a, b): a + b of two vectors of equal length, whatever their "
        "dtypes. functions['FloatVector_add'](c, a, b) is a compiled C function that writes c; "
        "there is one for Byte, Char, Short, Int, Long, Float, Double, Bool. It reads the bytes it "
        "is pointed at as its own dtype, one after the other. Make a table from dtype to function, "
        "promote, cast, look up, call, and return the new tensor. Where nobody compiled the common "
        "dtype, raise a TypeError that names both: float16 with int8 says 'float16' and 'int8'."
    ),
    rules=(
        "torch may promote, cast and allocate; the adding is done by the C functions",
        "a and b stay as they are",
    ),
    case=_mixed,
    expected=_mixed_sums,
    drive=_drive_table,
    smaller=_single_pairs,
    show=_show_pairs,
    cases=12,
    seconds=60.0,
    processes=True,
    minutes=15,
    difficulty=3,
    banned=(
        "torch.add",
        "torch.Tensor.add",
        "torch.Tensor.add_",
        "torch.Tensor.__add__",
        "torch.Tensor.__radd__",
        "torch.Tensor.__iadd__",
        "torch.sub",
        "torch.Tensor.sub",
        "torch.Tensor.__sub__",
        "torch.sum",
        "torch.Tensor.sum",
        "labkit.dispatch.dtype_switch.add",
    ),
    hints=(
        Hint(
            "The C function knows no strides: it takes the bytes from data_ptr on, "
            "one after the other. Some of these vectors are slices with a step.",
            when=_strided,
        ),
        Hint(
            "Promote first, look up second: both operands must have the dtype of the function "
            "before it is called, and so must c.",
            when=lambda evidence: "MemoryError" in evidence.got,
        ),
        Hint(
            "Nobody compiled that dtype. There is no default to fall through to; the error has to "
            "say which two dtypes met.",
            when=lambda evidence: "TypeError naming" in evidence.property,
        ),
        "int32 with int64 was computed in int32, or a pair like it: which dtype holds both? "
        "{input}",
        "Promote first, look up second.",
        "torch.result_type(a, b), then .to(common).contiguous() for both, then table[common].",
    ),
    must_fail=(
        "promotes to float always",
        "falls through to float32",
        "error without names",
        "converts inputs in place",
        "returns the right value but changes one of its inputs",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)",
    ),
)

EXERCISES = (generic_add, dtype_table)
