"""The lint: a chapter that keeps every promise, and one broken promise at a time."""

import ast

import pytest

from labkit.course import exercises
from labkit.course.benches.measured import measured_names
from labkit.course.chapters.lint_form import chapter_problems
from labkit.course.chapters.notebook_text import from_text
from labkit.course.exercise import Exercise

CHAPTER = """# ---
# title: You changed `b`. Why did `a` change?
# builds: an inspector
# minutes: 3
# exercise_minutes: 10
# goals: [say who owns the bytes]
# difficulty: 1
# document: 001 Pytorch Core Code Research
# sections: '2.3'
# needs: [0_start_here]
# claims: [D1-2.3-c, D1-2.3-d, D4-1.1-l]
# anchors: [torch/version.py]
# ---

# %% [markdown] id="puzzle"
# Two names, one change. Who owns the bytes?

# %% id="imports"
import torch

from labkit import course, show

# %% id="first"
a = torch.arange(12)
b = a.view(3, 4)
show.strides(a, b)

# %% [markdown] id="question"
# ## Who owns the bytes?

# %% id="ask"
guess = course.predict(
    "How many storages are there?",
    {1: "a view is a second way of reading the very same bytes", 2: "nothing was copied"},
)
guess

# %% id="run"
owners = {t.untyped_storage().data_ptr() for t in (a, b)}
guess.reveal(len(owners))

# %% [markdown] id="rule"
# **Rule 1. A view owns nothing.**

# %% [markdown] tags=["note"] id="note"
# > You may read that `reshape` never copies. It does when no stride can say it.

# %% [markdown] id="task"
# ### Warm-up
# Write `total(values)`. Example: `total([1, 2])` is 3.

# %% tags=["exercise"] id="stub"
def total(values):
    raise NotImplementedError

# %% id="checked"
course.check("toys.total", total)

# %% [markdown] id="recap"
# ## Recap
# 1. A view owns nothing.

# %% id="whole"
show.code("artefact")

# %% [markdown] id="real"
# ## In PyTorch
# * One file.

# %% [markdown] id="next"
# ## Next
# Another puzzle.

# %% tags=["backstage"] id="measure"
places = [t.data_ptr() for t in (a, b)]
refused = False
try:
    a.t().view(5)
except RuntimeError:
    refused = True

# %% id="table"
course.checked(
    {"D1-2.3-c": places[0] == places[1], "D1-2.3-d": (refused, {"places": places})},
    settles={"D4-1.1-l": "a study"},
)
"""


def exercise(**more):
    given = {
        "id": "toys.total",
        "case": lambda rng, size: ([1],),
        "hints": ("h",),
        "must_fail": ("w",),
        "minutes": 10,
    }
    return Exercise(**given | more)


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """The exercises that the chapter asks."""
    known = {"toys.total": exercise()}
    monkeypatch.setattr(exercises, "find", known.__getitem__)
    return known


def found(text, asked=("toys.total",)):
    return list(chapter_problems(from_text(text), list(asked)))


def test_a_chapter_that_keeps_every_promise():
    assert found(CHAPTER) == []


def test_exercises_keep_to_their_rungs(asked):
    asked["toys.total"] = exercise(rung="warm-up")
    asked["toys.b"] = exercise(id="toys.b", rung="boss", minutes=41)
    asked["toys.c"] = exercise(id="toys.c", rung="boss", minutes=30)
    assert found(CHAPTER, ("toys.total", "toys.b", "toys.c")) == [
        "toys.total, a warm-up, takes 10 minutes of 4",
        "toys.b, a boss, takes 41 minutes of 40",
        "more than one boss: ['toys.b', 'toys.c']",
    ]


