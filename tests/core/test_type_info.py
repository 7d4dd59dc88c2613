import pytest

from tests.beside import assert_beside

NAMES = ["float16", "bfloat16", "float32", "float64", "complex64", "int8", "uint8", "int16",
         "int32", "int64", "bool"]  # fmt: skip
FIELDS = ["bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("info", ["finfo", "iinfo"])
def test_the_limits_of_a_type_are_pytorchs(info, name):
    def limits(m):
        found = getattr(m, info)(getattr(m, name))
        return [getattr(found, field, None) for field in FIELDS], repr(found)

    assert_beside(limits)
