"""Bars that add up: widths to one scale, names, totals, and the same in words."""

import re

import pytest

from labkit import show


def widths(picture):
    return [float(w) for w in re.findall(r"width:([\d.]+)%;overflow", picture._repr_html_())]


def test_every_piece_has_its_share_of_the_longest_bar():
    picture = show.bars({"one": {"a": 30, "b": 10}, "two": {"b": 20}})
    assert widths(picture) == [75, 25, 50]
    assert repr(picture) == "one: 40 bytes = a 30 + b 10\ntwo: 20 bytes = b 20"


def test_a_name_keeps_its_colour_and_stands_in_the_legend_where_it_has_no_room():
    html = show.bars({"one": {"a": 99, "tiny": 1}, "two": {"tiny": 50}})._repr_html_()
    tiny, other = (re.search(rf'title="tiny: {n} .*?background:(#\w+)"?', html) for n in (1, 50))
    assert tiny[1] == other[1]
    bars, legend = html.split("</table>")
    assert bars.count(">tiny<") == 1 and 'title="tiny: 1 bytes"' in bars
    assert " tiny<" in legend and " a<" not in legend and tiny[1].removesuffix("40") in legend
    assert show.bars({"one": {"a": 1}, "two": 3})._repr_html_().endswith("</table>")


def test_the_peak_is_said_in_words():
    picture = show.bars({"before": 3, "here": 8, "after": 5}, unit="MB", peak=True)
    rows = picture._repr_html_().split("</tr>")[:3]
    assert [row.endswith("the peak</td>") for row in rows] == [False, True, False]
    assert "here: 8 MB, the peak" in repr(picture)
    assert "peak" not in repr(show.bars({"here": 8}))


def test_names_are_no_markup_and_numbers_are_not_negative():
    assert "<b>" not in show.bars({"<b>": {"<b>": 3}})._repr_html_()
    with pytest.raises(ValueError, match="shorter than nothing"):
        show.bars({"one": -1})


def test_a_fraction_is_drawn_and_written():
    bars = show.bars({"one": 12.56, "two": {"a": 6.0, "b": 0.28}}, unit="")
    assert repr(bars) == "one: 12.56 \ntwo: 6.28  = a 6 + b 0.28"
    assert "width:100.00%" in bars._repr_html_() and "width:47.77%" in bars._repr_html_()
