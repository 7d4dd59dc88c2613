"""The stride view in Chromium: pointing, keys, sliders, Python both ways, after a night's sleep."""

import random

import pytest

from labkit.widgets.strides.affine import addresses
from labkit.widgets.strides.stride_view import StrideView

X_AND_T = [
    "import torch\nfrom labkit import show\nx = torch.arange(12).view(3, 4)",
    "w = show.strides(x, x.t())\nw",
]
PROGRAM = r"""
p = show.strides(program="a = torch.arange(6)\nb = a.view(2, 3)\nb[0, 1] = 9\ndel a")
p
"""
LARGE = """
m = torch.arange(1_000_000.).as_strided((300, 64, 64), (3000, 1000, 7))
large = show.strides(m)
large
"""


@pytest.fixture(scope="module")
def notebook(new_lab):
    """One notebook for the tests that only look and move."""
    with new_lab() as lab:
        lab.open([*X_AND_T, PROGRAM, LARGE])
        for place in range(3):
            lab.wait_drawn(lab.widget(place))
        yield lab


@pytest.fixture
def pair(notebook):
    """The notebook with its first widget as it was at the start."""
    notebook.page.mouse.move(4, 4)
    chosen = notebook.widget().evaluate("node => [Number(node.dataset.view), node.dataset.index]")
    index = [int(i) for i in chosen[1].split(",")]
    notebook.wait_until("w.selected", {"view": chosen[0], "index": index})  # nothing under way
    reset = "w.edited, w.hidden, w.selected = {}, [], {'view': 0, 'index': [0, %d]}"
    notebook.execute(reset % 1)
    shows(notebook, index="0,1")
    notebook.execute(reset % 0)
    shows(notebook, index="0,0", state="inside")
    return notebook


def shows(lab, place=0, **data):
    """Wait until a widget's data attributes say this."""
    lab.wait_for(
        "([place, data]) => Object.entries(data).every(([name, value]) =>"
        " document.querySelectorAll('.lk')[place].dataset[name] === value)",
        [place, data],
    )


def part(lab, key, place=0):
    return lab.widget(place).locator(f'[data-key="{key}"]')


def test_arrow_keys_move_the_element_in_command_mode(pair):
    lab = pair
    lab.command_mode()
    part(lab, "grid 1").focus()
    lab.press("ArrowDown", "ArrowDown", "ArrowRight")
    shows(lab, view="1", index="2,1", address="6")
    assert "0 + 2·1 + 1·4 = element 6" in lab.widget().inner_text()
    assert "byte 48" in lab.widget().inner_text()
    lab.wait_until("w.selected", {"view": 1, "index": [2, 1]})
    assert lab.ask("w.selected_address") == 6
    lab.press("End", "ArrowRight")  # stays at the edge
    shows(lab, index="2,2", address="10")
    assert lab.page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex") == 1


def test_arrow_keys_walk_along_the_storage(pair):
    lab = pair
    part(lab, "strip 0").focus()
    lab.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    shows(lab, view="0", index="1,0", address="4")


def test_pointing_at_an_element_lights_its_address_until_the_pointer_leaves(pair):
    lab = pair
    box = part(lab, "grid 0").bounding_box()
    lab.page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] - 12)
    shows(lab, view="0", index="2,3", address="11")
    lab.page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] + 200)
    shows(lab, address="0")
    assert lab.ask("w.selected") == {"view": 0, "index": [0, 0]}
    lab.page.mouse.click(box["x"] + box["width"] - 12, box["y"] + box["height"] - 12)
    lab.wait_until("w.selected", {"view": 0, "index": [2, 3]})


def test_sliders_change_the_layout_and_python_reads_it(pair):
    lab = pair
    part(lab, "edit 0").click()
    part(lab, "stride 1 range 0").focus()
    lab.press("ArrowRight")
    lab.wait_until("w.layout_of(0)", ((3, 4), (4, 2), 0))
    shows(lab, state="outside")
    assert "Elements reach 14, the storage ends at 11" in lab.widget().inner_text()
    part(lab, "size 1 number 0").fill("2")
    shows(lab, state="inside")
    lab.wait_until("torch.as_strided(x, *w.layout_of(0)).tolist()", [[0, 2], [4, 6], [8, 10]])
    part(lab, "reset 0").click()
    lab.wait_until("w.layout_of(0)", ((3, 4), (4, 1), 0))
    part(lab, "edit 0").click()


def test_python_changes_what_is_drawn(pair):
    lab = pair
    lab.execute("w.edit('x', (2, 2), (0, 5), 1); w.selected = {'view': 0, 'index': [1, 1]}")
    shows(lab, view="0", index="1,1", address="6")
    text = lab.widget().inner_text()
    assert "x (edited)" in text
    assert "stride 0 in dim 0" in text
    assert "4 elements on 2 cells" in text
    lab.execute("w.hidden = [0]")
    shows(lab, view="1")
    assert not part(lab, "show 0").is_checked()
    part(lab, "show 0").check()
    lab.wait_until("w.hidden", [])


