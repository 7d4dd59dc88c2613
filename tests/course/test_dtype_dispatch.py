import re
import signal
import subprocess

import pytest
import torch

from labkit.core.host_compiler import CompilerMissing, compiler
from labkit.course.benches import c_program
from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercise import Case, Hint
from tests.course.answers import FIRST, Answers, first_hint

answers = Answers("dtype_dispatch")
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"
LITERAL = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"

# --- the C texts

HEADER = """
#ifndef ADD_H
#define ADD_H
#include <stdbool.h>
#include <stdint.h>
#define DTYPES(X) X(Byte, uint8_t) X(Char, int8_t) X(Short, int16_t) X(Int, int32_t) \\
    X(Long, int64_t) X(Float, float) X(Double, double) X(Bool, bool)
#define DECLARE(Num, num) \\
    typedef struct { num *data; int64_t n; } Num##Vector; \\
    int Num##Vector_add(Num##Vector *c, const Num##Vector *a, const Num##Vector *b);
DTYPES(DECLARE)
#undef DECLARE
#endif
"""

SOURCE = """
#include "add.h"
#define DEFINE(Num, num) \\
    int Num##Vector_add(Num##Vector *c, const Num##Vector *a, const Num##Vector *b) { \\
        if (a->n != b->n || c->n != a->n) return 1; \\
        for (int64_t i = 0; i < c->n; i++) c->data[i] = (num)(a->data[i] + b->data[i]); \\
        return 0; \\
    }
DTYPES(DEFINE)
"""
SUM = "(num)(a->data[i] + b->data[i])"
CHECK = "if (a->n != b->n || c->n != a->n) return 1; \\\n"


def texts(header=HEADER, source=SOURCE):
    return lambda: (header, source)


def instead(old, new, text=SOURCE):
    assert old in text
    return text.replace(old, new)


answers.right("generic_add")(texts())

RE_INCLUDED = """
#ifndef ADD_H
#define ADD_H
#include <stdbool.h>
#include <stdint.h>
#define DTYPES(X) X(Byte, uint8_t) X(Char, int8_t) X(Short, int16_t) X(Int, int32_t) \\
    X(Long, int64_t) X(Float, float) X(Double, double) X(Bool, bool)
#define DECLARE(Num, num) \\
    struct Num##Vector { num *data; int64_t n; }; typedef struct Num##Vector Num##Vector; \\
    extern int Num##Vector_add(Num##Vector *, const Num##Vector *, const Num##Vector *);
DTYPES(DECLARE) // Byte, Float: a comment may say so
#endif
"""
UNCAST = instead("(num)", "")  # storing the sum converts it, too
answers.right("generic_add")(texts(RE_INCLUDED, instead("#include", "/* Bool */ #include", UNCAST)))

TWO = HEADER.replace("X(Byte, uint8_t) X(Char, int8_t) X(Short, int16_t) X(Int, int32_t)", "")
TWO = TWO.replace("X(Long, int64_t)", "").replace("X(Bool, bool)", "")
UNGUARDED = instead("#ifndef ADD_H\n#define ADD_H\n", "", HEADER).replace("#endif", "")
REMEMBERS = """static num first; static int asked; \\
        if (!asked && c->n) { asked = 1; first = (num)(a->data[0] + b->data[0]); } \\
        for (int64_t i = 0; i < c->n; i++) c->data[i] = first;"""
LOOP = f"for (int64_t i = 0; i < c->n; i++) c->data[i] = {SUM};"

for why, header, source in [
    ("two dtypes only", TWO, SOURCE),
    ("reads past the shorter input", HEADER, instead(CHECK, "\\\n")),
    (
        "reads past the shorter input",
        HEADER,
        instead(CHECK, "if (c->n != a->n) return 1; \\\n"),
    ),
    (
        "integer add through double",
        HEADER,
        instead(SUM, "(num)((double)a->data[i] + (double)b->data[i])"),
    ),
    ("wraps bool wrongly", instead("X(Bool, bool)", "X(Bool, uint8_t)", HEADER), SOURCE),
    ("wraps bool wrongly", HEADER, instead(SUM, "(num)((int)(a->data[i] + b->data[i]) & 1)")),
    ("missing guard", UNGUARDED, SOURCE),
    (ELSEWHERE, HEADER, instead(SUM, "(num)((float)a->data[i] + (float)b->data[i])")),
    (LITERAL, HEADER, instead(SUM, "(num)(11 * (i + 1))")),
    (FIRST, HEADER, instead(LOOP, REMEMBERS)),
]:
    answers.wrong("generic_add", why)(texts(header, source))

