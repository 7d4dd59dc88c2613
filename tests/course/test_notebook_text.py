import json

import nbformat
import pytest

from labkit.cli import main
from labkit.course.editions import leaks, solved, student, tasks
from labkit.course.front_matter import front_matter_problems, front_matter_text
from labkit.course.lint import problems
from labkit.course.notebook_form import canonical, read_notebook, tags, text_of
from labkit.course.notebook_text import from_text, to_text

TEXT = '''# ---
# title: 'Toys: a small chapter'
# after:
# - add up
# minutes: 5
# difficulty: 1
# document: 004 PyTorch Fundamental
# sections: 1.1
# needs: []
# claims:
# - D4-1.1-a
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
course.claim("D4-1.1-a", holds=False)

# %% tags=["exercise"]
def add_up(values):
    raise NotImplementedError

# %%
course.check("toys.add_up", add_up)

# %% [markdown]
"""
<details><summary>Solution</summary>

```python
def add_up(values):
    total = 0  # nobody else writes this line
    for value in values:
        total += value
    return total
```

</details>
"""

# %% [markdown]
# ## In PyTorch
'''


@pytest.fixture
def notebook():
    return from_text(TEXT)


def test_text_becomes_a_valid_notebook(notebook):
    nbformat.validate(nbformat.reads(text_of(notebook), as_version=4))
    sources = [cell["source"] for cell in notebook["cells"]]
    assert sources[0] == front_matter_text(notebook["metadata"]["labkit"])
    assert sources[1] == "## A section\n\n    indented"
    assert [tags(cell) for cell in notebook["cells"]][3:8] == [
        ["keep_output"], ["claim:D4-1.1-a"], ["exercise"], ["check", "raises-exception"],
        ["solution"],
    ]  # fmt: skip


def test_there_and_back_is_the_same(notebook):
    assert from_text(to_text(notebook)) == notebook
    assert text_of(canonical(notebook)) == text_of(notebook)


def test_ids_and_outputs_stay_when_the_text_is_edited(notebook):
    output = {"output_type": "execute_result", "data": {"text/plain": "2"}, "execution_count": 9}
    notebook["cells"][3]["outputs"] = [{**output, "metadata": {}}]
    before = canonical(notebook)
    edited = TEXT.replace("## A section", "## Another name").replace(
        "# %%\nfrom labkit", "# %%\n0\n\n# %%\nfrom labkit"
    )
    after = from_text(edited, before)
    by_source = {cell["source"]: cell for cell in after["cells"]}
    for cell in before["cells"][2:]:
        assert by_source[cell["source"]]["id"] == cell["id"]
    assert by_source["## Another name\n\n    indented"]["id"] == before["cells"][1]["id"]
    kept = by_source["1 + 1"]
    assert kept["outputs"][0]["data"] == {"text/plain": "2"}
    assert kept["execution_count"] == 3, "the third code cell now"
    changed = from_text(TEXT.replace("1 + 1", "1 + 2"), before)
    assert all(not cell.get("outputs") for cell in changed["cells"])


