"""Every notebook and every `Source` line; a notebook added tomorrow is found by itself."""

import json
from pathlib import Path

import nbformat
import pytest

from labkit.course import exercises
from labkit.course.cards import card
from labkit.course.chapters.claims_index import build_index, index_problems
from labkit.course.chapters.editions import leaks, solved, student, tasks
from labkit.course.chapters.lint import problems
from labkit.course.chapters.notebook_text import from_text, to_text
from labkit.course.claims import SUPPORTS, all_claims
from labkit.course.notebook_form import notebook_name, notebook_paths, read_notebook, text_of
from labkit.course.plan import planned
from labkit.course.sources import anchor_problem, docstring_anchors, pinned_files

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [pytest.param(path, id=notebook_name(path)) for path in notebook_paths()]
MODULES = sorted((ROOT / "labkit").rglob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_notebook_is_as_the_course_wants_it(path):
    assert problems(path) == []


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_notebook_is_valid_and_carries_no_widget_state(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert "widgets" not in notebook["metadata"]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_notebook_survives_the_way_to_text_and_back(path):
    notebook = read_notebook(path)
    again = from_text(to_text(notebook), notebook)
    assert text_of(again) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_editions_hold_what_they_should(path):
    notebook = read_notebook(path)
    without = text_of(student(notebook))
    assert leaks(notebook, without) == []
    with_solutions = text_of(solved(notebook))
    for task in tasks(notebook):
        assert "raise NotImplementedError" not in with_solutions
        assert leaks(notebook, text_of(notebook)), "the leak test sees a solution that is there"
        assert json.dumps(task.solution_code.splitlines()[-1])[1:-1] in with_solutions


def test_claims_index_is_current_and_complete():
    assert index_problems() == []


def test_finished_chapters_own_their_claims():
    finished = {notebook_name(path) for path in notebook_paths()}
    owned = {claim for name in finished for claim in planned().get(name, {"claims": []})["claims"]}
    assert set(build_index()) == owned


def test_plan_and_claims_agree():
    owners = [claim for entry in planned().values() for claim in entry["claims"]]
    assert sorted(owners) == sorted(all_claims())
    assert {entry["verdict"] for entry in all_claims().values()} == {*SUPPORTS, "unverifiable"}


def test_a_title_stands_in_the_notebook_or_else_in_the_plan():
    written = {notebook_name(path) for path in notebook_paths()}
    assert {name for name, entry in planned().items() if "title" not in entry} == written


def test_plan_points_backwards():
    before: set[str] = set()
    for name, entry in planned().items():
        assert before >= set(entry["needs"]), name
        before.add(name)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_source_lines_name_files_of_pytorch(module):
    assert [found for a in docstring_anchors(module) if (found := anchor_problem(a))] == []


def test_an_anchor_to_nowhere_is_seen():
    assert anchor_problem("c10/core/TensorImplementation.h")
    assert anchor_problem("aten/src/ATen/native/TensorShapes.cpp")
    assert anchor_problem("torch/version.py no_such_name")
    assert anchor_problem("") and anchor_problem("torch/../../secrets.py")
    assert not anchor_problem("c10/core/TensorImpl.h TensorImpl::set_sizes_and_strides")
    assert not anchor_problem("tools/autograd/derivatives.yaml")


def test_a_type_that_is_only_mentioned_is_seen():
    assert anchor_problem("c10/core/DispatchKeySet.h TensorImpl")
    assert not anchor_problem("c10/core/DispatchKeySet.h DispatchKeySet")


def test_symbols_and_neighbours_of_a_source_line_are_anchors(tmp_path):
    module = tmp_path / "module.py"
    lines = ("c10/core/Device.h  Device, Device::is_cpu", "torch/nn/modules/linear.py, conv.py")
    module.write_text('"""A word.\n\nSource   ' + "\n         ".join(lines) + '\n"""\n')
    assert list(docstring_anchors(module)) == [
        "c10/core/Device.h Device",
        "c10/core/Device.h Device::is_cpu",
        "torch/nn/modules/linear.py ",
        "torch/nn/modules/conv.py",
    ]


def test_pinned_files_are_not_also_installed():
    from labkit.course.sources import installed_file

    assert [path for path in sorted(pinned_files()) if installed_file(path)] == []


def test_a_file_nested_beyond_reason_is_no_notebook(tmp_path):
    path = tmp_path / "deep.ipynb"
    path.write_text('{"a":' * 50_000 + "1" + "}" * 50_000)
    with pytest.raises(ValueError, match=r"deep\.ipynb is not a notebook"):
        read_notebook(path)


@pytest.mark.parametrize("module", exercises.modules())
def test_exercise_module_belongs_to_a_chapter_of_the_plan(module):
    name = exercises.notebook_of(module)
    assert name in planned()
    assert {e.name for e in exercises.in_module(module)} <= set(planned()[name]["exercises"])


@pytest.mark.parametrize(
    "exercise",
    [e for module in exercises.modules() for e in exercises.in_module(module)],
    ids=lambda e: e.id,
)
def test_exercise_has_cases_that_come_back(exercise):
    from labkit.course.compare import as_plain, difference

    for number, size in ((0, 0), (1, exercise.sizes), (2, exercise.sizes // 2)):
        one, other = (exercise.make(7, number, size) for _ in range(2))
        for given, again in zip(one.inputs, other.inputs, strict=True):
            try:
                assert difference(as_plain(given), as_plain(again)) == ""
            except TypeError:  # a class of the exercise's own: compared by its text
                assert repr(given) == repr(again)
    assert len(exercise.hints) >= 3 and len(exercise.must_fail) >= 3
    assert card(exercise.id).statement, "the markdown above the stub says what to do"


@pytest.mark.parametrize("module", exercises.modules())
def test_exercise_module_has_wrong_answers(module):
    text = (ROOT / "tests" / "course" / f"test_{module}.py").read_text(encoding="utf-8")
    assert f'Answers("{module}")' in text and "test_answers = answers.tests()" in text
