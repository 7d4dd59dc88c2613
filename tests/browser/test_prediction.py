"""Predictions in JupyterLab and on static pages: nothing told before it is asked for."""

import nbformat
import pytest

from labkit.widgets.static_page import render_page, run_notebook

ASK = """guess = course.predict("How many nodes has `y`?", {
    3: "one per tensor would be three, and `x` is a leaf",
    4: "one per call, {calls} of them",
})
guess"""
CELLS = ["from labkit import course", ASK, "calls = 4", "guess.reveal(calls, calls=calls)"]
TOLD = ("would be three", "one per call", "Right", "Not right", "The answer: 4")

pytestmark = pytest.mark.browser


def verdict(lab, widget, kind):
    lab.wait_for("([node, kind]) => node.dataset.verdict === kind", [widget.element_handle(), kind])


def visible(lab):
    """The page's words, without the source of the cells."""
    return " ".join(lab.page.locator(".lk:visible").all_inner_texts())


def open_run(lab):
    lab.open(CELLS)
    asked, told = lab.widget(0), lab.widget(1)
    lab.wait_drawn(told)
    verdict(lab, asked, "open")
    verdict(lab, told, "open")
    return asked, told


def test_after_run_all_without_a_choice_nothing_is_told_and_a_click_is_judged(lab):
    asked, told = open_run(lab)
    assert not [words for words in TOLD if words in visible(lab)]
    assert "Answer above first" in told.inner_text()
    lab.screenshot("prediction_open", of=asked)
    asked.get_by_label("predict 3", exact=True).focus()
    lab.press("Enter")
    verdict(lab, asked, "wrong")
    verdict(lab, told, "wrong")
    assert (
        "✗ Not right. one per tensor would be three" in asked.locator("[role=status]").inner_text()
    )
    assert "one per call" not in visible(lab), "the reason of another choice"
    assert asked.get_by_label("predict 3: Not right.").get_attribute("aria-pressed") == "true"
    lab.wait_until("guess.choice", "3")
    lab.screenshot("prediction_wrong", of=asked)
    asked.get_by_label("take the prediction back").click()
    verdict(lab, asked, "open")
    lab.wait_until("guess.choice", "")
    lab.press("ArrowRight", "Tab", "Enter")  # the focus is on the first choice again
    verdict(lab, asked, "right")
    assert "✓ Right. one per call, 4 of them" in told.inner_text()
    lab.wait_until("guess.right", True)
    lab.screenshot("prediction_right")


def test_a_choice_before_the_run_is_noted_and_judged_by_it(lab):
    lab.open(CELLS[:2])
    asked = lab.widget(0)
    lab.wait_drawn(asked)
    asked.get_by_label("predict 4", exact=True).click()
    lab.wait_until("guess.choice", "4")
    assert "Noted" in asked.inner_text()
    lab.execute("guess.reveal(4, calls=4)")
    verdict(lab, asked, "right")


def test_the_answer_can_be_asked_for_and_a_reopened_notebook_still_judges(lab):
    open_run(lab)
    lab.save()
    saved = lab.path.read_text(encoding="utf-8")
    state = saved.partition('"widgets"')[2]
    assert state and "would be three" not in state and "one per call" not in state
    lab.reopen()
    asked, told = lab.widget(0), lab.widget(1)
    verdict(lab, told, "open")
    told.get_by_label("show the answer without a choice").click()
    verdict(lab, asked, "shown")
    assert "The answer: 4. one per call, 4 of them" in told.inner_text()
    asked.get_by_label("predict 3", exact=True).click()
    verdict(lab, told, "wrong")


