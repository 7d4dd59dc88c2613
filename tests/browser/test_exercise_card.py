"""Exercise cards in JupyterLab: failing cases, hints, giving up, reopening."""

import re

import pytest

from labkit.course.exercises.start_here import places

ALONE = """
import os
from labkit import course
from labkit.course.cards import card as card_of
from labkit.course.checking.verdicts import CheckFailed
os.environ["LABKIT_PROGRESS"] = "off"
"""
FAIL = """
def check(answer):
    try:
        course.check("start_here.places", answer, seed=7)
    except CheckFailed:
        pass

check(lambda views: 10_000)
check(lambda views: sum(start for *_, start in views))
"""
CARD = 'card = card_of("start_here.places"); card'

pytestmark = pytest.mark.browser


def literal_parts(exercise):
    """The longest part of each hint in which nothing is filled in."""
    texts = (exercise.hint(at).text for at in range(len(exercise.hints)))
    return [max(re.split(r"{\w+}|[`\"]", text), key=len) for text in texts]


def last_card(lab):
    """The card that a cell asked for; failed checks before it drew cards and pictures, too."""
    return lab.page.locator(".lk[aria-label^='exercise ']").nth(2)


def texts(lab, widget, selector):
    return widget.locator(selector).all_inner_texts()


def test_card_steps_through_failing_cases_and_opens_the_solution(lab):
    lab.open([ALONE, FAIL, CARD])
    card = last_card(lab)
    lab.wait_drawn(card)
    assert len(texts(lab, card, "ul >> nth=-1 >> li")) == 2, "two attempts earned two hints"
    assert "hints still locked" in card.inner_text()
    first = card.locator(".lk-evidence").inner_text()
    drawn = lab.wait_drawn(card)
    card.get_by_label("case forward").click()
    lab.wait_drawn(card, more_than=drawn)
    assert card.locator(".lk-evidence").inner_text() != first
    lab.press("ArrowLeft")
    lab.wait_for("([node, text]) => node.innerText === text", [
        card.locator(".lk-evidence").element_handle(), first,
    ])  # fmt: skip
    assert lab.ask("card.solution") == ""
    card.get_by_label("give up and show the solution").click()
    lab.wait_until("card.status", "gave up")
    card.locator("summary", has_text="Solution").click()
    assert "NotImplementedError" not in card.locator("pre").inner_text()
    lab.screenshot("exercise_card", of=card)


def test_all_attempts_come_from_the_kernel_and_stay_out_of_the_notebook(lab):
    lab.open([ALONE, FAIL, CARD])
    card = last_card(lab)
    lab.wait_drawn(card)
    last = card.locator(".lk-stepper").get_attribute("data-step")
    assert last == "0" and "attempt 2" in card.inner_text()
    card.get_by_label("step through every kept attempt").click()
    lab.wait_for("node => node.innerText.includes('attempt 1,')", card.element_handle())
    lab.save()
    saved = lab.path.read_text(encoding="utf-8")
    assert '"seed": 7' in saved and '"number": 1' not in saved
    earned = len(lab.ask("card.hints"))
    kept = [hint for hint in literal_parts(places) if hint in saved]
    assert 0 < len(kept) == earned < len(places.hints), "no locked hint is in the file"


def test_reopened_card_is_drawn_and_says_when_no_kernel_answers(lab):
    lab.open([ALONE, FAIL, CARD])
    lab.wait_drawn(last_card(lab))
    lab.save()
    lab.reopen()
    card = last_card(lab)
    lab.wait_drawn(card)
    assert "start_here.places" in card.inner_text() and card.locator(".lk-evidence").count() == 1
    assert texts(lab, card, ".lk-evidence th") == ["input", "expected", "got"], "as it was drawn"
    card.get_by_label("give up and show the solution").click()
    lab.wait_for("node => node.innerText.includes('No kernel answers')", card.element_handle())


HALF = """
def half(meta, name, arguments, length):
    sizes, strides, offset = meta
    if name == "select":
        dim, index = arguments
        kept = [at for at in range(len(sizes)) if at != range(len(sizes))[dim]]
        if not -len(sizes) <= dim < len(sizes) or not -sizes[dim] <= index < sizes[dim]:
            raise IndexError(index)
        return tuple(sizes[at] for at in kept), tuple(strides[at] for at in kept), offset
    if name == "unsqueeze":
        dim = arguments[0] % (len(sizes) + 1)
        if not -len(sizes) - 1 <= arguments[0] <= len(sizes):
            raise IndexError(dim)
        return (*sizes[:dim], 1, *sizes[dim:]), (*strides[:dim], 1, *strides[dim:]), offset
    raise NotImplementedError

"""


