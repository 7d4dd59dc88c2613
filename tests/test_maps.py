"""The folders that an engineer opens first say what is in them, and leave nothing out."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import labkit

FOLDERS = (
    "memory", "dispatch", "dispatch.explain", "dispatch.layers", "autograd", "autograd.engine",
    "autograd.kernels", "autograd.variables", "ops.pointwise",
)  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_names_its_modules(folder):
    named = named_in(import_module(f"labkit.{folder}").__doc__)
    inside = (Path(labkit.__file__).parent / folder.replace(".", "/")).iterdir()
    modules = {path.stem for path in inside if not path.name.startswith("_")}
    assert modules - named == set()


def named_in(map_of_a_folder):
    """What begins a line of the map or stands before a colon; a word within a sentence names none.

    A word with an underscore cannot be one of a sentence.
    """
    lines = re.findall(r"^    (.*)", map_of_a_folder, re.MULTILINE)
    first = [name for line in lines for name in re.split(r", ", re.split(r" {2,}", line)[0])]
    later = [word for line in lines for word in re.findall(r"\w+(?=:)|\w+_\w+", line)]
    return {*first, *later}