LONG = "word " * 95
MANY = "\n".join(f"x{n} = {n}" for n in range(13))
WIDE = f"o = '{'a' * 80}'"
KERNEL = "\n".join(['text = """__global__', *["x;"] * 19, '"""'])
NOTE = '# %% [markdown] tags=["note"]\n# > one\n\n'
TASK = """# %% [markdown] id="task"
# ### Warm-up
# Write `total(values)`. Example: `total([1, 2])` is 3.
"""
PUZZLE = "# Two names, one change. Who owns the bytes?\n"
FIRST, MEASURE = '# %% id="first"', '# %% tags=["backstage"] id="measure"'
EARLY = 'early = course.predict("?", {1: "a", 2: "b"})\nearly'
REVEAL, RULE = "guess.reveal(len(owners))", "# **Rule 1. A view owns nothing.**"
HOLDS, OWNERS = "places[0] == places[1]", "owners = {"
RUN = '# %% id="run"\n'
HIDDEN = """# %% tags=["backstage"] id="hidden"
from math import pi
helper, finished_total, guessed = a, b, 1
def local(inside): return inside

"""
EARLY_TABLE = '# %%\ncourse.checked({"D1-2.3-c": a == b})\n\n'

BROKEN = [
    ("the output kept in cell run", '# %% id="run"', '# %% tags=["keep_output"] id="run"'),
    ("first screen holds", PUZZLE, f"# {LONG}\n"),
    ("holds 5 sentences", PUZZLE, "# One. Two. Three. Four. Five.\n"),
    ("heading besides the title", PUZZLE, f"# ## A heading\n{PUZZLE}"),
    ("show the puzzle first", FIRST, f"# %%\n{EARLY}\n\n{FIRST}"),
    (
        "first visible cell has 7",
        "a = torch.arange(12)\n",
        "a = torch.arange(12)\n" + "c = a\n" * 4,
    ),
    ("7 visible lines of imports", "import torch\n", "import torch\n" + "import math\n" * 5),
    ("cell run shows 15 lines", OWNERS, f"{MANY}\n{OWNERS}"),
    ("columns wide", OWNERS, f"{WIDE}\n{OWNERS}"),
    ("shows 21 lines of CUDA", OWNERS, f"{KERNEL}\n{OWNERS}"),
    ("4 margin notes", TASK, NOTE * 3 + TASK),
    ("note in cell note has", "# > You may read", f"# > {LONG}"),
    ("does not stand apart", "# > You may read", "# You may read"),
    ("run uses helper, which a hidden cell makes", RUN, f"{HIDDEN}{RUN}helper\n"),
    ("words up to cell rule", RULE, f"# {LONG}"),
    ("the task in cell task has", "# Write `total", f"# {LONG} {LONG}\n# Write `total"),
    ("is of level 4", "# ## Who owns", "# #### Who owns"),
    ("no 'Next' at its end", "# ## Next\n", ""),
    ("no 'Recap'", "# ## Recap\n", ""),
    ("in this order", RULE, "# ## Next\n# Soon."),
    ("visible code after", MEASURE, "# %%"),
    ("minutes says 9", "# minutes: 3", "# minutes: 9"),
    ("exercise_minutes says 11", "# exercise_minutes: 10", "# exercise_minutes: 11"),
    ("split it", "# exercise_minutes: 10", "# exercise_minutes: 41"),
    ("calls total, which is not", 'show.code("artefact")', "show.code(total([1]))"),
    ("no prose above the stub", TASK, ""),
    ("is never revealed", REVEAL, "owners"),
    ("reveals other, which nothing", REVEAL, f"{REVEAL}\nother.reveal(a)"),
    ("reveals a literal", REVEAL, "guess.reveal(2 - 1)"),
    ("cell run goes on behind its reveal", REVEAL, f"{REVEAL}\nowners"),
    ("takes 5 lines", REVEAL, "guess.reveal(\n    len(\n        owners\n    )\n)"),
    ("has a heading amid its text", RULE, f"{RULE}\n#\n# ## A section"),
    ("holds an explanation", REVEAL, "guess.reveal(len(owners), why='one two three four five')"),
    ("offers 1 answers", ', 2: "nothing was copied"', ""),
    ("then `guess`", ")\nguess\n", ")\n"),
    ("tells what cell ask asks", PUZZLE, "# A view is a second way of reading the very same.\n"),
    ("and that shows", "course.predict(\n    ", "course.predict("),
    ("cell rule says 'claim'", RULE, "# This claim is wrong."),
    ("says 'D1-2.3-c'", RULE, "# D1-2.3-c."),
    ("0 calls of course.checked", "course.checked(", "course.something("),
    ("differ: ['D4-1.1-l']", '    settles={"D4-1.1-l": "a study"},\n', ""),
    ("nothing that a cell measured: False", HOLDS, "False"),
    ("nothing that a cell measured: 3 == 4", HOLDS, "3 == 4"),
    ("nothing that a cell measured: 'x' in TEXT", HOLDS, "'x' in TEXT"),
    ("comes out the same", HOLDS, "places == places"),
    ("same whatever", HOLDS, f"{HOLDS} or True"),
    ("not the last thing", MEASURE, EARLY_TABLE + MEASURE),
]


