import numpy as np
import pytest

from labkit.widgets.base import unpack_columns
from labkit.widgets.cuda.tile_view import TileView

GRID = {"name": "heat", "values": np.linspace(0, 1, 6).reshape(2, 3), "heat": True}


def test_text_form_and_picture():
    view = TileView([GRID, {"name": "words", "values": [["a", "b"]]}], title="two grids")
    assert repr(view) == "TileView(heat 2x3, words 1x2)"
    assert all(f">{text}</text>" in view.svg() for text in ("two grids", "0.4", "a", "words 1x2"))


def test_numbers_travel_as_columns():
    view = TileView([GRID | {"owners": np.arange(6).reshape(2, 3)}])
    columns = unpack_columns(view.schema, view.data)
    assert columns["values0"].tolist() == pytest.approx(np.linspace(0, 1, 6).tolist())
    assert columns["owners0"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("layers", "frames", "message"),
    [
        ([{"name": "x", "values": [1, 2]}], [], r"'x' has shape \(2,\)"),
        ([GRID], [{"show": ["cold"]}], "names layer 'cold'; there are heat"),
        ([GRID], [{"marks": {"heat": [(2, 0, "")]}}], r"mark \(2, 0\) lies outside 'heat'"),
        ([GRID], [{"boxes": {"heat": [(0, 0, 3, 1, "")]}}], r"box \(0, 0, 3, 1\) lies outside"),
    ],
)
def test_bad_input_is_named(layers, frames, message):
    with pytest.raises(ValueError, match=message):
        TileView(layers, frames)


def test_an_empty_grid_is_drawn():
    assert "0x3" in TileView([{"name": "none", "values": np.zeros((0, 3))}]).svg()


def test_coverage_is_told_by_colour_sign_and_number():
    status = np.array([["right", "wrong"], ["missing", ""]])
    layer = {"name": "coverage", "values": np.full((2, 2), ""), "status": status}
    view = TileView([layer])
    assert repr(view) == "TileView(coverage 2x2 (1 right, 1 wrong, 1 missing))"
    column = unpack_columns(view.schema, view.data)["status0"]
    assert column.tolist() == [1, 2, 3, 0]
    picture = view.svg()
    assert picture.count(">✓<") == picture.count(">✗<") == picture.count(">○<") == 1
    with pytest.raises(ValueError, match="status 'half' is not one of right, wrong, missing"):
        TileView([layer | {"status": np.full((2, 2), "half")}])
    with pytest.raises(ValueError, match=r"is \(2, 2\), its status \(1, 2\)"):
        TileView([layer | {"status": status[:1]}])