# --- the table

NAMES = {
    torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int",
    torch.int64: "Long", torch.float32: "Float", torch.float64: "Double", torch.bool: "Bool",
}  # fmt: skip


@answers.right("dtype_table")
def dtype_table(functions, a, b):
    table = {dtype: functions[f"{name}Vector_add"] for dtype, name in NAMES.items()}
    common = torch.result_type(a, b)
    if common not in table:
        raise TypeError(f"no add was compiled for {a.dtype} with {b.dtype}")
    c = torch.empty(a.numel(), dtype=common)
    table[common](c, a.to(common).contiguous(), b.to(common).contiguous())
    return c


@answers.wrong("dtype_table", "promotes to float always")
def always_float(functions, a, b):
    return dtype_table(functions, a.to(torch.float32), b)


@answers.wrong("dtype_table", "falls through to float32")
def default_is_float32(functions, a, b):
    try:
        return dtype_table(functions, a, b)
    except TypeError:
        return dtype_table(functions, a.to(torch.float32), b.to(torch.float32))


@answers.wrong("dtype_table", "error without names")
def nameless(functions, a, b):
    if torch.result_type(a, b) not in NAMES:
        raise TypeError(f"no add was compiled for {torch.result_type(a, b)}")
    return dtype_table(functions, a, b)


@answers.wrong("dtype_table", "converts inputs in place")
def converts(functions, a, b):
    if torch.result_type(a, b) in NAMES:
        a.data = a.to(torch.result_type(a, b))
    return dtype_table(functions, a, b)


@answers.wrong("dtype_table", "returns the right value but changes one of its inputs")
def reuses_a(functions, a, b):
    c = dtype_table(functions, a, b)
    if a.dtype == c.dtype:
        a.copy_(c)
    return c


@answers.wrong("dtype_table", ELSEWHERE)
def in_the_dtype_of_a(functions, a, b):
    return (
        dtype_table(functions, a, b.to(a.dtype))
        if a.dtype in NAMES
        else dtype_table(functions, a, b)
    )


@answers.wrong("dtype_table", ELSEWHERE)
def knows_no_strides(functions, a, b):
    common = torch.result_type(a, b)
    if common not in NAMES:
        return dtype_table(functions, a, b)
    c = torch.empty(a.numel(), dtype=common)
    same = [x if x.dtype == common else x.to(common).contiguous() for x in (a, b)]
    functions[f"{NAMES[common]}Vector_add"](c, *same)
    return c


@answers.wrong("dtype_table", BANNED)
def asks_torch(functions, a, b):
    if torch.result_type(a, b) not in NAMES:
        return dtype_table(functions, a, b)
    return a + b


# --- the small steps


@answers.right("owner")
def owner(message):
    if message.startswith("Could not run"):
        return "dispatcher"
    return "kernel" if "not implemented for" in message else "other"


@answers.wrong("owner", "knows two owners only")
def two_owners(message):
    return "dispatcher" if message.startswith("Could not run") else "kernel"


@answers.wrong("owner", "asks whether a dtype is named")
def dtype_named(message):
    named = any(word in message for word in ("Long", "Float", "Half", "Bool", "float"))
    return "kernel" if named else owner(message)


@answers.wrong("owner", "asks whether CPU is named")
def cpu_named(message):
    return "dispatcher" if "CPU" in message else owner(message)


@answers.wrong("owner", "asks for parts of the words")
def any_not_implemented(message):
    if message.startswith("Could not run"):
        return "dispatcher"
    return "kernel" if "not implemented" in message else "other"


@answers.wrong("owner", "asks for parts of the words")
def any_backend(message):
    return "dispatcher" if "backend" in message else owner(message)


