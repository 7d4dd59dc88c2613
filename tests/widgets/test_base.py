"""The base: text without addresses, a picture from the state, columns that keep their values."""

import base64
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import traitlets

from labkit.widgets.base import LabWidget, pack_columns, unpack_columns
from labkit.widgets.picture import PALETTE, Picture
from labkit.widgets.strides.stride_view import StrideView


class Counter(LabWidget):
    count = traitlets.Int(3).tag(sync=True)

    def summary(self):
        return f"{self.count} < 4 & more"


def test_the_text_is_one_line_without_addresses():
    assert repr(Counter()) == repr(Counter()) == "Counter(3 < 4 & more)"


def test_the_mime_bundle_holds_the_view_a_picture_and_the_text():
    data, _ = Counter()._repr_mimebundle_()
    assert data["text/plain"] == "Counter(3 < 4 & more)"
    assert set(data["application/vnd.jupyter.widget-view+json"]) >= {"model_id"}
    source = re.fullmatch(
        r'<img class="lk-picture" alt="Counter\(3 &lt; 4 &amp; more\)" '
        r'src="data:image/svg\+xml;base64,([^"]+)">',
        data["text/html"],
    )
    svg = base64.b64decode(source[1]).decode()
    assert ElementTree.fromstring(svg).get("aria-label") == "Counter(3 < 4 & more)"


def test_a_module_stands_behind_the_helpers_and_travels_without_comments():
    assert StrideView._esm.index("const lk =") < StrideView._esm.index("const affine =")
    assert StrideView._esm.count("export default") == 1
    assert not re.search(r"^\s*//|^\s+\S", StrideView._esm, flags=re.MULTILINE)
    assert len(StrideView._esm) < 64_000


def test_a_picture_is_the_same_every_time_and_escapes_what_it_writes():
    def draw():
        picture = Picture(100, 40.5, label='a "b" <c>')
        picture.text(1 / 3, 2, "<script>")
        picture.rect(0, 0, 10, 10, PALETTE[0])
        return picture.svg()

    assert draw() == draw()
    assert "<script>" not in draw()
    assert ElementTree.fromstring(draw()).get("aria-label") == 'a "b" <c>'


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([0, 255], np.uint8), "u1"),
        (np.array([True, False]), "u1"),
        (np.array([-3, 2**31 - 1]), "i4"),
        (np.array([2**31]), "f8"),
        (np.array([-(2**53)]), "f8"),
        (np.array([2**53 + 1]), "i8"),
        (np.array([2**64 - 1], np.uint64), "u8"),
        (np.array([0.5], np.float16), "f4"),
        (np.array([0.1, np.nan, np.inf]), "f8"),
        (np.array([], np.int64), "i4"),
        (np.array([1, 2], ">i2"), "i2"),
    ],
)
def test_columns_keep_their_values(values, kind):
    schema, buffer = pack_columns({"first": np.zeros(3, np.uint8), "column": values})
    assert schema["column"][0] == kind
    assert schema["column"][1] % 8 == 0
    np.testing.assert_array_equal(unpack_columns(schema, buffer)["column"], values)


def test_what_is_no_column_is_refused_by_name():
    with pytest.raises(TypeError, match=r"'z' has dtype complex128"):
        pack_columns({"z": np.zeros(2, complex)})
    with pytest.raises(ValueError, match=r"'m' must have one dimension, got shape \(2, 2\)"):
        pack_columns({"m": np.zeros((2, 2))})
