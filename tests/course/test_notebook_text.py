import json

import nbformat
import pytest

from labkit.cli import main
from labkit.course.chapters.editions import leaks, solved, student, tasks
from labkit.course.chapters.front_matter import front_matter_problems, front_matter_text
from labkit.course.chapters.lint import problems
from labkit.course.chapters.notebook_text import from_text, to_text
from labkit.course.notebook_form import canonical, read_notebook, tags, text_of

TEXT = """# ---
# title: Why did `a` change?
# builds: a 60-line engine
# minutes: 45
# exercise_minutes: 30
# goals:
# - say who owns the bytes
# difficulty: 2
# document: 001 Pytorch Core Code Research
# sections: 2.3
# needs:
# - 2_core_code/3_strides
# - 0_start_here
# claims:
# - D1-2.3-c
# anchors:
# - torch/version.py
# ---

# %% [markdown]
# ## A section
#
#     indented

# %%
from labkit import course

# %% tags=["keep_output"]
1 + 1

# %%
guess = course.predict("How many?", {1: "one", 2: "two"})
guess

# %% [markdown]
# Add up the values. `add_up([1, 2])` is 3.

# %% tags=["exercise"] id="stub"
def add_up(values):
    raise NotImplementedError

# %% id="check"
course.check("toys.add_up", add_up)

# %% [markdown] tags=["solution"]
# ```python
# def add_up(values):
#     total = 0  # nobody else writes this line
#     for value in values:
#         total += value
#     return total
# ```
#
# `sum` does it too.

# %% [markdown]
# ## In PyTorch

# %% tags=["backstage"]
found = measure()

# %%
course.checked({"D1-2.3-c": found == 3}, settles={'D1-2.3-d': "more"})
"""
FRONT, SECTION, IMPORT, SUM, GUESS, TASK, STUB, CHECK, REAL, MEASURE, TABLE = range(11)
"""Where its cells lie in the notebook."""


@pytest.fixture
def notebook():
    return from_text(TEXT)


def test_text_becomes_a_valid_notebook(notebook):
    nbformat.validate(nbformat.reads(text_of(notebook), as_version=4))
    sources = [cell["source"] for cell in notebook["cells"]]
    assert sources[0] == front_matter_text(notebook["metadata"]["labkit"])
    assert sources[SECTION] == "## A section\n\n    indented"
    assert [tags(cell) for cell in notebook["cells"]][SUM:] == [
        ["keep_output"], ["predict"], [], ["exercise"], ["check", "raises-exception"], [],
        ["backstage"], ["backstage", "claim:D1-2.3-c", "claim:D1-2.3-d"],
    ]  # fmt: skip


def test_there_and_back_is_the_same(notebook):
    assert from_text(to_text(notebook)) == notebook
    assert text_of(canonical(notebook)) == text_of(notebook)


def test_ids_and_outputs_stay_when_the_text_is_edited(notebook):
    output = {"output_type": "execute_result", "data": {"text/plain": "2"}, "execution_count": 9}
    notebook["cells"][SUM]["outputs"] = [{**output, "metadata": {}}]
    before = canonical(notebook)
    edited = TEXT.replace("## A section", "## Another name").replace(
        "# %%\nfrom labkit", "# %%\n0\n\n# %%\nfrom labkit"
    )
    after = from_text(edited, before)
    by_source = {cell["source"]: cell for cell in after["cells"]}
    for cell in before["cells"][2:]:
        assert by_source[cell["source"]]["id"] == cell["id"]
    assert by_source["## Another name\n\n    indented"]["id"] == before["cells"][SECTION]["id"]
    kept = by_source["1 + 1"]
    assert kept["outputs"][0]["data"] == {"text/plain": "2"}
    assert kept["execution_count"] == 3, "the third code cell now"
    changed = from_text(TEXT.replace("1 + 1", "1 + 2"), before)
    assert all(not cell.get("outputs") for cell in changed["cells"])


def test_canonical_form_drops_what_changes_from_run_to_run(notebook):
    cell = notebook["cells"][SUM]
    cell["metadata"] |= {"collapsed": True, "execution": {"iopub.status.busy": "now"}}
    cell["execution_count"] = 41
    cell["outputs"] = [
        {
            "output_type": "execute_result",
            "execution_count": 41,
            "metadata": {"x": 1},
            "data": {
                "text/plain": "<object at 0x7f08048cea40>",
                "application/vnd.jupyter.widget-view+json": {"model_id": "ab"},
            },
        }
    ]
    notebook["cells"][IMPORT]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x"}
    ]
    notebook["metadata"]["widgets"] = {"state": {}}
    notebook["metadata"]["kernelspec"] = {"name": "my-conda"}
    notebook["cells"].append({"cell_type": "code", "id": "e", "metadata": {}, "source": "  \n"})
    notebook["cells"][GUESS]["id"] = notebook["cells"][TASK]["id"] = "twice"
    clean = canonical(notebook)
    assert set(clean["metadata"]) == {"kernelspec", "language_info", "labkit"}
    assert clean["metadata"]["kernelspec"]["name"] == "python3"
    kept = clean["cells"][SUM]
    assert kept["outputs"][0]["data"] == {"text/plain": "<object at 0x0>"}
    assert kept["execution_count"] == kept["outputs"][0]["execution_count"] == 2
    assert kept["metadata"] == {"tags": ["keep_output"]}
    bare = clean["cells"][IMPORT]
    assert bare["outputs"] == [] and bare["execution_count"] is None
    assert len({cell["id"] for cell in clean["cells"]}) == len(clean["cells"]) == TABLE + 1
    assert canonical(clean) == clean