def test_a_program_steps_forward_and_back(notebook):
    lab, widget = notebook, notebook.widget(1)
    formula = widget.locator(".sv-formula").nth(1)
    lab.command_mode()
    widget.locator(".lk-stepper input").focus()
    lab.press("ArrowRight", "ArrowRight")
    shows(lab, 1, frame="2", view="1")
    assert "version 1" in widget.inner_text()
    assert "b[0, 1] = 9" in widget.locator(".lk-step-text").inner_text()
    lab.wait_until("p.frame", 2)
    part(lab, "grid 1", 1).focus()
    lab.press("ArrowRight")
    shows(lab, 1, index="0,1")
    assert "b[0, 1] = 9" in formula.inner_text()
    lab.execute("p.frame = 1")
    shows(lab, 1, frame="1")
    assert "b[0, 1] = 1" in formula.inner_text()
    lab.execute("p.frame = 3")
    shows(lab, 1, frame="3")
    assert widget.locator(".sv-card").first.is_hidden()


def test_a_large_storage_draws_only_a_window(notebook):
    lab, widget = notebook, notebook.widget(2)
    assert int(widget.get_attribute("data-painted")) < 64 * 64 + 200
    part(lab, "fix 0 0", 2).fill("250")
    shows(lab, 2, index="250,0,0")
    lab.execute("large.selected = {'view': 0, 'index': [250, 63, 63]}")
    shows(lab, 2, address=str(250 * 3000 + 63 * 1000 + 63 * 7))
    part(lab, "grid 0", 2).focus()
    lab.press(*["ArrowUp", "ArrowLeft"] * 15)
    shows(lab, 2, index="250,48,48")
    assert int(widget.get_attribute("data-painted")) < 64 * 64 + 200


def test_the_saved_notebook_shows_the_widget_again(lab):
    lab.open(X_AND_T)
    lab.wait_drawn(lab.widget())
    part(lab, "grid 0").press("ArrowDown")
    shows(lab, index="1,0", address="4")
    lab.wait_until("w.selected['index']", [1, 0])
    lab.save()
    lab.reopen()
    lab.wait_drawn(lab.widget())
    shows(lab, view="0", index="1,0", address="4")
    part(lab, "grid 0").press("ArrowRight")  # and it moves, with nothing run
    shows(lab, index="1,1", address="5")


def test_the_theme_reaches_the_canvas(pair):
    corner = """() => {
        const canvas = document.querySelector('[data-key="strip 0"]');
        return canvas.getContext('2d').getImageData(canvas.width - 8, 8, 1, 1).data[0];
    }"""
    assert pair.page.evaluate(corner) > 200
    pair.use_theme("JupyterLab Dark")
    pair.wait_for(f"() => ({corner})() < 100")
    pair.screenshot("stride_view_dark", pair.widget())
    pair.use_theme("JupyterLab Light")
    pair.wait_for(f"() => ({corner})() > 200")
    pair.screenshot("stride_view_light", pair.widget())


def test_the_browser_counts_addresses_as_python_does(browser):
    """affine.js against every address listed, over random layouts, negative strides included."""
    generator = random.Random(7)
    page = browser.new_page()
    source = StrideView._esm
    start = source.index("const affine =")
    script = source[start : source.index("const pens =")]
    layouts = []
    for _ in range(300):
        rank = generator.randrange(5)
        sizes = [generator.randrange(5) for _ in range(rank)]
        strides = [generator.choice([-3, -1, 0, 1, 2, 3, 4, 7, 12]) for _ in range(rank)]
        layouts.append({"sizes": sizes, "strides": strides, "offset": generator.randrange(12)})
    answers = page.evaluate(
        """([script, layouts]) => {
            const affine = new Function(script + '; return affine;')();
            return layouts.map((view) => ({
                counts: Array.from({ length: 80 }, (_, at) => affine.countAt(view, at - 30, 1e9)),
                found: Array.from({ length: 80 }, (_, at) => affine.indicesAt(view, at - 30, 1e9)
                    .every((index) => affine.address(view, index) === at - 30)),
                touches: affine.touches(view, 5, 9), distinct: affine.distinct(view),
                reach: affine.reach(view),
            }));
        }""",
        [script, layouts],
    )
    page.close()
    for view, answer in zip(layouts, answers, strict=True):
        every = list(addresses(view["sizes"], view["strides"], view["offset"]))
        assert answer["counts"] == [every.count(at - 30) for at in range(80)]
        assert all(answer["found"])
        assert answer["touches"] == any(5 <= at < 9 for at in every)
        assert answer["distinct"] == len(set(every))
        assert answer["reach"] == ([min(every), max(every)] if every else None)


def test_a_simple_loop_names_its_memories_and_the_plane_it_draws(lab):
    simple = "show.strides(torch.ones(4, 3, 2), b, aligned=True, simple=True, at=7)"
    lab.open([X_AND_T[0], f"b = torch.arange(3).view(3, 1)\nsimple = {simple}\nsimple"])
    widget = lab.widget()
    lab.wait_drawn(widget)
    said = widget.inner_text()
    assert "b[1, :, :]" in said and "b[1, 0, 0] = 0, at place 0" in said
    assert "memory of b 3 numbers in a row" in said
    for other in ("use count", "version", "contiguous", "elements on", "edit", "copy", "across"):
        assert other not in said, other
    lab.screenshot("stride_view_simple", of=widget)
