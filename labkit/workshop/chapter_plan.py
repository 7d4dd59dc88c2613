"""`labkit workshop plan CHAPTER`: one chapter section by section, on two pages."""

from labkit.course.notebook_form import ROOT, read_notebook
from labkit.workshop.plan import (
    WIDTH,
    Lesson,
    asked,
    leave_out,
    lesson_of,
    name_of,
    row,
    workshops,
)
from labkit.workshop.sections import Section, sections_of

SHORT = 20
"""Minutes of the short version."""


def chapter_text(chapter: str) -> str:
    """The plan of a chapter, as text to print.

    Raises   ValueError   there is no such chapter
    """
    if chapter not in workshops()["chapters"]:
        raise ValueError(f"{chapter!r} is no chapter; one is '2_core_code/3_strides'")
    notebook = read_notebook(ROOT / "notebooks" / f"{chapter}.ipynb")
    about = notebook["metadata"]["labkit"]
    sections = sections_of(notebook)
    lesson = lesson_of(chapter, sections)
    lines = [
        f"{about['title']:<{WIDTH - 30}}{'shown':>15}{'alone':>15}",
        *row("open", f"notebooks/{chapter}.ipynb"),
        *row("say", lesson.say),
        *row("in a hurry", _short(sections)),
        *row("when late", leave_out(lesson.late, lesson.late.alone)),
    ]
    for section in sections:
        lines += ["", *_section_lines(section, lesson)]
    return "\n".join(lines)


def _section_lines(section: Section, lesson: Lesson) -> list[str]:
    shown, alone = f"{section.minutes:.0f} min", f"{section.alone:.0f} min"
    lines = [f"{name_of(section):<{WIDTH - 30}}{shown:>15}{alone:>15}"]
    for question in section.questions:
        if question == lesson.question:
            lines += asked(lesson)
        else:
            lines += row("predict", f"{question.text} ({' / '.join(question.reasons)})")
    for task in section.exercises:
        lines += row("exercise", f"{task.name}: {task.rung}, {task.minutes} min")
    for rule in section.rules:
        lines += row("reach", rule)
    return lines


def _short(sections: list[Section]) -> str:
    """How far SHORT minutes lead, with the first warm-up that is met."""
    spent, reached, warm_up = 0.0, sections[0], ""
    for section in sections:
        tasks = [task for task in section.exercises if task.rung == "warm-up"]
        now = spent + section.minutes + (tasks[0].minutes if tasks and not warm_up else 0)
        if now > SHORT:
            break
        spent, reached = now, section
        warm_up = warm_up or (tasks[0].name if tasks else "")
    task = f" and the warm-up {warm_up}" if warm_up else ""
    return f"{spent:.0f} minutes lead to the end of: {name_of(reached)}, with its predictions{task}"
