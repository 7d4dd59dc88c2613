"""The stride view in Python: layouts read back and set, a picture that follows the state."""

import random
from xml.etree import ElementTree

import numpy as np
import pytest

from labkit.widgets.base import pack_columns
from labkit.widgets.strides.affine import address, addresses, reach, touches
from labkit.widgets.strides.stride_picture import formatted
from labkit.widgets.strides.stride_view import StrideView


def view(name="x", sizes=(2, 3), strides=(3, 1), offset=0, **more):
    return {"name": name, "storage": 0, "dtype": "int64", "itemsize": 8, "sizes": list(sizes),
            "strides": list(strides), "offset": offset, **more}  # fmt: skip


def widget(*views, cells=6, **more):
    schema, values = pack_columns({"0:int64": np.arange(cells) + 100})
    store = {"name": "A", "nbytes": 8 * cells, "unit": 8, "dtype": "int64"}
    return StrideView(storages=[store], views=list(views), schema=schema, values=values, **more)


def written(picture):
    return [node.text for node in ElementTree.fromstring(picture).iter() if node.text]


def test_the_layout_is_read_back_and_set_by_name_or_place():
    shown = widget(view(), view("y", (3,), (2,), 1))
    assert shown.layout_of() == ((2, 3), (3, 1), 0)
    assert shown.layout_of("y") == shown.layout_of(1) == ((3,), (2,), 1)
    shown.edit("y", (2, 2), (1, 2), 2)
    assert shown.layout_of("y") == ((2, 2), (1, 2), 2)
    assert shown.layout_of("x") == ((2, 3), (3, 1), 0)
    shown.selected = {"view": 1, "index": [1, 1]}
    assert shown.selected_address == 5


def test_what_does_not_fit_is_refused_with_its_values():
    shown = widget(view())
    with pytest.raises(KeyError, match="no view 'z'"):
        shown.layout_of("z")
    with pytest.raises(KeyError, match="no view 7"):
        shown.layout_of(7)
    with pytest.raises(ValueError, match=r"2 sizes \(2, 3\) but 1 strides \(1,\)"):
        shown.edit("x", (2, 3), (1,))
    with pytest.raises(ValueError, match=r"0 or more, got \(-1,\)"):
        shown.edit("x", (-1,), (1,))
    with pytest.raises(ValueError, match="'x': 2 sizes"):
        widget(view(strides=(1,)))


def test_the_picture_shows_values_addresses_and_the_edited_layout():
    shown = widget(view())
    assert {"100", "105", "@5", "sizes [2, 3] strides [3, 1] offset 0"} <= set(written(shown.svg()))
    shown.edit("x", (2, 2), (4, 1), 0)
    words = written(shown.svg())
    assert "sizes [2, 2] strides [4, 1] offset 0" in words
    assert "@4" in words
    assert "@2" not in words
    assert "url(#hatch)" not in shown.svg()
    shown.edit("x", (2, 2), (6, 1), 0)
    assert "@6" in written(shown.svg())
    assert "url(#hatch)" in shown.svg()  # outside the storage


def test_the_picture_follows_hidden_views_and_the_step():
    steps = [{"text": "make", "alive": [0]}, {"text": "write", "alive": [0, 1],
             "writes": [["0:int64", 2, "777"]]}]  # fmt: skip
    shown = widget(view(), view("y", (3,), (1,)), steps=steps)
    assert "y" not in written(shown.svg())
    assert "777" not in written(shown.svg())
    shown.frame = 1
    assert {"y", "777"} <= set(written(shown.svg()))
    shown.hidden = [0]
    assert "x" not in written(shown.svg())


@pytest.mark.parametrize("sizes", [(), (0,), (3, 0), (1, 1, 1, 1), (50, 50), (2, 2, 2)])
def test_every_rank_and_size_has_a_picture(sizes):
    shown = widget(view(sizes=sizes, strides=(1,) * len(sizes)), cells=200)
    assert f"sizes {list(sizes)}" in " ".join(written(shown.svg()))
    assert "\n" not in repr(shown)


def test_reach_and_touches_say_what_all_addresses_say():
    random.seed(5)
    for _ in range(300):
        rank = random.randrange(4)
        sizes = [random.randrange(4) for _ in range(rank)]
        strides = [random.randrange(-4, 7) for _ in range(rank)]
        offset = random.randrange(9)
        every = list(addresses(sizes, strides, offset))
        found = {at for at in range(-40, 60) if touches(sizes, strides, offset, at)}
        assert found == set(every)
        assert reach(sizes, strides, offset) == ((min(every), max(every)) if every else None)
    assert address([1, 2], [4, 1], 3) == 9


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1, "bool", "T"), (0, "bool", "F"), (7, "uint8", "7"), (2.0, "float32", "2."),
        (0.1, "float64", "0.1"), (1234567.0, "float32", "1.23e+06"),
        (float("nan"), "float32", "nan"), (float("-inf"), "bfloat16", "-inf"), (-5, "int64", "-5"),
    ],
)  # fmt: skip
def test_numbers_are_written_short(value, dtype, text):
    assert formatted(value, dtype) == text
