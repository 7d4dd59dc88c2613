import copy
import pickle

import numpy as np
import pytest
import torch

from labkit.core import dtype as dtypes

NAMES = list(dtypes.DTYPES)


@pytest.mark.parametrize("name", NAMES)
def test_a_type_has_the_properties_of_its_namesake(name):
    ours, theirs = dtypes.DTYPES[name], getattr(torch, name)
    assert ours.itemsize == theirs.itemsize
    assert ours.is_floating_point == theirs.is_floating_point
    assert ours.is_complex == theirs.is_complex
    assert ours.is_signed == theirs.is_signed
    assert dtypes.to_real(ours).name == str(theirs.to_real())[6:]


def test_only_types_with_the_values_of_a_numpy_type_convert_without_a_copy():
    without = {name for name in NAMES if dtypes.DTYPES[name].numpy is None}
    assert without == {"bfloat16", "complex32"}
    assert all(dtypes.from_numpy_dtype(d.numpy) is d for d in dtypes.DTYPES.values() if d.numpy)


def test_a_copied_or_pickled_type_is_the_same_object():
    assert copy.deepcopy(dtypes.bfloat16) is dtypes.bfloat16
    assert pickle.loads(pickle.dumps(dtypes.int8)) is dtypes.int8


@pytest.mark.parametrize("numpy_dtype", ["<U3", "O", ">f4", "datetime64[s]"])
def test_a_numpy_type_without_a_counterpart_is_refused_by_name(numpy_dtype):
    with pytest.raises(TypeError, match="can't convert"):
        dtypes.from_numpy_dtype(np.dtype(numpy_dtype))


def test_short_names_and_unknown_names():
    assert dtypes.dtype("long") is dtypes.int64
    with pytest.raises(TypeError, match="'float12'"):
        dtypes.dtype("float12")
