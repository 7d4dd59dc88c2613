"""A notebook from a stranger runs nothing when it is opened; without the lab's care it would."""

import base64

import nbformat
import pytest

from labkit.widgets.static_page import STATE, VIEW, run_notebook

TOKEN = "browser-tests"
CURRENT = "jupyterapp.shell.currentWidget"
RESTORED = f"""async id => {{
    const renderer = {CURRENT}.content.rendermime.createRenderer('{VIEW}');
    const manager = await renderer._manager.promise;
    return manager.has_model(id) && !!(await manager.get_model(id));
}}"""
"""Whether the notebook's widget manager has restored a model."""


def mark(name):
    return f"(window.ran ??= []).push('{name}');"


def script(name):
    """A module that marks the page when it is loaded."""
    return f"{mark(name)} export default {{ render() {{}} }}"


VERSIONS = {
    "anywidget": "*",
    "@jupyter-widgets/controls": "2.0.0",
    "@jupyter-widgets/output": "1.0.0",
}


def model(module, name, **state):
    return {
        "model_module": module,
        "model_module_version": VERSIONS[module],
        "model_name": name,
        "state": {"_model_module": module, "_model_name": name, **state},
    }


def controls(name, **state):
    return model("@jupyter-widgets/controls", name, **state)


def source_buffer(name):
    return {
        "path": ["_esm"], "encoding": "base64",
        "data": base64.b64encode(script(name).encode()).decode(),
    }  # fmt: skip


def image(name):
    return f'<img src="data:," onerror="{mark(name)}"><script>{mark(name + " script")}</script>'


LAB_ID = "labkit.StrideView"
STATES = {
    "stranger": model("anywidget", "AnyModel", _anywidget_id="a.B", _esm=script("stranger")),
    "no id": model("anywidget", "AnyModel", _esm=script("no id")),
    "address": model(
        "anywidget", "AnyModel", _anywidget_id="a.C",
        _esm="data:text/javascript," + script("address"),
    ),
    "disguised": model("anywidget", "AnyModel", _anywidget_id=LAB_ID, _esm=script("disguised")),
    "buffer": model("anywidget", "AnyModel", _anywidget_id="a.D")
    | {"buffers": [source_buffer("buffer")]},
    "foreign view": controls(
        "HTMLModel", _view_module="anywidget", _view_name="AnyView", _esm=script("foreign view")
    ),
    "html": controls(
        "HTMLModel", _view_module="@jupyter-widgets/controls", _view_name="HTMLView",
        value=image("html"),
    ),
    "output": model(
        "@jupyter-widgets/output", "OutputModel",
        _view_module="@jupyter-widgets/output", _view_name="OutputView",
        outputs=[{"output_type": "display_data", "metadata": {},
                  "data": {"text/html": image("output"),
                           "application/javascript": mark("output javascript")}}],
    ),
}  # fmt: skip
OUTPUTS = {
    "text/html": image("text/html"),
    "image/svg+xml": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{mark("svg")}"></svg>',
    "application/javascript": mark("application/javascript"),
    "text/markdown": image("text/markdown"),
    "text/latex": image("text/latex"),
}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """A notebook that tries every way, and holds a widget of the lab's own as well."""
    path = tmp_path_factory.mktemp("stranger") / "stranger.ipynb"
    own = "import torch\nfrom labkit import show\nshow.strides(torch.arange(6).view(2, 3))"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(own)]), path)
    notebook = run_notebook(path)
    notebook.metadata.widgets[STATE]["state"] |= STATES
    data = [{VIEW: {"version_major": 2, "version_minor": 0, "model_id": name}} for name in STATES]
    data += [{mime: content} for mime, content in OUTPUTS.items()]
    outputs = [nbformat.v4.new_output("display_data", {"text/plain": "-"} | one) for one in data]
    notebook.cells.append(
        nbformat.v4.new_code_cell("None", outputs=outputs, metadata={"trusted": True})
    )
    notebook.cells.append(nbformat.v4.new_markdown_cell(image("markdown cell")))
    nbformat.write(notebook, path)
    return path


@pytest.fixture(scope="module")
def own_model(strangers):
    (output,) = nbformat.read(strangers, as_version=4).cells[0].outputs
    return output.data[VIEW]["model_id"]


def note(lab):
    return lab.page.locator("strong", has_text="Removed for your safety")


def ran(lab):
    return lab.page.evaluate("() => window.ran ?? []")


def test_opening_a_strangers_notebook_runs_nothing(lab, strangers, own_model):
    lab.open_copy(strangers, run=False)
    before = lab.path.read_bytes()
    lab.wait_for(RESTORED, own_model)
    note(lab).wait_for()
    lab.page.wait_for_function("() => document.images.length > 0")
    assert ran(lab) == []
    assert not any(lab.page.evaluate(RESTORED, name) for name in ("stranger", "buffer"))
    assert lab.path.read_bytes() == before
    lab.screenshot("strangers_notebook")

    # The server's own conversion: a page of what outputs hold, which no cookie or kernel is told.
    answer = lab.page.request.get(f"{lab.server.url}nbconvert/html/{lab.name}?token={TOKEN}")
    assert answer.ok
    assert "sandbox allow-scripts" in answer.headers["content-security-policy"]
    assert script("stranger") not in answer.text()

    lab.save()
    saved = nbformat.read(lab.path, as_version=4)
    assert "stranger" not in saved.metadata.widgets[STATE]["state"]
    assert [cell.cell_type for cell in saved.cells] == ["code", "code", "markdown"]
    lab.errors.clear()  # the sanitizer's and the browser's words about what they did not run


def test_the_same_without_the_labs_care(new_lab, server, tmp_path, strangers):
    """The attack is real: what the test above does not see is there to be seen."""
    careless = type(server)(tmp_path, options=())
    try:
        with new_lab(on=careless) as lab:
            lab.open_copy(strangers, run=False)
            lab.page.wait_for_function("() => window.ran?.includes('stranger')")
            lab.errors.clear()
    finally:
        careless.stop()
