"""What travels to the page, and what is seen where there is none."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from labkit.widgets.base import unpack_columns
from labkit.widgets.cuda.kernel_picture import heat, sector_layout, worst_place
from labkit.widgets.cuda.kernel_view import KernelView

START = 0x7F00_0000_0040


def access(line=2, array="x", space="global", size=4, requests=1, cost=4, ideal=4, file="k.cu"):
    shared = space == "shared"
    return {"file": file, "line": line, "space": space, "access": "read", "array": array,
            "size": size, "requests": requests, "lanes": 32 * requests,
            "sectors": 0 if shared else cost, "ideal_sectors": 0 if shared else ideal,
            "wavefronts": cost if shared else 0,
            "ideal_wavefronts": ideal if shared else 0}  # fmt: skip


def request(access=0, stride=1, mask=0xFFFF_FFFF, warp=0, start=START, size=4):
    addresses = [start + lane * stride * size if mask >> lane & 1 else 0 for lane in range(32)]
    return {"access": access, "block": [0, 1, 2], "warp": warp, "mask": mask, "start": start,
            "addresses": addresses}  # fmt: skip


def finding(line=3, **more):
    return {"kind": "race", "file": "k.cu", "line": line, "other_line": 2, "count": 1,
            "message": "two < threads"} | more  # fmt: skip


def run(accesses=None, requests=None, findings=(), plays=(), **more):
    return {"kernel": "add", "file": "k.cu", "grid": [2, 1, 1], "block": [32, 1, 1],
            "source": ["void add() {", "    x[i];", "    s[i];", "}"], "efficiency": 0.5,
            "events": 9, "blocks_traced": 2, "truncated": False, "races_unchecked": False,
            "lines": [{"line": 2, "runs": 4, "efficiency": 0.75}],
            "accesses": accesses if accesses is not None else [access()],
            "requests": requests if requests is not None else [request()],
            "findings": list(findings), "plays": list(plays)} | more  # fmt: skip


def written(picture):
    return [node.text for node in ElementTree.fromstring(picture).iter() if node.text]


def test_the_text_form_names_the_kernel_its_ratios_and_findings():
    tile = access(3, "s", "shared", cost=8, ideal=1)
    view = KernelView([run([access(cost=32), tile], findings=[finding()])])
    assert repr(view) == (
        "KernelView(add: 8.00x the ideal sectors, 8.00x the ideal wavefronts, 1 finding)"
    )
    assert repr(KernelView([run([], [])] * 2)) == "KernelView(add: 0 findings; add: 0 findings)"


def test_addresses_travel_as_offsets_so_that_no_digit_is_lost():
    wild = request(mask=0b11) | {"start": 0, "addresses": [2**46 + 1, 4] + [0] * 30}
    view = KernelView([run(requests=[request(stride=2, mask=0xFFFF_FF0F), wild])])
    columns = unpack_columns(view.schema, view.data)
    offsets = columns["0.offset"].reshape(2, 32)
    assert offsets[0].tolist() == [0 if 4 <= n < 8 else 8 * n for n in range(32)]
    assert offsets[1][:3].tolist() == [2**46 + 1, 4, 0]
    assert columns["0.phase"].tolist() == [START % 128, 0]
    assert columns["0.mask"].tolist() == [0xFFFF_FF0F, 3]
    assert columns["0.block"].tolist() == [0, 1, 2] * 2
    json.dumps(view.runs)


def test_it_begins_where_memory_is_used_worst():
    accesses = [access(2, cost=4), access(3, "s", "shared", requests=2, cost=64, ideal=2)]
    shown = run(accesses, [request(0), request(1, 32), request(1, 32, warp=1)])
    assert worst_place(shown) == (1, 1)
    view = KernelView([shown])
    assert (view.place, view.frame, view.page) == (1, 1, "requests")
    assert view.runs[0]["places"] == [["k.cu", 2], ["k.cu", 3]]
    assert KernelView([run(findings=[finding()])]).page == "findings"
    assert KernelView([run([], [])]).place == -1


def test_the_picture_has_the_lines_the_findings_and_a_request():
    view = KernelView([run([access(cost=32)], [request(stride=8)], [finding()])])
    words = written(view.svg())
    assert "32 / 4" in words
    assert "75%" in words
    assert "\u00a0\u00a0\u00a0\u00a0x[i];" in words
    assert "line 3: race: two < threads" in words
    assert any("32 lanes read 4 bytes each of x: 32 sectors, 4 would do" in w for w in words)
    assert "+992" not in words  # 32 sectors leave no room for their addresses
    tile = access(3, "s", "shared", requests=1, cost=32, ideal=1)
    shared = KernelView([run([tile], [request(stride=32, start=0)])])
    words = written(shared.svg())
    assert "and 16 passes more" in words
    assert any("32 wavefronts" in w for w in words)
    assert written(KernelView([run([], [])]).svg())


def test_accesses_of_one_line_that_differ_stand_apart():
    both = [access(cost=32), access(array="out", cost=4)]
    assert "32, 4 / 4" in written(KernelView([run(both)]).svg())
    alike = [access(cost=4), access(array="out", requests=3, cost=12, ideal=12)]
    assert "4 / 4" in written(KernelView([run(alike)]).svg())


def test_heat_is_none_at_the_ideal_and_doubles_evenly():
    assert heat(4, 4) == heat(0, 0) == heat(3, 4) == 0
    assert heat(8, 4) == pytest.approx(0.2)
    assert heat(128, 4) == heat(4096, 4) == 1


def test_sectors_that_do_not_touch_are_drawn_apart():
    layout = sector_layout([3, 4, 9], 600)
    assert layout[4][0] - layout[3][0] == layout[3][1]
    assert layout[9][0] - layout[4][0] == layout[3][1] + 6
    many = sector_layout(range(0, 128, 4), 600)
    assert max(x + width for x, width in many.values()) <= 600
    assert np.all(np.diff([x for x, _ in many.values()]) > 0)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="at least one traced launch"):
        KernelView([])
    with pytest.raises(ValueError, match="a request names access 1; there are 1"):
        KernelView([run(requests=[request(1)])])
    with pytest.raises(ValueError, match=r"k.cu has 4 lines; there is no line 9"):
        KernelView([run(findings=[finding(9)])])