def test_the_solved_edition_runs_the_solution(notebook):
    edition = solved(notebook)
    sources = "\n".join(cell["source"] for cell in edition["cells"])
    assert "NotImplementedError" not in sources and "total += value" in sources
    assert "raises-exception" not in [tag for cell in edition["cells"] for tag in tags(cell)]
    assert 'os.environ["LABKIT_PROGRESS"] = "off"' in edition["cells"][1]["source"]
    assert edition["cells"][0]["cell_type"] == "markdown"


def test_the_student_edition_holds_no_line_of_the_solution(notebook):
    edition = text_of(student(notebook))
    assert leaks(notebook, edition) == []
    assert "total += value" in " ".join(leaks(notebook, text_of(notebook)))
    hidden_in_output = json.loads(edition)
    hidden_in_output["cells"][SUM]["outputs"] = [{"text": ["x\n", "    total += value\n"]}]
    assert leaks(notebook, json.dumps(hidden_in_output)) == ["total += value"]
    hidden_in_metadata = json.loads(edition)
    hidden_in_metadata["metadata"]["x"] = "total = 0  # nobody else writes this line"
    assert leaks(notebook, json.dumps(hidden_in_metadata))


def test_a_line_that_stands_elsewhere_is_no_leak(notebook):
    assert "def add_up(values):" not in leaks(notebook, text_of(notebook))


def test_an_exercise_without_solution_is_an_error(notebook):
    del notebook["cells"][STUB]["metadata"]["solution"]
    with pytest.raises(ValueError, match="has no solution"):
        solved(notebook)
    assert tasks(notebook)[0].ids == ["toys.add_up"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# ---\n# title: x\n", "never ends"),
        ("# ---\n# a: [\n# ---\n", "not YAML"),
        ("# ---\n# words\n# ---\n", "not keys and values"),
        ("# ---\n# mood: good\n# ---\n", "unknown keys \\['mood'\\]"),
        ("print(1)\n# %%\n", "before the first"),
        ("# %% tags=[exercise]\n1\n", "list of strings"),
    ],
)
def test_text_that_cannot_be_read_says_why(text, says):
    with pytest.raises(ValueError, match=says):
        from_text(text)


def test_front_matter_must_be_complete(notebook):
    about = notebook["metadata"]["labkit"]
    assert front_matter_problems(about) == []
    for key in about:
        assert front_matter_problems({k: v for k, v in about.items() if k != key})
    assert front_matter_problems({**about, "difficulty": 6})
    assert front_matter_problems({**about, "minutes": True})
    assert front_matter_problems({**about, "mood": "good"})
    assert front_matter_problems(None)


def test_lint_sees_what_is_wrong(tmp_path, notebook):
    broken = {
        "claim D1-2.3-c has no cell": lambda n: n["cells"].pop(TABLE),
        "no stub": lambda n: n["cells"][STUB].update(source="def add_up(values): ..."),
        "needs one check": lambda n: n["cells"].pop(CHECK),
        "needs a solution": lambda n: n["cells"][STUB]["metadata"].pop("solution"),
        "does not parse": lambda n: n["cells"][STUB]["metadata"].update(
            solution=["```python\n", "def (\n", "```"]
        ),
        "the unknown tag 'solution'": lambda n: n["cells"][REAL]["metadata"].update(
            tags=["solution"]
        ),
        "no exercise 'toys.add_up'": lambda n: None,
        "is not in the plan": lambda n: None,
        "In PyTorch": lambda n: n["cells"].pop(REAL),
        "no magics": lambda n: n["cells"][IMPORT].update(source="!pip install torch"),
        "no claim D4-9.9-z": lambda n: n["cells"][SUM]["metadata"].update(tags=["claim:D4-9.9-z"]),
        "PyTorch has no file": lambda n: n["metadata"]["labkit"].update(anchors=["torch/no.py"]),
        "keeps no output": lambda n: None,
        "canonical form": lambda n: n["metadata"].update(widgets={}),
        "has no 'minutes'": lambda n: n["metadata"]["labkit"].pop("minutes"),
    }
    path = tmp_path / "toys.ipynb"
    for says, break_it in broken.items():
        copy = json.loads(json.dumps(notebook))
        break_it(copy)
        path.write_text(text_of(copy), encoding="utf-8")
        assert any(says in problem for problem in problems(path)), (says, problems(path))