@answers.right("filled")
def filled(body, Num, num):
    body = re.sub(r"\bnum\b", num, re.sub(r"\bNum\b", Num, body))
    return re.sub(r" *## *", "", body)


@answers.wrong("filled", "replaces inside words")
def inside_words(body, Num, num):
    return re.sub(r" *## *", "", body.replace("num", num).replace("Num", Num))


@answers.wrong("filled", "leaves the glue")
def leaves_glue(body, Num, num):
    return re.sub(r"\bnum\b", num, re.sub(r"\bNum\b", Num, body))


@answers.wrong("filled", "leaves the spaces around the glue")
def leaves_spaces(body, Num, num):
    return leaves_glue(body, Num, num).replace("##", "")


@answers.wrong("filled", "takes one space off the glue")
def takes_one_space(body, Num, num):
    return re.sub(" ?## ?", "", leaves_glue(body, Num, num))


@answers.wrong("filled", "glues before it replaces")
def glues_first(body, Num, num):
    return leaves_glue(re.sub(r" *## *", "", body), Num, num)


@answers.wrong("filled", "fills num only")
def fills_one(body, Num, num):
    return re.sub(r" *## *", "", re.sub(r"\bnum\b", num, body))


test_answers = answers.tests()


def test_the_preprocessor_fills_as_the_exercise_says():
    exercise = answers.exercises["filled"]
    cases = [exercise.make(3, number, number % 9) for number in range(60)]
    lines = []
    for number, case in enumerate(cases):
        body, name, ctype = case.inputs
        lines += [f"#define MAKE{number}(Num, num) [{body}]", f"MAKE{number}({name}, {ctype})"]
    command = [compiler("c"), "-E", "-P", "-"]
    text = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True
    ).stdout
    made = re.findall(r"\[(.*?)\]", text, re.DOTALL)
    squeezed = [re.sub(r"\s", "", each) for each in made]
    assert squeezed == [re.sub(r"\s", "", f"{exercise.right(case)}") for case in cases]


def fitting_hints(name, answer):
    """The hints that fit some failing case."""
    exercise = answers.exercises[name]
    found = failing_cases(exercise, answer, 3, search=False)
    hints = [hint for hint in exercise.hints if isinstance(hint, Hint)]
    return {next((h.text for h in hints if h.fits(case)), "")[:20] for case in found}


def test_a_hint_is_about_the_words_that_came_out_wrong():
    assert fitting_hints("filled", glues_first) == {"A glued word still h"}
    assert "A word that only con" in fitting_hints("filled", inside_words)
    assert fitting_hints("filled", takes_one_space) == {"The spaces go only a"}
    assert fitting_hints("filled", leaves_glue) == {"`##` glues: it goes,"}


def test_a_slip_at_equal_lengths_is_not_taken_for_unequal_ones():
    generic, table = answers.exercises["generic_add"], answers.exercises["dtype_table"]
    floats = instead("{ num *data; int64_t n; }", "{ float *data; int64_t n; }", HEADER)
    turned = instead("{ num *data; int64_t n; }", "{ int64_t n; num *data; }", HEADER)
    assert "`num *data`" in first_hint(generic, texts(floats))
    assert "`data` stands first" in first_hint(generic, texts(turned))

    def by_their_own(functions, a, b):
        if not {a.dtype, b.dtype} <= set(NAMES):
            raise TypeError(f"no add was compiled for {a.dtype} with {b.dtype}")
        return dtype_table(functions, a, b)

    assert "Look the common dtype up" in first_hint(table, by_their_own)


def keeps_the_gaps(functions, a, b):
    common = torch.result_type(a, b)
    if common not in NAMES:
        raise TypeError(f"no add was compiled for {a.dtype} with {b.dtype}")
    c = torch.empty(a.numel(), dtype=common)
    functions[f"{NAMES[common]}Vector_add"](c, a.to(common), b.to(common))
    return c


