"""`labkit notebooks`: write, clean and check notebooks, and make their editions.

One `.ipynb` per chapter, `notebooks/<folder>/<number>_<name>.ipynb`, is the only source. Edit it in
JupyterLab, or as text:

    labkit notebooks export NOTEBOOK chapter.py     # edit chapter.py, then
    labkit notebooks import chapter.py NOTEBOOK     # ids and unchanged outputs are kept
    labkit notebooks refresh NOTEBOOK               # run it, store outputs of keep_output cells
    labkit notebooks lint NOTEBOOK                  # everything the hygiene tests ask
    labkit notebooks index                          # claim id -> notebook and cell

What a chapter holds, in order (the lint asks all of it):

1. Front matter, written from the header (`KEYS` of `front_matter`): a title, which is a
   question or a failure, and one line. Goals, claims and anchors stay in the metadata.
2. The puzzle in two to four sentences, then one visible cell of at most six lines with a picture or
   a real error. At most six visible lines of imports in all; helpers go into a cell tagged
   `backstage`, whose source is hidden. A name that only such a cell makes is said in backticks
   before visible code uses it, or right below.
3. Loops of *question, predict, run, look, rule*, through which one artefact grows. Nothing visible
   is longer than twelve lines of eighty columns, and at most ninety words stand between two things
   to do or see.

       guess = course.predict("How many nodes?", {3: "why not", 4: "why: {calls} calls"})
       guess                                         # this cell's source is hidden

       guess.reveal(len(nodes), calls=calls)         # one visible line after the run

4. At most three margin notes (tag `note`, a quotation of at most forty words).
5. Exercises (`labkit.course.exercise`): the task in prose, the stub (tag `exercise`, raises
   NotImplementedError where something is still to be written), the check
   (`course.check("tensors.promote", promote)`), and below it as text a cell tagged `solution` with
   a ```python block and why it is so. In the notebook the solution lies in the stub's metadata: it
   opens on the exercise's card, after the last hint or on request.
6. The headings Recap (with the artefact, whole), In PyTorch, Next.
7. Hidden at the end, the claims the chapter owns in one folded table, each decided by a value of
   the run: `course.checked({"D4-1.3-a": (holds, {"found": found})}, settles={...}, dated={...})`.

Its minutes are words / 130 + 0.4 for a visible cell + 1 for a prediction; those of its exercises
are the exercises' own, without the boss.

What a reader wrote is used further on: `count = course.yours(waits, finished)` in a hidden cell
calls the finished one while `waits` is a stub, or its check refuses it.

Tags: `exercise`, `check` and `raises-exception` (added by import, so that Run All goes on past a
wrong answer), `solution` (as text only), `predict`, `backstage`, `note`, `keep_output`
(deterministic output that `pytest --nbval` compares; never under a question, where it would be read
first), `claim:<id>`, and `raises-exception` alone for a cell meant to fail.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.course.chapters.claims_index import index_problems, write_index
from labkit.course.chapters.editions import leaks, solved, student
from labkit.course.chapters.lint import problems
from labkit.course.chapters.notebook_text import from_text, to_text
from labkit.course.notebook_form import (
    ROOT,
    Notebook,
    canonical,
    notebook_paths,
    read_notebook,
    tags,
    text_of,
    write_notebook,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    for name, (_, summary) in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        if name == "import":
            action.add_argument("text", type=Path)
            action.add_argument("notebook", type=Path)
        elif name == "export":
            action.add_argument("notebook", type=Path)
            action.add_argument(
                "text", type=Path, nargs="?", help="a file; standard output if none"
            )
        else:
            if name in ("solved", "student"):
                action.add_argument("out", type=Path, help="folder to write the edition to")
            if name in ("clean", "index"):
                action.add_argument("--check", action="store_true", help="only say what is not so")
            if name != "index":
                action.add_argument(
                    "notebooks", type=Path, nargs="*", help="all of them if none is named"
                )


def run(arguments: argparse.Namespace) -> int:
    """Do one action; the exit status is 1 when something is not as it should be."""
    try:
        return ACTIONS[arguments.action][0](arguments)
    except (OSError, ValueError) as error:
        print(f"labkit notebooks {arguments.action}: {error}", file=sys.stderr)
        return 1


def _chosen(arguments: argparse.Namespace) -> list[Path]:
    return arguments.notebooks or notebook_paths()


def _list(arguments: argparse.Namespace) -> int:
    for path in _chosen(arguments):
        about = read_notebook(path)["metadata"].get("labkit", {})
        minutes, title = about.get("minutes", "?"), about.get("title", "")
        print(f"{_name(path):<52}{minutes:>4} min  {title}")
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    status = 0
    for path in _chosen(arguments):
        before, after = path.read_text(encoding="utf-8"), text_of(canonical(read_notebook(path)))
        if before == after:
            continue
        if arguments.check:
            status = 1
            print(f"{_name(path)} is not in canonical form: labkit notebooks clean {_name(path)}")
        else:
            path.write_text(after, encoding="utf-8")
            print(f"cleaned {_name(path)}")
    return status


def _edition(make: Callable[[Notebook], Notebook], arguments: argparse.Namespace) -> int:
    for path in _chosen(arguments):
        notebook = read_notebook(path)
        text = text_of(make(notebook))
        if make is student and (found := leaks(notebook, text)):
            raise ValueError(f"{_name(path)} would show a line of its solution: {found[0]!r}")
        inside = path.resolve().is_relative_to(ROOT / "notebooks")
        target = arguments.out / (
            path.resolve().relative_to(ROOT / "notebooks") if inside else path.name
        )
        if target.resolve() == path.resolve():
            raise ValueError(f"{target} is the source; name another folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"wrote {target}")
    return 0


def _solved(arguments: argparse.Namespace) -> int:
    return _edition(solved, arguments)


def _student(arguments: argparse.Namespace) -> int:
    return _edition(student, arguments)


def _import(arguments: argparse.Namespace) -> int:
    target: Path = arguments.notebook
    before = read_notebook(target) if target.exists() else None
    write_notebook(from_text(arguments.text.read_text(encoding="utf-8"), before), target)
    print(f"wrote {target}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    text = to_text(read_notebook(arguments.notebook))
    if arguments.text is None:
        print(text, end="")
    else:
        arguments.text.write_text(text, encoding="utf-8")
    return 0


def _refresh(arguments: argparse.Namespace) -> int:
    for path in _chosen(arguments):
        notebook = read_notebook(path)
        outputs = executed_outputs(solved(notebook), path.parent)
        for cell in notebook["cells"]:
            if "keep_output" in tags(cell):
                cell["outputs"] = outputs[cell["id"]]
        write_notebook(notebook, path)
        print(f"refreshed {_name(path)}")
    return 0


def executed_outputs(notebook: Notebook, folder: Path) -> dict[str, list[dict[str, object]]]:
    """Run a notebook in a folder and return the outputs of its code cells by cell id."""
    import nbformat
    from nbclient import NotebookClient

    running = nbformat.reads(text_of(notebook), as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(running, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    cells = json.loads(json.dumps(running))["cells"]
    return {cell["id"]: cell["outputs"] for cell in cells if cell["cell_type"] == "code"}


def _index(arguments: argparse.Namespace) -> int:
    if arguments.check:
        found = index_problems()
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    print(f"wrote {write_index()}")
    return 0


def _lint(arguments: argparse.Namespace) -> int:
    found = [
        f"{_name(path)}: {problem}" for path in _chosen(arguments) for problem in problems(path)
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def _name(path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(ROOT) if resolved.is_relative_to(ROOT) else path)


ACTIONS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "list": (_list, "name every notebook with its minutes"),
    "import": (_import, "write a notebook from text"),
    "export": (_export, "write a notebook as text"),
    "clean": (_clean, "bring notebooks into canonical form"),
    "lint": (_lint, "say what the hygiene tests would say"),
    "refresh": (_refresh, "run the solved edition and store the outputs of keep_output cells"),
    "index": (_index, "write notebooks/claims_index.json"),
    "solved": (_solved, "write the edition the tests run: every stub replaced by its solution"),
    "student": (_student, "write the edition without solutions"),
}
