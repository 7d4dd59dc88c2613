"""One switch makes every widget fit for a room: on a page of the site, and in JupyterLab."""

import pytest

ZOOM = 1.6
STEP = "Number(document.querySelector('.lk-stepper').dataset.step)"


def open_page(lab, page_file):
    lab.page.goto(page_file.as_uri())
    lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")


def test_the_switch_of_a_page_magnifies_all_widgets_and_is_kept(new_lab, page_file):
    with new_lab(offline=True) as lab:
        open_page(lab, page_file)
        before = [lab.widget(n).evaluate("node => node.currentCSSZoom") for n in range(2)]
        switch = lab.page.get_by_role("button", name="Projector")
        switch.focus()
        lab.press("Enter")
        after = [lab.widget(n).evaluate("node => node.currentCSSZoom") for n in range(2)]
        assert before == [1, 1]
        assert after == pytest.approx([ZOOM, ZOOM])
        assert switch.get_attribute("aria-pressed") == "true"
        assert not lab.widget(0).locator('[data-key="edit 0"]').is_visible()
        ink = lab.widget(0).evaluate("node => getComputedStyle(node).color")
        assert ink == "rgb(0, 0, 0)"
        lab.screenshot("projector")
        open_page(lab, page_file)
        assert lab.widget(0).evaluate("node => node.currentCSSZoom") == pytest.approx(ZOOM)


def test_a_magnified_grid_is_sharp_and_takes_the_pointer_where_it_is(new_lab, page_file):
    with new_lab(offline=True) as lab:
        open_page(lab, page_file)
        lab.page.get_by_role("button", name="Projector").click()
        grid = lab.widget(0).locator('[data-key="grid 0"]')
        wide = grid.evaluate("node => node.getBoundingClientRect().width")
        lab.wait_for(
            "([node, wide]) => Math.abs(node.width - wide) < 2", [grid.element_handle(), wide]
        )
        box = grid.bounding_box()
        grid.click(position={"x": box["width"] - 10, "y": box["height"] - 10})
        assert lab.widget(0).get_attribute("data-address") == "11"


def test_a_presenter_s_keys_walk_the_steps_and_then_the_page(new_lab, page_file):
    with new_lab(offline=True) as lab:
        open_page(lab, page_file)
        lab.press("PageDown")
        assert lab.page.evaluate(STEP) == 0
        lab.page.get_by_role("button", name="Projector").click()
        lab.widget(1).locator(".lk-stepper").scroll_into_view_if_needed()
        lab.press("PageDown", "PageDown", "PageUp")
        assert lab.page.evaluate(STEP) == 1
        last = lab.page.evaluate("Number(document.querySelector('.lk-stepper input').max)")
        for _ in range(last):
            lab.press("PageDown")
        assert lab.page.evaluate(STEP) == last


def test_jupyterlab_s_presentation_mode_is_the_switch(new_lab):
    with new_lab() as lab:
        lab.page.set_viewport_size({"width": 1280, "height": 720})
        lab.open(["from labkit import show\nshow.broadcast((4, 3, 2), (3, 1))"])
        lab.wait_drawn(lab.widget())
        assert lab.widget().evaluate("node => node.currentCSSZoom") == 1
        lab.command("application:toggle-presentation-mode")
        assert lab.widget().evaluate("node => node.currentCSSZoom") == pytest.approx(ZOOM)
        lab.command_mode()
        lab.press("PageDown", "PageDown")
        assert lab.page.evaluate(STEP) == 2
        lab.screenshot("projector_in_jupyterlab")
        lab.command("application:toggle-presentation-mode")
        assert lab.widget().evaluate("node => node.currentCSSZoom") == 1
