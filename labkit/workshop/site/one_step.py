"""The picture of the first page: one training step, which the visitor's slider walks."""

import tempfile
from pathlib import Path

import nbformat

from labkit.widgets.static_page import render_page, run_notebook

STEP = "one_step.html"
CELL = """\
import labkit as lab
from labkit import show

images = lab.randn(4, 6).to("cuda")
first, second = lab.nn.Linear(6, 5).to("cuda"), lab.nn.Linear(5, 1).to("cuda")
optimizer = lab.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

def step():
    hidden = first(images).relu()
    loss = second(hidden).square().mean()
    loss.backward()
    optimizer.step()

show.training_step(step, title="One training step, in five lanes")
"""


def step_page() -> str:
    """The page of one step, in five lanes; it runs in a kernel, as a reader's cell does.

    Raises   RuntimeError   the cell failed
    """
    notebook = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
        cells=[nbformat.v4.new_code_cell(CELL)]  # type: ignore[no-untyped-call]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one_step.ipynb"
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        executed = run_notebook(path)
    for cell in executed.cells:
        cell.metadata["transient"] = {"remove_source": True}
        cell.outputs = [output for output in cell.outputs if output.output_type != "stream"]
    return render_page(executed, "One training step")