def test_one_pair_is_shown_where_one_pair_comes_out_wrong():
    found = outcomes(answers.exercises["dtype_table"], keeps_the_gaps, 5)
    steps, together = (outcome for outcome in found if outcome.state == "wrong")
    (evidence, *_) = steps.failures
    assert (steps.name, together.name) == ("steps", "together")
    assert len(evidence.inputs[0]) == 1
    assert "strides" in evidence.input
    assert "knows no strides" in next(
        h.text for h in answers.exercises["dtype_table"].hints if h.fits(evidence)
    )


def wrong_stages(answer, name="generic_add"):
    found = outcomes(answers.exercises[name], answer, 3)
    return [outcome.name for outcome in found if outcome.state == "wrong"]


def test_a_fault_shows_in_its_own_stage_and_in_the_last():
    only_float = HEADER.replace("X(Byte, uint8_t) X(Char, int8_t) X(Short, int16_t)", "")
    only_float = only_float.replace("X(Int, int32_t) \\\n    X(Long, int64_t) ", "")
    only_float = only_float.replace(" X(Double, double) X(Bool, bool)", "")
    small_bool = instead("X(Bool, bool)", "X(Bool, uint8_t)", HEADER)
    for fault, answer in (
        ("the list", texts(only_float)),
        ("the list", texts(small_bool)),
        ("lengths", texts(HEADER, instead(CHECK, "\\\n"))),
        ("guard", texts(UNGUARDED)),
    ):
        assert wrong_stages(answer) == [fault, "together"]


def test_a_refusal_of_everything_is_wrong_about_the_lengths_too():
    always = texts(HEADER, instead(CHECK, "return 1; \\\n"))
    assert wrong_stages(always) == ["one dtype", "the list", "lengths", "together"]


def test_a_fault_of_the_table_shows_in_its_own_stage_and_in_the_last():
    def by_their_own(functions, a, b):
        if not {a.dtype, b.dtype} <= set(NAMES):
            raise TypeError(f"no add was compiled for {a.dtype} with {b.dtype}")
        return dtype_table(functions, a, b)

    for fault, answer in (
        ("two dtypes", by_their_own),
        ("steps", keeps_the_gaps),
        ("refused", nameless),
    ):
        assert wrong_stages(answer, "dtype_table") == [fault, "together"]


def test_bodies_in_the_header_are_told_apart_from_a_missing_dtype():
    bodies = SOURCE.replace('#include "add.h"', "")
    in_header = texts(HEADER.replace("#endif", bodies + "#endif"), '#include "add.h"')
    assert "two files include it" in first_hint(answers.exercises["generic_add"], in_header)


def test_a_wrong_sum_is_drawn_beside_the_right_one():
    exercise = answers.exercises["generic_add"]
    case = Case(("Bool", [([True], [True], 1)], "the list"))
    right = exercise.right(case)
    assert exercise.picture(case, {"sums": [[False]]}, right)
    assert exercise.picture(case, {"it does not compile": "..."}, right) is None
    table = answers.exercises["dtype_table"]
    one = torch.ones(2)
    assert table.picture(Case(([(one, one)],)), [one], [one + one])
    assert table.picture(Case(([(one, one)],)), ["KeyError: 1"], [one + one]) is None


def test_a_crash_ends_the_program_only():
    program = c_program.build({"main.c": "int main(void) { *(volatile int *)0 = 1; }"})
    assert c_program.run(program, b"").status < 0


def test_what_does_not_compile_says_why():
    with pytest.raises(c_program.DoesNotCompile, match="undefined reference"):
        c_program.build({"main.c": "int nothing(void); int main(void) { return nothing(); }"})
    with pytest.raises(ValueError, match="plain file name"):
        c_program.build({"../main.c": ""})


def test_an_endless_program_is_stopped(monkeypatch):
    monkeypatch.setattr(c_program, "RUN_SECONDS", 1)
    program = c_program.build({"main.c": "int main(void) { for (volatile int i = 0;; i++); }"})
    assert c_program.run(program, b"").status == -signal.SIGXCPU


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr("labkit.core.host_compiler.shutil.which", lambda name: None)
    with pytest.raises(CompilerMissing, match="apt install"):
        c_program.build({"main.c": "int main(void) { return 7; }"})
