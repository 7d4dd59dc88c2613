"""Drive JupyterLab in Chromium: one server and page for all tests, a notebook and kernel for each.

    def test_the_slider_reaches_python(lab):
        lab.open(["from labkit.widgets.base import LabWidget", "w = LabWidget()\\nw"])
        lab.widget().locator("input[type=range]").first.focus()
        lab.press("ArrowRight")
        lab.wait_drawn(lab.widget(), more_than=1)
        assert lab.ask("w.frame") == 1
        lab.execute("w.frame = 0")

Fixtures
    lab       a `Lab`; its notebook is closed and its kernel shut down after the test, and the test
              fails when a request left this machine or the console showed an error
    page_file a static page of two widgets, as a file
    new_lab   makes one for a fixture of wider scope: `with new_lab() as lab: ...`; with options of
              a browser context, or another server, the page is a fresh one

A notebook is written from the cells given, or copied (`lab.open_copy(path)`), into the server's own
folder, so nothing in the checkout changes. Never sleep: `lab.wait_drawn` and `lab.wait_for` wait on
the page. Screenshots land in $LABKIT_SCREENSHOTS, else in pytest's temporary folder.
Without Chromium these tests are skipped and say so; with CI=true that is a failure.
"""

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

from labkit.doctor.tools import CHROMIUM_NAMES, find_chromium
from labkit.launcher.jupyter import LATE_MODELS, NO_FOREIGN_CODE
from labkit.widgets.static_page import render_page, run_notebook
from labkit.workshop.cell.kernels import KERNELS
from tests.warm_kernels import CAN, warm_process

ROOT = Path(__file__).parents[2]
TOKEN = "browser-tests"
CHROMIUM_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
WITH_FORKED_KERNELS = (
    "from labkit.workshop.cell.kernels import offer_forked_kernels; offer_forked_kernels();"
    "from jupyterlab.labapp import main; main()"
)
TWO_WIDGETS = [
    "import torch\nfrom labkit import show\nx = torch.arange(12).view(3, 4)",
    "show.strides(x, x.t())",
    "show.broadcast((4, 3, 2), (3, 1))",
]
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
SETTINGS = json.loads((ROOT / "jupyter" / "overrides.json").read_text(encoding="utf-8"))
CURRENT = "jupyterapp.shell.currentWidget"
CUT_SHORT = "Canceled future for debug_request"
"""What JupyterLab says when a kernel is stopped while the debugger still asks it for its state."""
VIEWPORT = {"width": 1280, "height": 900}


def pytest_collection_modifyitems(items):
    here = str(Path(__file__).parent) + os.sep
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.browser)


