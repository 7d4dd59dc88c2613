"""Every operator is PyTorch's: the same name, overload and schema, word for word."""

import pytest
import torch

import labkit._tensor  # noqa: F401  all operators are defined
from labkit.dispatch import dispatcher

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