@pytest.mark.parametrize(("said", "before", "after"), BROKEN, ids=[said for said, *_ in BROKEN])
def test_a_broken_promise_is_said(said, before, after):
    assert before in CHAPTER
    problems = found(CHAPTER.replace(before, after, 1))
    assert any(said in problem for problem in problems), problems


def test_a_name_may_be_said_or_known_otherwise():
    for before, line in (
        ("The `helper` is new.", "helper"),
        ("A call: `helper(3).more`.", "helper"),
        ("", "pi, finished_total, course, show"),
        ("", "inside = 1\ninside"),
    ):
        text = CHAPTER.replace(RULE, f"# {before}\n#\n{RULE}" if before else RULE)
        text = text.replace(RUN, f"{HIDDEN}{RUN}{line}\n")
        assert found(text) == []
    text = CHAPTER.replace(RUN, f"{HIDDEN}{RUN}")
    assert found(text.replace(REVEAL, "guess.reveal(len(owners), how=guessed)")) == []
    fenced = text.replace(RULE, f"# ```text\n# helper\n# ```\n#\n{RULE}").replace(
        REVEAL, f"helper\n{REVEAL}"
    )
    assert len(found(fenced)) == 1


def test_a_stub_may_be_asked_where_its_absence_is_caught():
    caught = "try:\n    total([1])\nexcept RuntimeError as error:\n    print(error)"
    problems = found(CHAPTER.replace('show.code("artefact")', caught))
    assert not [problem for problem in problems if "not written yet" in problem]


def test_a_stub_may_be_handed_to_what_goes_on_without_it():
    used = "best = course.yours(total, sum)\nshow.code(total)"
    problems = found(CHAPTER.replace('show.code("artefact")', used))
    assert not [problem for problem in problems if "not written yet" in problem]
    problems = found(CHAPTER.replace('show.code("artefact")', "course.yours(total(1), sum)"))
    assert [problem for problem in problems if "not written yet" in problem]


KEPT = """def owner(t):
    return sorted(addresses, key=torch.numel), len(names), t


show.code(owner)"""


def test_kept_code_needs_nothing_its_reader_is_not_told_of():
    keeping = CHAPTER.replace('show.code("artefact")', KEPT)
    assert found(keeping) == []
    recap = "# 1. A view owns nothing.\n"
    told = keeping.replace(recap, f"{recap}# Your inspector, to keep (with `names`):\n")
    assert found(told) == ["owner, kept in cell whole, needs addresses: name it in the text above"]


TRIED = """
import torch
try:
    torch.ones(2).view(3)
    x = False
except RuntimeError:
    x = True
"""


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        ("x = False", False),
        ("x = [1, 2]; y = len(x)", False),
        ("import re\nx = re.search('a', 'abc') is not None", False),
        ("TEXT = 'struct Pool'\nx = 'Pool' in TEXT", False),
        ("TEXT = 'a'\nx = TEXT.count('a')", False),
        ("x = sum(n for n in range(3))", False),
        ("if True:\n    x = False", False),
        ("import torch\nx = torch.__version__", True),
        ("import os\nx = [n for n in os.listdir('.') if 'a' in n]", True),
        ("x = hasattr(object, 'a')", True),
        ("def f():\n    return 3\nx = f()", True),
        ("import torch\nt = torch.ones(2)\ny = t.sum()\nx = float(y) == 2", True),
        (TRIED, True),
        ("import torch\nx = []\nfor n in torch.ones(3):\n    x.append(n)", True),
        ("import torch\nx = 0\nfor n in torch.ones(3):\n    if n > 0:\n        x += 1", True),
        ("def f():\n    import torch\n    x = torch.ones(3)\nx = 3", False),
    ],
)  # fmt: skip
def test_a_name_is_measured_or_it_is_not(code, measured):
    assert ("x" in measured_names([ast.parse(code)])) is measured
