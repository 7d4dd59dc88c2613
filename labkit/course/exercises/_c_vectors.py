"""The generic source: C functions for every dtype, made from one list.

The C of an answer runs in its own process, with every vector ending at a page that nobody may read.
"""

import re
import signal
from typing import Any

import numpy as np

from labkit.course.benches import c_program
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._never_right import CONSTANT, FIRST

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

TRAPS = ("Long", "Bool")
"""Asked twice as often: double is too small for one, and uint8_t is not the other."""

LISTED = ("the list", "together")
"""The stages that ask for every dtype; the others are about Float alone."""
SUMMED = ("one dtype", *LISTED)
"""The stages that ask what the sums are; "lengths" asks whether anything was added."""

REFUSED = "refused, nothing written"
POISON = 0xA5
CALLS = 63

MAIN = """
@INCLUDES@
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
def main_source(part: str) -> str:
    """The checker's main: it calls the function of every dtype, or of Float alone."""
    asked = tuple(NAMES) if part in LISTED else ("Float",)
    serves = "\n".join(f"SERVE({name}, {NAMES[name][0]})" for name in asked)
    cases = "\n".join(
        f"            case {number}: serve_{name}(head); break;"
        for number, name in enumerate(NAMES)
        if name in asked
    )
    includes = '#include "add.h"\n' * (2 if part in ("guard", "together") else 1)
    text = MAIN.replace("@SERVES@", serves).replace("            @CASES@", cases)
    return text.replace("@INCLUDES@", includes)


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


def _vectors(rng: Rng, size: int, part: str = "together") -> tuple[str, list[Pair], str]:
    """The vectors of many calls in one dtype.

    part  "one dtype": Float; "the list": every dtype; "lengths": Float, unequal ones, too;
          "guard": no calls, and add.h is included twice; "together": all of it
    """
    name = rng.choice((*NAMES, *TRAPS)) if part in LISTED else "Float"
    pairs = []
    for _ in range(0 if part == "guard" else 1 if size == 0 else CALLS):
        length = rng.randint(0, size)
        lengths = [length] * 3
        if part in ("lengths", "together") and rng.chance(0.25):
            lengths[rng.randint(0, 2)] = rng.randint(0, size + 1)
        pairs.append((_numbers(rng, name, lengths[0]), _numbers(rng, name, lengths[1]), lengths[2]))
    return name, pairs, part


def _part(part: str) -> Stage:
    cases = 24 if part == "the list" else 8  # one dtype of eight is asked in each
    return Stage(part, case=lambda rng, size: _vectors(rng, size, part), cases=cases)


def _sums(name: str, pairs: list[Pair], part: str) -> dict[str, Any]:
    results: list[Any] = []
    for a, b, n in pairs:
        if len(a) == len(b) == n and part not in SUMMED:
            results.append("added")
        elif len(a) == len(b) == n:
            dtype = NAMES[name][1]
            with np.errstate(over="ignore"):
                results.append((np.array(a, dtype) + np.array(b, dtype)).tolist())
        else:
            results.append(REFUSED)
    return {"dtypes not listed exactly once": [], "sums": results}


def _drive_c(answer: Any, name: str, pairs: list[Pair], part: str) -> dict[str, Any]:
    """What the compiled functions make of the vectors, or how far they got."""
    header, source = answer()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header + "\n" + source, flags=re.DOTALL)
    listed = _not_once(text) if part in LISTED else []
    files = {"add.h": header, "add.c": source, "main.c": main_source(part)}
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
        result = _one_sum(ran.output[at], ran.output[at + 1 : end], dtype)
        sums.append("added" if isinstance(result, list) and part not in SUMMED else result)
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
def _not_once(text: str) -> list[str]:
    """The dtypes' names that do not stand in the text exactly once."""
    return [each for each in NAMES if len(re.findall(rf"\b{each}(?:Vector\w*)?\b", text)) != 1]


@handed_out
def _one_sum(status: int, data: bytes, dtype: Any) -> Any:
    """One result as data: the numbers, or what happened to them."""
    if status & 2:
        return "bytes before the result were overwritten"
    if status:
        untouched = data == bytes([POISON]) * len(data)
        return REFUSED if untouched else "refused, but c was written"
    if dtype.kind == "b":
        return [{0: False, 1: True}.get(byte, f"the byte {byte}") for byte in data]
    return np.frombuffer(data, dtype).tolist()


def _fewer_calls(name: str, pairs: list[Pair], part: str) -> Any:
    if len(pairs) > 1:
        for pair in pairs:
            yield name, [pair], part
    elif pairs:
        a, b, n = pairs[0]
        if len(a) == len(b) == n > 1:
            for at in range(n):
                yield name, [([a[at]], [b[at]], 1)], part


