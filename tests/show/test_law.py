"""Points against a law: where they stand, what is said of them, and whose seconds are refused."""

import re
from xml.etree import ElementTree

import pytest

from labkit import cuda, show
from labkit.cuda.emulator.driver import EmulatorDriver

ALIVE = {1: 66, 2: 35, 4: 22, 8: [14, 15, 19], 16: 20, 32: 33}


def valley(**more):
    return show.law({"alive": ALIVE}, {"k + 64/k": lambda k: k + 64 / k}, x="segments", **more)


def parts(picture):
    return ElementTree.fromstring(picture._repr_html_())


def test_the_words_hold_every_number_and_name_the_point_that_is_farthest_off():
    first, head, *rows = repr(valley(y="tensors")).splitlines()
    assert first == ("alive against k + 64/k; farthest off: alive at 4 is 1.1 x k + 64/k [tensors]")
    assert head.split() == ["segments", "alive", "k", "+", "64/k"]
    assert [row.split() for row in rows][3] == ["8", "15", "(14", "to", "19)", "16"]
    assert len(rows) == 6


def test_points_on_the_law_are_said_to_be_there():
    assert repr(show.law({"m": {1: 2}}, {"law": 2.001})).startswith(
        "m against law; every point is within 0.1 %"
    )


def test_a_point_stands_where_its_numbers_say():
    svg = parts(valley(log="x")).find(".//svg[@role='img']")
    places = [(mark.get("x"), float(mark.get("y"))) for mark in svg.findall("svg[@x]")]
    assert [x for x, _ in places] == ["0.00%", "20.00%", "40.00%", "60.00%", "80.00%", "100.00%"]
    assert places[0][1] == 0 and abs(places[5][1] - 240 * 33 / 66) < 0.1
    upright = [one for one in svg.findall("line") if one.get("x1") == one.get("x2") == "60.00%"]
    assert any(
        (float(one.get("y1")), float(one.get("y2")))
        == pytest.approx([240 * 52 / 66, 240 * 47 / 66], abs=0.1)
        for one in upright
    )


def test_a_curve_goes_through_what_the_law_says():
    svg = parts(show.law({"m": {0: 0, 10: 9}}, {"twice": lambda x: 2 * x, "most": 20}))
    double, bound = svg.findall(".//svg[@role='img']//polyline")
    points = [tuple(map(float, one.split(","))) for one in double.get("points").split()]
    assert points[0] == (0, 100) and points[-1] == (100, 0)
    assert all(abs(x + y - 100) < 0.02 for x, y in points)
    assert {y for _, y in (p.split(",") for p in bound.get("points").split())} == {"0.00"}
    assert double.get("stroke-dasharray") != bound.get("stroke-dasharray")


def test_where_a_law_says_nothing_finite_it_is_not_drawn():
    picture = show.law({"m": {1: 1, 2: 4}}, {"pole": lambda x: 1 / (x - 1) if x != 1 else 1e999})
    assert repr(picture).splitlines()[2].split() == ["1", "1"]
    assert "inf" not in picture._repr_html_()


def test_a_law_may_be_worked_out_place_by_place_and_further_than_was_measured():
    picture = show.law({"m": {2: 4}}, {"table": {0: 0, 2: 4, 4: 8}})
    curve = parts(picture).find(".//svg[@role='img']//polyline").get("points")
    assert curve == "0.00,100.00 50.00,50.00 100.00,0.00"
    assert repr(picture).splitlines()[2].split() == ["2", "4", "4"]


def test_the_picture_has_its_words_beside_it_and_none_of_them_is_markup():
    page = parts(show.law({"<b>": {1: 2}}, {"<i>": 3}, x="<u>", y="<em> each", title="<p>"))
    svg = page.find(".//svg[@role='img']")
    assert svg.get("aria-label") == "<p>; farthest off: <b> at 1 is 0.667 x <i>"
    assert [cell.text for cell in page.iter("th")] == ["<u>", "<b>", "<i>", "1"]
    assert [cell.text for cell in page.iter("td")] == ["2", "3"]