class Server:
    """A JupyterLab on loopback with its own settings, history and notebooks.

    kernels  a descriptor to ask for forked ones over; None starts each as a learner's is
    """

    def __init__(self, folder, options=(NO_FOREIGN_CODE, LATE_MODELS), kernels=None):
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir()
        self.log = folder / "server.log"
        runtime, settings = folder / "runtime", folder / "settings"
        for plugin, values in SETTINGS.items():
            path = settings / f"{plugin.replace(':', '/')}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values), encoding="utf-8")
        environment = os.environ | {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
            "IPYTHONDIR": str(folder / "ipython"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **({KERNELS: str(kernels)} if kernels else {}),
        }
        start = ["-c", WITH_FORKED_KERNELS] if kernels else ["-m", "jupyterlab"]
        command = [
            sys.executable, *start, "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={self.notebooks}", "--expose-app-in-browser",
            "--LabApp.extension_manager=readonly", "--ServerApp.terminals_enabled=False", *options,
        ]  # fmt: skip
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=folder,
                pass_fds=[kernels] if kernels else [],
            )  # fmt: skip
        self.url = self._wait_until_listening(runtime / f"jpserver-{self.process.pid}.json")

    def _wait_until_listening(self, facts, seconds=240):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                return json.loads(facts.read_text(encoding="utf-8"))["url"]
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-2000:]}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Lab:
    """One notebook on a page, and everything that was requested from it."""

    def __init__(self, server, page, shots):
        self.server, self.page, self.shots = server, page, shots
        self.requests, self.errors = [], []
        self.name, self.themed, self.stopped = None, False, False
        self.heard = {"request": self._asked, "pageerror": self._raised, "console": self._said}
        for event, hear in self.heard.items():
            page.on(event, hear)
        page.set_default_timeout(120_000)

    def _asked(self, request):
        self.requests.append(request.url)

    def _raised(self, error):
        self.errors.append(error.stack or str(error))

    def _said(self, line):
        if line.type == "error" and not (self.stopped and CUT_SHORT in line.text):
            self.errors.append(line.text)

    def open(self, cells, run=True):
        """Open a notebook made of these code cells, and run them all unless told not to."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        self.name = f"test_{time.monotonic_ns()}.ipynb"
        nbformat.write(notebook, self.server.notebooks / self.name)
        if self.page.evaluate("() => !!window.jupyterapp"):
            self.command("docmanager:open", path=self.name)
            self._wait_until_open(run)
        else:
            self._load(run)

    def open_copy(self, path, run=True):
        """Load JupyterLab with a copy of a notebook of the project."""
        self.name = f"{Path(path).stem}_{time.monotonic_ns()}.ipynb"
        shutil.copy(path, self.server.notebooks / self.name)
        self._load(run)

    def _load(self, run):
        self.page.goto(f"{self.server.url}lab/tree/{self.name}?reset&token={TOKEN}")
        self.page.wait_for_function("() => !!window.jupyterapp")
        self._wait_until_open(run)

    def _wait_until_open(self, run):
        self.page.wait_for_function(
            f"name => {CURRENT}?.context?.path === name && {CURRENT}.context.isReady"
            f" && {CURRENT}.sessionContext?.isReady && {CURRENT}.content?.widgets?.length",
            arg=self.name,
        )
        self.page.evaluate(f"async () => {{ await {CURRENT}.sessionContext.ready }}")
        if run:
            self.run_all()

    @property
    def path(self):
        """The notebook file in the server's folder."""
        return self.server.notebooks / self.name

    def command(self, name, **arguments):
        """Run a JupyterLab command and wait for it."""
        return self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args).then(() => null)",
            [name, arguments],
        )

    def run_all(self):
        """Run every cell; raises with the traceback of the first that failed."""
        self.command("notebook:run-all-cells")
        failed = self.page.evaluate(
            f"""() => {CURRENT}.content.widgets.flatMap(cell =>
                (cell.model.toJSON().outputs ?? []).filter(o => o.output_type === 'error')
                .map(o => o.traceback.join('\\n')))[0] ?? null"""
        )
        if failed:
            raise AssertionError(f"a cell failed:\n{failed}")

    def execute(self, code):
        """Run code in the notebook's kernel, outside any cell."""
        self.ask("None", code=code)

    def ask(self, expression, code=""):
        """The value of an expression in the notebook's kernel (its repr, when not a literal)."""
        reply = self.page.evaluate(
            f"""async ([code, expression]) => (await {CURRENT}.sessionContext.session.kernel
                .requestExecute({{ code, user_expressions: {{ value: expression }} }}).done).content
            """,
            [code, expression],
        )
        value = reply.get("user_expressions", {}).get("value", reply)
        if reply["status"] != "ok" or value["status"] != "ok":
            raise AssertionError(f"{code!r}, {expression!r} in the kernel: {value}")
        text = value["data"]["text/plain"]
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    def widget(self, index=0):
        """The locator of the index-th widget of the page."""
        return self.page.locator(".lk").nth(index)

    def wait_for(self, script, argument=None):
        """Wait until a JavaScript expression (or function of `argument`) is true."""
        return self.page.wait_for_function(script, arg=argument)

    def wait_drawn(self, widget, more_than=0):
        """Wait until a widget has drawn more often than this; returns its data-draws counter."""
        widget.wait_for()
        self.page.wait_for_function(
            "([node, count]) => Number(node.dataset.draws) > count",
            arg=[widget.element_handle(), more_than],
        )
        return int(widget.get_attribute("data-draws"))

    def wait_until(self, expression, value, seconds=120):
        """Wait until the kernel answers `value`: what the page sends arrives a moment later."""
        deadline = time.monotonic() + seconds
        while (answer := self.ask(expression)) != value:
            if time.monotonic() > deadline:
                raise AssertionError(f"{expression} is {answer!r}, not {value!r}")
            self.page.wait_for_timeout(30)

    def press(self, *keys):
        """Press keys where the focus is."""
        for key in keys:
            self.page.keyboard.press(key)

    def command_mode(self):
        """Leave the cell editor: from here JupyterLab listens to arrows and letters."""
        self.command("notebook:enter-command-mode")

    def save(self):
        """Save the notebook, widget state included."""
        self.command("docmanager:save")

    def reopen(self):
        """Close the kernel, then load the saved notebook as on the next day: nothing is run."""
        self.shut_down()
        self._load(run=False)

    def use_theme(self, name):
        """Switch to "JupyterLab Dark" or "JupyterLab Light"; after the test it is light again."""
        self.themed = name != "JupyterLab Light"
        self.command("apputils:change-theme", theme=name)
        light = str("Light" in name).lower()
        self.wait_for(
            "light => document.body.dataset.jpThemeLight === light"
            " && !document.getElementById('jupyterlab-splash')",  # a second change trips over it
            light,
        )

    def screenshot(self, name, of=None):
        """Save a picture of the page, or of one locator, and return its path."""
        path = self.shots / f"{name}.png"
        (of or self.page).screenshot(path=path)
        return path

    def shut_down(self):
        """Stop this notebook's kernel."""
        self.stopped = True
        self.page.evaluate(f"async () => {{ await {CURRENT}?.sessionContext?.shutdown?.() }}")

    def requests_elsewhere(self):
        """The addresses asked for that are not on this machine."""
        return [
            url
            for url in self.requests
            if urlsplit(url).scheme not in ("data", "blob", "file")
            and urlsplit(url).hostname not in LOOPBACK
        ]

    def close(self):
        """Stop the kernel, and take the notebook off the page; nothing is recorded any more."""
        for event, hear in self.heard.items():
            self.page.remove_listener(event, hear)
        with contextlib.suppress(Exception):  # a page that failed to load has neither
            if self.themed:
                self.use_theme("JupyterLab Light")
            if self.name:
                self.shut_down()
                self.page.evaluate(f"() => {CURRENT}.dispose()")


