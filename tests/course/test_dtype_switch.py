import subprocess

import numpy as np
import pytest

from labkit.course.documents import dtype_switch
from labkit.course.documents.dtype_switch import DTYPES, NoKernelForDtype, add, sqrt, symbols


@pytest.mark.parametrize("way", ["templates", "macros", "switch"])
@pytest.mark.parametrize("dtype", [dtype for _, dtype in DTYPES.values()], ids=str)
def test_every_dtype_adds_as_numpy_does(way, dtype):
    rng = np.random.default_rng(0)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a, b = (rng.integers(low, high, 33, dtype=dtype, endpoint=True) for _ in "ab")
    else:
        a, b = (rng.standard_normal(33).astype(dtype) for _ in "ab")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(add(way, a, b), a + b)
    assert add(way, a[::2], b[::2]).dtype == dtype  # strided inputs are packed first


def test_by_hand_has_the_two_that_somebody_wrote():
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(add("by_hand", x, x), x + x)
    assert symbols("by_hand") == ["DoubleVector_add", "FloatVector_add"]
    with pytest.raises(NoKernelForDtype, match="Long by hand"):
        add("by_hand", np.ones(3, np.int64), np.ones(3, np.int64))


def test_macros_export_a_name_per_dtype_and_templates_a_copy():
    names = [name for name, _ in DTYPES.values()]
    assert symbols("macros") == sorted([f"{name}Vector_add" for name in names] + ["add_for"])
    copies = [name for name in symbols("templates") if name.startswith("int add<")]
    assert len(copies) == len(DTYPES)


def test_the_preprocessor_leaves_no_macro():
    text = dtype_switch.preprocessed("macros")
    assert "int FloatVector_add(FloatVector *c" in text
    assert "Vector_(" not in text
    assert "num *data" not in text


def test_a_tag_limits_the_dtypes_and_the_error_names_kernel_and_dtype():
    np.testing.assert_array_equal(sqrt(np.array([4.0])), [2.0])
    with pytest.raises(NoKernelForDtype, match='"lab_sqrt" is not compiled for Long'):
        sqrt(np.array([4]))


@pytest.mark.parametrize(
    ("a", "b", "error", "words"),
    [
        (np.ones(3), np.ones(4), ValueError, r"\(3,\) and \(4,\)"),
        (np.ones((2, 2)), np.ones((2, 2)), ValueError, "one length"),
        (np.ones(3), np.ones(3, np.int32), NoKernelForDtype, "float64 and int32"),
        (np.ones(3, np.complex64), np.ones(3, np.complex64), NoKernelForDtype, "complex64"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_values(a, b, error, words):
    with pytest.raises(error, match=words):
        add("macros", a, b)


def test_the_c_function_itself_refuses_unequal_lengths():
    import ctypes

    library = dtype_switch._load("macros")
    a, b, c = np.ones(3), np.ones(4), np.zeros(3)
    vectors = [dtype_switch._Vector(x.ctypes.data, x.size) for x in (c, a, b)]
    assert library.DoubleVector_add(*map(ctypes.byref, vectors)) == 1
    assert not c.any()


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(dtype_switch.shutil, "which", lambda name: None)
    with pytest.raises(dtype_switch.CompilerMissing, match="apt install"):
        dtype_switch.build("macros")


def test_a_header_without_guard_cannot_be_included_twice(tmp_path):
    twice = '#include "add.h"\n#include "add.h"\n'
    folder = dtype_switch.SOURCES / "macros"
    for guarded in (True, False):
        text = (folder / "add.h").read_text()
        if not guarded:
            text = text.replace("#ifndef LAB_ADD_H\n#define LAB_ADD_H\n", "").replace("#endif", "")
        (tmp_path / "add.h").write_text(text)
        (tmp_path / "twice.c").write_text(twice)
        flags = ["-std=c11", "-fsyntax-only", f"-I{folder}", "twice.c"]
        done = subprocess.run(
            [dtype_switch.compiler("c"), *flags], cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode == 0) is guarded


def test_an_unknown_way_lists_the_known():
    with pytest.raises(ValueError, match="by_hand, templates, macros, switch"):
        dtype_switch.source_files("magic")
    assert set(dtype_switch.source_files("switch")) == {
        "switch/add.cpp", "switch/dispatch.h", "macros/dtypes.h",
    }  # fmt: skip