def test_a_static_page_asks_judges_and_hides_what_it_should(new_lab, tmp_path):
    run = "calls = 4\nprint('it has', calls)"
    cells = [nbformat.v4.new_code_cell(source) for source in (*CELLS[:2], run, CELLS[3])]
    cells[1].metadata["tags"] = ["predict"]
    cells[2].metadata["tags"] = ["backstage"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "demo.ipynb")
    html = render_page(run_notebook(tmp_path / "demo.ipynb"), "demo")
    assert not [words for words in (*TOLD[:2], "calls = 4") if words in html]
    (tmp_path / "demo.html").write_text(html, encoding="utf-8")
    with new_lab(offline=True) as lab:
        lab.page.goto((tmp_path / "demo.html").as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        asked, told = lab.widget(0), lab.widget(1)
        assert not [words for words in TOLD if words in lab.page.locator("body").inner_text()]
        assert not lab.page.get_by_text("it has 4", exact=True).is_visible()
        lab.screenshot("prediction_static_keeps_back")
        asked.get_by_label("predict 4", exact=True).click()
        verdict(lab, asked, "right")
        verdict(lab, told, "right")
        assert lab.page.get_by_text("it has 4", exact=True).is_visible()
        lab.screenshot("prediction_static")


def test_what_the_run_shows_waits_for_the_answer(lab):
    """After Run All a picture between the question and its reveal would tell the answer."""
    lab.open([*CELLS[:2], "calls = 4\nprint('it has', calls)", CELLS[3], "print('behind')"])
    asked, told = lab.widget(0), lab.widget(1)
    verdict(lab, told, "open")
    run, behind = (lab.page.get_by_text(text, exact=True) for text in ("it has 4", "behind"))
    lab.wait_for("() => document.querySelectorAll('.lk-kept').length === 2")
    assert not run.is_visible() and not behind.is_visible()
    lab.screenshot("prediction_keeps_back")
    asked.get_by_label("predict 3", exact=True).click()
    verdict(lab, told, "wrong")
    assert run.is_visible() and behind.is_visible()
    asked.get_by_label("take the prediction back").click()
    verdict(lab, told, "open")
    assert run.is_visible(), "what was seen once is not taken away"


@pytest.fixture
def lesson(tmp_path):
    """Two questions, text and outputs around their reveals, a warm-up, and a next section."""
    texts = (
        "Look at `calls`.",
        "**Rule.** A call makes a node.",
        "### Warm-up: nodes\n\nA call makes one: count them.",
        "## Exercise: more nodes\n\nAnd now of two.",
        "## Next\n\nWhat a leaf is.",
    )
    look, rule, warm_up, core, following = map(nbformat.v4.new_markdown_cell, texts)
    other = ASK.replace("guess", "other").replace("How many", "Again, how many")
    more = ["print('more')", other, "other.reveal(calls, calls=calls)", "print('end')"]
    codes = map(nbformat.v4.new_code_cell, [*CELLS, *more, "print('section')"])
    imports, asks, run, reveals, *behind, section = codes
    cells = [imports, asks, look, run, reveals, rule, warm_up, core, *behind, following, section]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


def test_the_text_that_draws_the_conclusion_waits_and_the_next_section_does_not(lab, lesson):
    lab.open_copy(lesson)
    conclusion_waits(lab)


def test_so_it_does_on_a_static_page(new_lab, lesson):
    page = lesson.with_suffix(".html")
    page.write_text(render_page(run_notebook(lesson), "lesson"), encoding="utf-8")
    with new_lab(offline=True) as lab:
        lab.page.goto(page.as_uri())
        conclusion_waits(lab)


def conclusion_waits(lab):
    look, rule, following = (
        lab.page.locator("p", has_text=words)
        for words in ("Look at calls.", "A call makes a node.", "What a leaf is.")
    )
    more, end, section = (
        lab.page.get_by_text(text, exact=True) for text in ("more", "end", "section")
    )
    heading = lab.page.locator("h3", has_text="Warm-up: nodes")
    core = lab.page.locator("h2", has_text="Exercise: more nodes")
    task, tasks = (
        lab.page.locator("p", has_text=end) for end in ("count them.", "And now of two.")
    )
    section.wait_for()
    lab.wait_for("() => document.querySelectorAll('.lk-kept-text').length === 5")
    verdict(lab, lab.widget(3), "open")
    assert not (rule.is_visible() or more.is_visible() or end.is_visible())
    assert lab.widget(2).is_visible() and section.is_visible()
    assert heading.is_visible() and core.is_visible()
    assert not (task.is_visible() or tasks.is_visible()), "an exercise repeats the rule"
    assert look.is_visible(), "it stands before the reveal"
    assert following.is_visible(), "a section of its own"
    lab.screenshot("prediction_keeps_the_rule")
    lab.widget(0).get_by_label("predict 3", exact=True).click()
    verdict(lab, lab.widget(1), "wrong")
    assert rule.is_visible() and task.is_visible() and tasks.is_visible()
    assert more.is_visible() and not end.is_visible()


def test_another_question_between_does_not_wait(lab):
    """The chapter that stands between a first guess and its end is not kept from anybody."""
    other = ASK.replace("guess", "other").replace("How many", "Again, how many")
    lab.open([*CELLS[:2], "print('the chapter')", other, CELLS[2], CELLS[3]])
    verdict(lab, lab.widget(2), "open")
    assert lab.page.get_by_text("the chapter", exact=True).is_visible()
    assert lab.page.locator(".lk-kept").count() == 0
