"""Whether a `Source` anchor names a file that exists in PyTorch.

Headers and Python files are looked up in the installed torch. The wheel ships no `.cpp`, no `.cu`
and no build files; those that the lab names are listed in `pytorch_files.txt`.
"""

import ast
import functools
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

NEWER = frozenset({"torch/csrc/autograd/node.h"})
"""Files of 2.13 that the wheel of 2.11 does not have yet."""
PINNED = Path(__file__).with_name("pytorch_files.txt")
SOURCE = re.compile(r"^( *)Source\s+(.*(?:\n\1 {4,}\S.*)*)", re.MULTILINE)
FILE = re.compile(
    r"(?<![\w/.-])(?:[\w.-]+/)+[\w.-]+\.(?:h|hpp|c|cc|cpp|cu|cuh|py|pyi|yaml|md|txt)\b"
)
DECLARED = (
    r"\b(struct|class|enum|union|using)\s[^;{{}}()=]*\b{0}\b[^;()]*[{{=]|\b{0}(\(| =)|#define {0}\b"
)
"""A name in C++, where it is more than mentioned."""
SHIPPED_AS = {
    "torch/": "torch/",
    "torchgen/": "torchgen/",
    "functorch/": "functorch/",
    "aten/src/ATen/native/": "torchgen/packaged/ATen/native/",
    "tools/autograd/": "torchgen/packaged/autograd/",
}
"""Folder of PyTorch's tree -> where pip puts it."""


@functools.cache
def site_packages() -> Path:
    """The folder torch is installed in; torch is found, not imported."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torch is not installed, so no anchor can be checked")
    return Path(spec.origin).parents[1]


@functools.cache
def pinned_files() -> frozenset[str]:
    """The files the wheel does not ship."""
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def installed_file(path: str) -> Path | None:
    """Where the installed torch holds this file or folder of PyTorch's tree, if it does."""
    places = [site_packages() / "torch" / "include" / path.removeprefix("aten/src/")]
    for theirs, ours in SHIPPED_AS.items():
        if path.startswith(theirs):
            places.append(site_packages() / ours / path.removeprefix(theirs))
    return next((place for place in places if path and ".." not in path and place.exists()), None)


def anchor_problem(anchor: str) -> str:
    """What is wrong with "path" or "path symbol"; "" when nothing is.

    The symbol's last part must occur in the file where the installed torch has it; a type, or
    another name that begins as types do, must be declared there.
    """
    path, _, symbol = anchor.strip().partition(" ")
    found = installed_file(path)
    if found is None:
        known = path in pinned_files() or path in NEWER
        return "" if known else f"PyTorch has no file {path!r}"
    name = re.split(r"::|\.", symbol.strip())[-1].strip("()")
    if not re.fullmatch(r"\w+", name) or found.is_dir():
        return ""
    words = found.read_text(encoding="utf-8", errors="replace")
    is_type = path.endswith(".h") and name[0].isupper()
    has_it = re.search(DECLARED.format(name) if is_type else rf"\b{name}\b", words)
    return "" if has_it else f"{path} does not have {name!r}"


def docstring_anchors(module: Path) -> Iterator[str]:
    """Every file, and every symbol behind one, of the `Source` lines in a module's docstrings."""
    words = module.read_text(encoding="utf-8")
    if "Source" not in words:
        return
    for node in ast.walk(ast.parse(words)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for _, text in SOURCE.findall(node.value):
                for file, behind in re.findall(rf"({FILE.pattern})([^/]*)(?!\S)", text):
                    for each in map(str.strip, re.split("[,;\n]", behind.strip())):
                        beside = f"{Path(file).parent}/{each}"
                        yield beside if FILE.fullmatch(beside) else f"{file} {each}"