def test_series_differ_by_form_and_the_picture_takes_the_width_of_its_place():
    picture = show.law({"one": {1: 1}, "two": {1: 2}}, {})
    forms = re.findall(r'viewBox="-7 -7 14 14"><path d="(.*?)"', picture._repr_html_())
    assert len(set(forms)) == 2
    assert parts(picture).find(".//svg[@role='img']").get("width") == "100%"


@pytest.mark.parametrize("unit", ["ms", "MP/s", "frames per second", "fps", "% of the time", "µs"])
def test_seconds_need_a_clock_and_the_emulator_has_none(unit):
    with pytest.raises(ValueError, match="counts seconds: say whose"):
        show.law({"m": {1: 1}}, {}, y=unit)
    with pytest.raises(ValueError, match="counts seconds: say whose"):
        show.ladder({"m": 1}, "m", unit)
    emulator = EmulatorDriver(capacity=1 << 20)
    with cuda.use(emulator):
        for clock in ("emulator", emulator, "cuda", "lab"):
            with pytest.raises(ValueError, match="not of a GPU: draw what it counts"):
                show.law({"m": {1: 1}}, {}, y=unit, clock=clock)
            with pytest.raises(ValueError, match="not of a GPU: draw what it counts"):
                show.ladder({"m": 1}, "m", unit, clock=clock)
    assert "(clock: cpu)" in repr(show.law({"m": {1: 1}}, {}, y=unit, clock="cpu"))


@pytest.mark.parametrize("unit", ["tensors", "sectors", "FLOPs", "times", "passes", "bytes"])
def test_counts_need_no_clock(unit):
    assert unit in repr(show.law({"m": {1: 1}}, {}, y=unit))


@pytest.mark.parametrize(
    ("measured", "more", "why"),
    [
        ({}, {}, "without a measured point"),
        ({"m": {}}, {}, "without a measured point"),
        ({"m": {1: []}}, {}, "finite numbers"),
        ({"m": {1: float("nan")}}, {}, "finite numbers"),
        ({"m": {0: 1}}, {"log": "x"}, "0.0 has no place on a logarithmic axis x"),
        ({"m": {1: [1, -1]}}, {"log": "y"}, "-1.0 has no place on a logarithmic axis y"),
        ({"m": {1: 1}}, {"log": "z"}, "it may be"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(measured, more, why):
    with pytest.raises(ValueError, match=why):
        show.law(measured, {}, **more)


def test_a_long_number_keeps_others_from_its_room():
    def written(*places):
        texts = parts(show.law({"m": dict.fromkeys(places, 1)}, {}, log="x")).findall(".//text")
        return [text.text for text in texts if text.get("text-anchor") == "middle"]

    assert written(14.2, 17, 137) == ["14.2", "17", "137"]
    assert written(243_314, 291_674, 2_352_016) == ["243,314", "2.352 M"]
    assert written(0.41077, 9.3663, 22.261) == ["0.5", "1", "2", "5", "10", "20"]


def test_a_rung_is_divided_by_its_peer_turn_by_turn():
    rungs = {"mine": [1, 2, 9], "theirs": [2, 4, 6], "half": 2, "twice": [4, 8, 12]}
    picture = show.ladder(rungs, "theirs", "reads")
    assert repr(picture).splitlines() == [
        "percent of reads beside theirs",
        "mine: 50 % (50 to 150)",
        "theirs: the peer, 100 %",
        "half: 50 % (33.3 to 100)",
        "twice: 200 %",
    ]
    mine, theirs, half, twice = (
        float(mark.get("x").rstrip("%")) for mark in parts(picture).findall(".//svg/svg")
    )
    assert mine == half and twice == 100
    assert twice - theirs == pytest.approx(theirs - half, abs=0.02)
    assert show.ladder({"none": 0, "all": 2}, "all")._repr_html_().count('x="0.00%"') == 1


@pytest.mark.parametrize(
    ("rungs", "error"),
    [
        ({"a": 1}, KeyError),
        ({"a": 1, "peer": 0}, ValueError),
        ({"a": [1, 2], "peer": [1, 2, 3]}, ValueError),
    ],
)
def test_a_ladder_needs_a_peer_in_the_same_turns(rungs, error):
    with pytest.raises(error):
        show.ladder(rungs, "peer")