def test_canonical_form_drops_what_changes_from_run_to_run(notebook):
    cell = notebook["cells"][3]
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
    notebook["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    notebook["metadata"]["widgets"] = {"state": {}}
    notebook["metadata"]["kernelspec"] = {"name": "my-conda"}
    notebook["cells"].append({"cell_type": "code", "id": "e", "metadata": {}, "source": "  \n"})
    notebook["cells"][4]["id"] = notebook["cells"][5]["id"] = "twice"
    clean = canonical(notebook)
    assert set(clean["metadata"]) == {"kernelspec", "language_info", "labkit"}
    assert clean["metadata"]["kernelspec"]["name"] == "python3"
    kept = clean["cells"][3]
    assert kept["outputs"][0]["data"] == {"text/plain": "<object at 0x0>"}
    assert kept["execution_count"] == kept["outputs"][0]["execution_count"] == 2
    assert kept["metadata"] == {"tags": ["keep_output"]}
    assert clean["cells"][2]["outputs"] == [] and clean["cells"][2]["execution_count"] is None
    assert len({cell["id"] for cell in clean["cells"]}) == len(clean["cells"]) == 9
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
    hidden_in_output["cells"][3]["outputs"] = [{"text": ["x\n", "    total += value\n"]}]
    assert leaks(notebook, json.dumps(hidden_in_output)) == ["total += value"]
    hidden_in_metadata = json.loads(edition)
    hidden_in_metadata["metadata"]["x"] = "total = 0  # nobody else writes this line"
    assert leaks(notebook, json.dumps(hidden_in_metadata))


def test_a_line_that_stands_elsewhere_is_no_leak(notebook):
    assert "def add_up(values):" not in leaks(notebook, text_of(notebook))


def test_an_exercise_without_solution_is_an_error(notebook):
    notebook["cells"] = [cell for cell in notebook["cells"] if "solution" not in tags(cell)]
    with pytest.raises(ValueError, match="has no solution"):
        solved(notebook)
    assert tasks(notebook)[0].ids == ["toys.add_up"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# ---\n# title: x\n", "never ends"),
        ("# ---\n# a: [\n# ---\n", "not YAML"),
        ("# ---\n# words\n# ---\n", "not keys and values"),
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
        "has no cell": lambda n: n["cells"].pop(4),
        "no stub": lambda n: n["cells"][5].update(source="def add_up(values): ..."),
        "needs one check": lambda n: n["cells"].pop(6),
        "one solution": lambda n: n["cells"].pop(7),
        "does not parse": lambda n: n["cells"][7].update(source="```python\ndef (\n```"),
        "no exercise 'toys.add_up'": lambda n: None,
        "is not in the plan": lambda n: None,
        "In PyTorch": lambda n: n["cells"].pop(8),
        "unknown tag": lambda n: n["cells"][1]["metadata"].update(tags=["important"]),
        "no magics": lambda n: n["cells"][2].update(source="!pip install torch"),
        "no claim D4-9.9-z": lambda n: n["cells"][1]["metadata"].update(tags=["claim:D4-9.9-z"]),
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
    assert "Solution" not in (tmp_path / "student" / "toys.ipynb").read_text()
    assert main(["notebooks", "solved", str(tmp_path), str(path)]) == 1, "over its own source"
    assert main(["notebooks", "lint", str(path)]) == 1
    assert main(["notebooks", "export", str(tmp_path / "none.ipynb")]) == 1
    capsys.readouterr()
    assert main(["notebooks", "list", str(path)]) == 0
    assert "5 min  Toys: a small chapter" in capsys.readouterr().out


FORM_2 = """# ---
# form: 2
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

# %%
guess = course.predict("How many?", {1: "one", 2: "two"})
guess

# %% tags=["backstage"]
found = measure()

# %%
course.checked({"D1-2.3-c": found == 3}, settles={'D1-2.3-d': "more"})
"""


def test_the_first_line_names_no_chapter_that_is_not_written():
    about = from_text(FORM_2)["metadata"]["labkit"]
    planned = {**about, "needs": ["2_core_code/3_strides", "2_core_code/99_not_there"]}
    assert "· after: Strides · builds" in front_matter_text(planned)
    alone = front_matter_text({**about, "needs": ["2_core_code/99_not_there"]})
    assert "exercises · builds" in alone


def test_a_chapter_of_form_2_has_one_line_of_front_matter_and_hidden_cells():
    notebook = from_text(FORM_2)
    front, ask, measure, table = notebook["cells"]
    assert front["source"] == (
        "# Why did `a` change?\n\n"
        "45 min + 30 min exercises · after: Strides, Start here · builds: a 60-line engine"
    )
    assert tags(ask) == ["predict"] and tags(measure) == ["backstage"]
    assert tags(table) == ["backstage", "claim:D1-2.3-c", "claim:D1-2.3-d"]
    hidden = [cell["metadata"].get("jupyter") for cell in notebook["cells"]]
    assert hidden == [None, *[{"source_hidden": True}] * 3]
    nbformat.validate(json.loads(text_of(notebook)))
    assert text_of(from_text(to_text(notebook), notebook)) == text_of(notebook)


def test_only_hidden_sources_are_kept_of_what_jupyter_notes():
    notebook = from_text(FORM_2)
    for cell in notebook["cells"]:
        cell["metadata"]["jupyter"] = {"outputs_hidden": True, "source_hidden": True}
    assert text_of(canonical(notebook)) == text_of(from_text(FORM_2, notebook))
    older = from_text(TEXT)
    older["cells"][2]["metadata"] = {"tags": ["predict"], "jupyter": {"source_hidden": True}}
    assert "jupyter" not in canonical(older)["cells"][2]["metadata"]


def test_front_matter_of_form_2_says_what_is_missing():
    about = from_text(FORM_2)["metadata"]["labkit"]
    assert front_matter_problems(about) == []
    assert front_matter_problems({**about, "after": []}) == [
        "metadata.labkit has the unknown key 'after'"
    ]
    less = {key: value for key, value in about.items() if key != "exercise_minutes"}
    assert front_matter_problems(less) == ["metadata.labkit has no 'exercise_minutes'"]
    plain = {**about, "needs": [], "builds": ""}
    assert front_matter_text(plain).endswith("\n\n45 min + 30 min exercises")


EXERCISE = """
# %% [markdown]
# Add up the values. `add_up([1, 2])` is 3.

# %% tags=["exercise"] id="stub"
def add_up(values):
    raise NotImplementedError

# %% id="check"
course.check("toys.add_up", add_up)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def add_up(values):
#     return sum(values)  # nobody else writes this line
# ```
#
# Python has it already.
# </details>

# %% [markdown]
# ## Next
"""


def test_a_solution_of_form_2_stands_in_no_cell_and_only_the_solved_edition_runs_it():
    notebook = from_text(FORM_2 + EXERCISE)
    assert not [cell for cell in notebook["cells"] if "nobody else" in cell["source"]]
    (task,) = tasks(notebook)
    assert task.statement == "Add up the values. `add_up([1, 2])` is 3."
    assert task.solution_code.startswith("def add_up(values):\n    return sum")
    assert task.solution_words == "Python has it already."
    text = to_text(notebook)
    assert text.index('id="check"') < text.index("nobody else") < text.index("## Next")
    assert "<details>" not in text
    assert text_of(from_text(text, notebook)) == text_of(notebook)
    nbformat.validate(json.loads(text_of(notebook)))
    assert leaks(notebook, text_of(notebook))
    assert leaks(notebook, text_of(student(notebook))) == []
    assert "nobody else" not in text_of(student(notebook))
    (answer,) = [cell for cell in solved(notebook)["cells"] if cell["id"] == "stub"]
    assert "nobody else" in answer["source"] and "solution" not in answer["metadata"]


def test_a_solution_above_every_exercise_is_refused():
    with pytest.raises(ValueError, match="above the first exercise"):
        from_text(FORM_2 + '\n# %% [markdown] tags=["solution"]\n# words\n')