def _show_calls(name: str, pairs: list[Pair], part: str) -> str:
    if not pairs:
        return "a program that includes add.h twice"
    a, b, n = pairs[0]
    first = f"{name}Vector_add(c of {n}, a = {a}, b = {b})"
    return first if len(pairs) == 1 else f"{first} and {len(pairs) - 1} more calls"


def _says(*words: str) -> Any:
    return lambda evidence: any(word in f"{evidence.got}" for word in words)


def _wrong_sum(evidence: Evidence) -> tuple[Any, Any]:
    """The first result that differs, and what it should be."""
    pairs = zip(evidence.value["sums"], evidence.right["sums"], strict=False)
    return next(pair for pair in pairs if pair[0] != pair[1])


def _wrong_number(evidence: Evidence) -> bool:
    got, right = _wrong_sum(evidence)
    return isinstance(got, list) and isinstance(right, list)


def _refused_equal(evidence: Evidence) -> bool:
    got, right = _wrong_sum(evidence)
    return right != REFUSED and f"{got}".startswith("refused")


def _large_long(evidence: Evidence) -> bool:
    name, pairs, _ = evidence.inputs
    large = name == "Long" and any(abs(x) > 1 << 53 for a, b, _ in pairs for x in (*a, *b))
    return large and _wrong_number(evidence)


def _added_beside(case: Case, got: Any, right: Any) -> Any:
    """The first wrong result beside the right one; None where there are no numbers to draw."""
    from labkit import show

    name, *_ = case.inputs
    sums = got.get("sums", []) if isinstance(got, dict) else []
    for ours, wanted in zip(sums, right["sums"], strict=False):
        if ours != wanted and isinstance(ours, list) and isinstance(wanted, list):
            arrays: list[Any] = [np.array(each, NAMES[name][1]) for each in (ours, wanted)]
            return show.strides(*arrays, names=["yours", "right"], compare=True)
    return None


generic_add = Exercise(
    id="dtype_dispatch.generic_add",
    rules=("each name (Byte, Char, ...) stands exactly once in the two texts, comments aside",),
    case=_vectors,
    expected=_sums,
    drive=_drive_c,
    smaller=_fewer_calls,
    show=_show_calls,
    cases=32,
    seconds=60.0,
    processes=True,
    minutes=15,
    stages=(
        _part("one dtype"),
        _part("the list"),
        _part("lengths"),
        _part("guard"),
        Stage("together"),
    ),
    picture=_added_beside,
    hints=(
        Hint(
            "A function has two bodies. What stands in add.h is there once in add.c and once in "
            "the file that calls: two files include it. The header holds the types, and each "
            "function with `;` in the place of its body. The bodies stand in add.c.",
            when=_says("multiple definition"),
        ),
        Hint(
            "The compiler stops, and names what it did not understand. An unknown type or an "
            "undefined reference is a dtype that was never made; stdbool.h and stdint.h have bool "
            "and the types that end in _t.",
            when=lambda e: _says("does not compile")(e) and e.stage != "guard",
        ),
        Hint(
            "The compiler stops. This check includes add.h twice, as two headers of a "
            "program might. Redefinitions mean that the guard is missing.",
            when=_says("does not compile"),
            stage="guard",
        ),
        Hint(
            "Some names stand more than once, or nowhere. The list is the only place for "
            "them; everything else is made from Num and num.",
            when=lambda e: bool(e.value.get("dtypes not listed exactly once")),
        ),
        Hint(
            "The lengths are equal here, and still memory past the end was touched. Is the data of "
            "this struct `num *data`, and does the loop end at c->n?",
            when=lambda e: re.search(r"lengths: a (\d+), b \1, c \1\b", e.got) is not None,
        ),
        Hint(
            "The lengths are equal here, and the function did not return 0. In the struct `data` "
            "stands first, then `n`.",
            when=_refused_equal,
        ),
        Hint(
            "Something was touched that is not yours. Compare all three lengths first, and return "
            "1 before the loop.",
            when=_says("past the end", "overwritten", "but c was written"),
        ),
        Hint(
            "The lengths differ, and the function went on. It must return 1 and write nothing.",
            when=lambda e: _wrong_sum(e)[1] == REFUSED,
        ),
        Hint(
            "int64 differs above 2^53: a double has 53 bits for its digits. Add in the dtype "
            "itself, not in double.",
            when=_large_long,
        ),
        Hint(
            "A bool is one byte that holds 0 or 1. Who turns 1 + 1 back into 1? A conversion to "
            "bool does, one to uint8_t does not.",
            when=lambda e: e.inputs[0] == "Bool" and _wrong_number(e),
        ),
        "One list, used twice: #define DTYPES(X) X(Byte, uint8_t) ..., then DTYPES(DECLARE) in the "
        "header and DTYPES(DEFINE) in the source.",
    ),
    must_fail=(
        "two dtypes only",
        "reads past the shorter input",
        "integer add through double",
        "wraps bool wrongly",
        "missing guard",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        CONSTANT,
        FIRST,
    ),
)
