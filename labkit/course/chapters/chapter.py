"""A chapter as its reader meets it: what is visible, what has to be read, done and predicted."""

import ast
import functools
import itertools
import re
from dataclasses import dataclass
from typing import Any

from labkit.course.notebook_form import Cell, Notebook, is_hidden, tags

WORDS_A_MINUTE = 130
MINUTES_A_CELL = 0.4
MINUTES_A_PREDICTION = 1
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
KERNEL = "__global__"


@dataclass(frozen=True, eq=False)
class Part:
    """One cell, parsed."""

    cell: Cell

    @property
    def id(self) -> str:
        """The cell's id."""
        return str(self.cell["id"])

    @property
    def source(self) -> str:
        """The cell's text."""
        return str(self.cell["source"])

    @property
    def tags(self) -> list[str]:
        """The cell's tags."""
        return tags(self.cell)

    @property
    def is_code(self) -> bool:
        """Whether it is a code cell."""
        return bool(self.cell["cell_type"] == "code")

    @property
    def is_visible_code(self) -> bool:
        """Whether its reader sees code here."""
        return self.is_code and not is_hidden(self.cell)

    @property
    def is_exercise(self) -> bool:
        """Whether it is the stub of an exercise, or the cell that checks it."""
        return bool({"exercise", "check"} & set(self.tags))

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The code as a tree; an empty one where it does not parse, and of prose."""
        try:
            return ast.parse(self.source if self.is_code else "")
        except SyntaxError:
            return ast.Module(body=[], type_ignores=[])

    def calls(self, name: str) -> list[ast.Call]:
        """Calls of `name`, or of anything's method `name`, in the order they are written."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        named = [call for call in found if called(call).rpartition(".")[2] == name]
        return sorted(named, key=lambda call: (call.lineno, call.col_offset))

    @property
    def words(self) -> int:
        """How many words of prose there are to read."""
        return 0 if self.is_code else count_words(self.source)

    @property
    def plain_words(self) -> int:
        """The words in no table: a table is looked at."""
        lines = self.source.splitlines()
        prose = "\n".join(line for line in lines if not line.startswith("|"))
        return 0 if self.is_code else count_words(prose)

    @property
    def is_import(self) -> bool:
        """Whether it holds imports and nothing else."""
        body = self.tree.body
        return bool(body) and all(isinstance(n, ast.Import | ast.ImportFrom) for n in body)

    def code_lines(self) -> tuple[list[str], list[list[str]]]:
        """The lines that are not blank, and apart from them those of every CUDA text."""
        lines = self.source.splitlines()
        kernels = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and KERNEL in str(node.value):
                first, last = node.lineno, node.end_lineno or node.lineno
                kernels.append([line for line in lines[first - 1 : last] if line.strip()])
                lines[first - 1 : last] = [""] * (last - first + 1)
        return [line for line in lines if line.strip()], kernels


def count_words(text: str) -> int:
    """The words of a markdown text, without what stands between fences."""
    return len(re.findall(r"\w[^\s]*", FENCED.sub("", text)))


def called(call: ast.Call) -> str:
    """The dotted name of what is called, "" where it has none."""
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *parts])


def parts_of(notebook: Notebook) -> list[Part]:
    """The cells, front matter first."""
    return [Part(cell) for cell in notebook["cells"]]


def statements(parts: list[Part]) -> set[str]:
    """Ids of the cells that say what an exercise asks: the prose above each stub."""
    above: set[str] = set()
    for before, part in itertools.pairwise(parts):
        if "exercise" in part.tags and not before.is_code and "note" not in before.tags:
            above.add(before.id)
    return above


def reading_minutes(parts: list[Part]) -> float:
    """Words, visible cells and predictions in minutes, exercises left out."""
    tasks = statements(parts)
    words = sum(part.words for part in parts[1:] if part.id not in tasks)
    cells = sum(part.is_visible_code and not part.is_exercise for part in parts)
    predictions = sum(len(part.calls("predict")) for part in parts)
    return words / WORDS_A_MINUTE + MINUTES_A_CELL * cells + MINUTES_A_PREDICTION * predictions


def text_constants(node: ast.AST) -> list[str]:
    """Every text written out below a node."""
    found: list[Any] = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return [value for value in found if isinstance(value, str)]