def test_an_untouched_exercise_shows_its_task_and_stops_nothing(lab):
    stub = "def stub(meta, name, arguments, length):\n    raise NotImplementedError\n"
    check = 'card = course.check("strides.view_machine", stub)\ncard'
    lab.open([ALONE, f"{stub}\n{check}", "after = 1"])
    card = lab.widget()
    lab.wait_drawn(card)
    assert lab.ask("after") == 1
    assert "Your turn. Write the stub above" in card.inner_text()
    assert "arithmetic on tuples only" in card.inner_text(), "the rules stand nowhere else"
    assert not card.locator(".lk-task .lk-prose").first.is_visible(), "the task stands above, too"
    card.get_by_text("The task").click()
    assert card.locator(".lk-task code").first.inner_text().startswith("view_machine(")
    lab.screenshot("exercise_untouched", of=card)
    lab.execute('card.statement = "give *all* of 2 * 3 * 4"')
    lab.wait_for("() => document.querySelector('.lk-task em')?.innerText === 'all'")
    assert card.locator(".lk-task .lk-prose").first.inner_text() == "give all of 2 * 3 * 4"
    table = "| step | takes |\\n|---|---|\\n| 1 | `a \\\\| b`, *all* |\\n| 2 | |"
    lab.execute(f'card.statement = "Fill it:\\n\\n{table}\\n\\nThen stop."')
    lab.wait_for("() => document.querySelector('.lk-prose td em')?.innerText === 'all'")
    assert texts(lab, card, ".lk-table th") == ["step", "takes"]
    assert texts(lab, card, ".lk-table td") == ["1", "a | b, all", "2", ""]
    assert card.locator("details > .lk-prose > p").last.inner_text() == "Then stop."
    lab.execute('card.statement = "step | takes\\n---|---\\n1 | `a`\\n2 | *none*"')
    lab.wait_for("() => document.querySelector('.lk-prose td em')?.innerText === 'none'")
    assert texts(lab, card, ".lk-table td") == ["1", "a", "2", "none"]
    lab.execute('card.hints = ["Ask `owner`, not 2 * 3 * 4."]')
    lab.wait_for("() => document.querySelector('li .lk-prose code')?.innerText === 'owner'")
    assert texts(lab, card, "li .lk-prose")[-1] == "Ask owner, not 2 * 3 * 4."
    lab.screenshot("exercise_table", of=card)


def test_stages_are_marked_by_sign_and_word_and_the_failing_views_are_drawn(lab):
    lab.open([ALONE, HALF + 'course.check("strides.view_machine", half, seed=3)'], run=False)
    lab.command("notebook:run-all-cells")
    card, picture = lab.widget(0), lab.widget(1)
    lab.wait_drawn(picture)
    states = dict(text.split()[:2] for text in texts(lab, card, ".lk-stages li"))
    assert states["unsqueeze"] == "✓" and states["select"] == "✗" and states["view"] == "·"
    assert "select ✗\nwrong" in texts(lab, card, ".lk-stages li"), "for a screen reader"
    assert "expected" in picture.inner_text() and "yours" in picture.inner_text()
    lab.screenshot("exercise_stages")


def test_a_failed_check_shows_the_card_and_a_short_error(lab):
    lab.open([ALONE, 'course.check("start_here.places", lambda views: -1)'], run=False)
    lab.command("notebook:run-all-cells")
    lab.wait_drawn(lab.widget())
    error = lab.page.locator(".jp-OutputArea-output", has_text="CheckFailed").inner_text()
    assert error.startswith("CheckFailed: start_here.places: not yet")
    assert "labkit/course" not in error, "no frames of the checker"
    lab.screenshot("failed_check")


def test_a_card_without_rules_says_nothing_in_their_place(lab):
    lab.open([ALONE, 'card = card_of("memory.bytes_held"); card'])
    card = lab.widget(0)
    lab.wait_drawn(card)
    assert "false" not in card.inner_text()
