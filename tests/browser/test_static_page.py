"""The exported page, opened as a file with the network off, with and without JavaScript."""

from pathlib import Path

import nbformat

from labkit import show
from labkit.widgets.static_page import STATE, VIEW, render_page, run_notebook, widget_page


def test_offline_the_slider_moves_the_grid(new_lab, page_file):
    with new_lab(offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        strides, broadcast = lab.widget(0), lab.widget(1)
        assert lab.page.locator(".lk-picture").count() == 0
        strides.locator('[data-key="grid 1"]').focus()
        lab.press("ArrowRight", "ArrowDown")
        assert strides.get_attribute("data-address") == "5"
        strides.locator('[data-key="edit 0"]').click()
        strides.locator('[data-key="offset range 0"]').focus()
        lab.press("ArrowRight")
        assert strides.get_attribute("data-state") == "outside"
        broadcast.locator(".lk-stepper input").focus()
        lab.press("End")
        assert "strides [0, 1, 0]" in broadcast.inner_text()
        lab.screenshot("static_page")


def test_a_memory_map_is_drawn_once_when_its_page_opens(new_lab, tmp_path):
    snapshots = Path(__file__).parents[1] / "memory" / "fixtures" / "snapshots"
    view = show.memory(snapshots / "train_resnet.pickle.gz", what_if=(), whole=True)
    page = tmp_path / "map.html"
    page.write_text(widget_page(view, "map"), encoding="utf-8")
    with new_lab(offline=True) as lab:
        lab.page.goto(page.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        two_frames = "done => requestAnimationFrame(() => requestAnimationFrame(done))"
        lab.page.evaluate(f"() => new Promise({two_frames})")
        assert lab.widget(0).get_attribute("data-draws") == "1"
        entries = view.meta["whole"]
        assert entries > 1000
        assert f"{entries:,} entries" in lab.widget(0).inner_text()


def test_without_javascript_the_pictures_stand_there(new_lab, page_file):
    with new_lab(java_script_enabled=False, offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        pictures = lab.page.locator(".lk-picture")
        assert pictures.count() == 2
        for n in range(2):
            box = pictures.nth(n).bounding_box()
            assert box["width"] > 200
            assert box["height"] > 80
        assert "StrideView(x [3, 4]" in pictures.first.get_attribute("alt")
        lab.screenshot("static_page_without_javascript")


def test_an_untrusted_notebook_shows_the_picture(lab, page_file):
    """As after a git clone: saved outputs whose widgets JupyterLab does not bring to life."""
    notebook = run_notebook(page_file.with_name("demo.ipynb"))
    notebook.metadata.pop("widgets")
    saved = page_file.with_name("cloned.ipynb")
    nbformat.write(notebook, saved)
    lab.open_copy(saved, run=False)
    lab.page.locator(".lk-picture").nth(1).wait_for()
    assert lab.page.locator(".lk").count() == 0
    assert lab.page.locator(".lk-picture").first.bounding_box()["width"] > 200


PAYLOADS = (
    "<!--<script>",
    "<!--<script ",
    "<!-- <SCRIPT>",
    "</script>",
    "</SCRIPT\n>",
    "<script>window.ran = 1</script>",
    "--><script>window.ran = 1</script>",
    "]]><!--<script>-->",
    '<img src="data:," onerror="window.ran = 1">',
    "\\u003c/script>\u2028\u2029'\"`${window.ran = 1}&lt;",
)
ECHO = "export default { render({ model, el }) { el.textContent = model.get('text'); } }"


def test_no_text_ends_or_changes_the_script_that_holds_the_state(new_lab, tmp_path):
    """Each payload as a name in a widget, as a kernel's text, as a source and as the title."""
    states = {
        f"w{n}": {"state": {"_esm": f"{ECHO} // {text!r}", "text": text}}
        for n, text in enumerate(PAYLOADS)
    }
    outputs = [
        nbformat.v4.new_output("display_data", {VIEW: {"model_id": name}, "text/plain": text})
        for name, text in zip(states, PAYLOADS, strict=True)
    ]
    outputs += [nbformat.v4.new_output("stream", text=f"{text}\n") for text in PAYLOADS]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("\n".join(PAYLOADS), outputs=outputs)],
        metadata={"widgets": {STATE: {"state": states}}},
    )
    page = tmp_path / "page.html"
    page.write_text(render_page(notebook, "".join(PAYLOADS)), encoding="utf-8")
    with new_lab(offline=True) as lab:
        lab.page.goto(page.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        shown = lab.page.evaluate(
            "() => [...document.querySelectorAll('[data-widget]')].map((one) => one.textContent)"
        )
        assert tuple(shown) == PAYLOADS
        assert lab.page.title().split() == "".join(PAYLOADS).split()
        assert lab.page.evaluate("() => window.ran ?? null") is None
