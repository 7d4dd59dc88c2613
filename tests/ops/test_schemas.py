"""Every operator is PyTorch's: the same name, overload and schema, word for word."""

import re
from pathlib import Path

import pytest
import torch

import labkit
import labkit._tensor
from labkit.dispatch import DispatchKey, dispatcher

NAMES = sorted(
    name
    for name, op in dispatcher().operators.items()
    if name.startswith("aten::") and op.has_schema
)


def test_there_are_the_operators_a_user_reaches_for():
    assert len({name.partition(".")[0] for name in NAMES}) > 150


@pytest.mark.skipif(torch.__version__ < "2.13", reason="the schemas are those of 2.13")
def test_every_schema_is_pytorchs():
    different = {}
    for name in NAMES:
        base, _, overload = name.partition(".")
        theirs = str(torch._C._get_schema(base, overload))
        if str(dispatcher().find(name).schema) != theirs:
            different[name] = theirs
    assert different == {}


@pytest.mark.parametrize("part", ["_tensor", "autograd", "nn", "ops"])
def test_what_labkits_own_code_calls_by_name_is_there(part):
    """A call such as aten.put_.default(...) fails only when it is made, maybe in backward."""
    folder, called = Path(labkit.__file__).with_name(part), set()
    for path in folder.rglob("*.py"):
        called |= set(re.findall(r"\baten\.(\w+)\.(\w+)\b", path.read_text(encoding="utf-8")))
    names = {f"aten::{base}.{overload}".removesuffix(".default") for base, overload in called}
    assert names - set(NAMES) == set()


@pytest.mark.parametrize(
    ("operator", "key", "file"),
    [
        ("add.Tensor", "CPU", "arithmetic.py"),
        ("cumsum", "CPU", "scan.py"),
        ("mm", "CUDA", "blas.py"),
        ("square", "CompositeImplicitAutograd", "unary.py"),
    ],
)
def test_a_kernel_says_which_file_registered_it(operator, key, file):
    kernel = dispatcher().find(f"aten::{operator}").active_kernels[DispatchKey[key]]
    assert kernel.debug.partition(":")[0] == f"registered at {file}"
