"""The folders that an engineer opens first say what is in them, and leave nothing out."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import labkit

FOLDERS = (
    "memory", "dispatch", "autograd", "autograd.engine", "autograd.kernels", "autograd.variables",
)  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_names_its_modules(folder):
    named = re.findall(r"\w+", import_module(f"labkit.{folder}").__doc__)
    inside = (Path(labkit.__file__).parent / folder.replace(".", "/")).iterdir()
    modules = {path.stem for path in inside if not path.name.startswith("_")}
    assert modules - set(named) == set()