class Pages:
    """Pages of one server that no test is on: loading JupyterLab costs more than most tests."""

    def __init__(self, browser):
        self.browser, self.free = browser, []

    def take(self):
        """A page, where there is one with JupyterLab on it."""
        page = self.free.pop() if self.free else self.browser.new_page()
        page.set_viewport_size(VIEWPORT)
        return page

    def give_back(self, page):
        """Another test may have it, where JupyterLab is on it and nothing is open."""
        idle = """() => window.jupyterapp && !document.querySelector('.jp-Dialog')
            && ![...jupyterapp.shell.widgets('main')].some(widget => widget.context)"""
        with contextlib.suppress(Exception):  # a page that crashed does not answer
            if page.evaluate(idle):
                self.free.append(page)
                return
        page.close()


@pytest.fixture(scope="session")
def browser():
    executable = find_chromium()
    if executable is None:
        reason = f"no Chromium found (looked for {', '.join(CHROMIUM_NAMES)}, $LABKIT_CHROMIUM)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(browser, tmp_path_factory):
    kernels = warm_process() if CAN else None
    server = Server(tmp_path_factory.mktemp("jupyterlab"), kernels=kernels)
    yield server
    server.stop()
    if kernels:
        os.close(kernels)


@pytest.fixture(scope="session")
def new_lab(server, browser, tmp_path_factory):
    shots = Path(os.environ.get("LABKIT_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    shots.mkdir(parents=True, exist_ok=True)
    pages = Pages(browser)

    @contextlib.contextmanager
    def make(on=server, **context_options):
        alone = on is not server or context_options
        page = browser.new_page(viewport=VIEWPORT, **context_options) if alone else pages.take()
        lab = Lab(on, page, shots)
        try:
            yield lab
            assert lab.requests_elsewhere() == []
            assert lab.errors == []
        finally:
            lab.close()
            page.close() if alone else pages.give_back(page)

    return make


@pytest.fixture(scope="session")
def page_file(browser, tmp_path_factory):
    """A static page of two widgets, with its notebook `demo.ipynb` beside it."""
    folder = tmp_path_factory.mktemp("page")
    cells = [nbformat.v4.new_code_cell(source) for source in TWO_WIDGETS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "demo.ipynb")
    page = folder / "demo.html"
    page.write_text(render_page(run_notebook(folder / "demo.ipynb"), "demo"), encoding="utf-8")
    return page


@pytest.fixture
def lab(new_lab):
    with new_lab() as lab:
        yield lab