def test_lint_of_a_file_that_is_no_notebook(tmp_path):
    path = tmp_path / "no.ipynb"
    path.write_text("{", encoding="utf-8")
    assert "is not a notebook" in problems(path)[0]


def test_the_command_line(tmp_path, capsys):
    text, path = tmp_path / "toys.py", tmp_path / "toys.ipynb"
    text.write_text(TEXT, encoding="utf-8")
    assert main(["notebooks", "import", str(text), str(path)]) == 0
    assert main(["notebooks", "export", str(path), str(tmp_path / "back.py")]) == 0
    assert from_text((tmp_path / "back.py").read_text()) == read_notebook(path)
    assert main(["notebooks", "clean", "--check", str(path)]) == 0
    path.write_text(path.read_text().replace("python3", "conda"), encoding="utf-8")
    assert main(["notebooks", "clean", "--check", str(path)]) == 1
    assert main(["notebooks", "clean", str(path)]) == 0
    assert main(["notebooks", "clean", "--check", str(path)]) == 0
    for edition in ("solved", "student"):
        assert main(["notebooks", edition, str(tmp_path / edition), str(path)]) == 0
    assert "nobody else" not in (tmp_path / "student" / "toys.ipynb").read_text()
    assert main(["notebooks", "solved", str(tmp_path), str(path)]) == 1, "over its own source"
    assert main(["notebooks", "lint", str(path)]) == 1
    assert main(["notebooks", "export", str(tmp_path / "none.ipynb")]) == 1
    capsys.readouterr()
    assert main(["notebooks", "list", str(path)]) == 0
    assert "45 min  Why did `a` change?" in capsys.readouterr().out


def test_the_first_line_names_no_chapter_that_is_not_written(notebook):
    about = notebook["metadata"]["labkit"]
    planned = {**about, "needs": ["2_core_code/3_strides", "2_core_code/99_not_there"]}
    assert "· after: Strides · builds" in front_matter_text(planned)
    alone = front_matter_text({**about, "needs": ["2_core_code/99_not_there"]})
    assert "exercises · builds" in alone
    lettered = {**about, "needs": ["1_fundamentals/6b_kept_for_backward"]}
    assert "· after: Kept for backward ·" in front_matter_text(lettered)
    language = {**about, "needs": ["2_core_code/10_python_meets_c"]}
    assert "· after: Python meets C ·" in front_matter_text(language)
    plain = {**about, "needs": [], "builds": ""}
    assert front_matter_text(plain).endswith("\n\n45 min + 30 min exercises")


def test_a_chapter_has_one_line_of_front_matter_and_hidden_cells(notebook):
    assert notebook["cells"][FRONT]["source"] == (
        "# Why did `a` change?\n\n"
        "45 min + 30 min exercises · after: Strides, Start here · builds: a 60-line engine"
    )
    hidden = [at for at, cell in enumerate(notebook["cells"]) if "jupyter" in cell["metadata"]]
    assert hidden == [GUESS, MEASURE, TABLE]
    assert notebook["cells"][GUESS]["metadata"]["jupyter"] == {"source_hidden": True}


def test_the_task_begins_at_its_own_heading(notebook):
    stub = next(at for at, cell in enumerate(notebook["cells"]) if "exercise" in tags(cell))
    task = notebook["cells"][stub - 1]
    task["source"] = f"**A rule of the lesson.**\n\n## Exercise\n\n{task['source']}"
    (found,) = tasks(notebook)
    assert found.statement.startswith("#") and "of the lesson" not in found.statement


def test_only_hidden_sources_are_kept_of_what_jupyter_notes(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["jupyter"] = {"outputs_hidden": True, "source_hidden": True}
    assert text_of(canonical(notebook)) == text_of(from_text(TEXT, notebook))


def test_a_solution_stands_in_no_cell_and_only_the_solved_edition_runs_it(notebook):
    assert not [cell for cell in notebook["cells"] if "nobody else" in cell["source"]]
    (task,) = tasks(notebook)
    assert task.statement == "Add up the values. `add_up([1, 2])` is 3."
    assert task.solution_code.startswith("def add_up(values):\n    total = 0")
    assert task.solution_words == "`sum` does it too."
    text = to_text(notebook)
    assert text.index('id="check"') < text.index("nobody else") < text.index("## In PyTorch")
    (answer,) = [cell for cell in solved(notebook)["cells"] if cell["id"] == "stub"]
    assert "nobody else" in answer["source"] and "solution" not in answer["metadata"]


def test_a_solution_above_every_exercise_is_refused():
    with pytest.raises(ValueError, match="above the first exercise"):
        from_text('# %% [markdown] tags=["solution"]\n# words\n' + TEXT.partition("# ---\n\n")[2])
