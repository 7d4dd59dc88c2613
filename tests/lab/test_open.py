"""`python3 lab.py` becomes a JupyterLab that answers on this machine, with its token only."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from labkit.launcher import jupyter
from labkit.launcher.environment import Environment

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started(monkeypatch, tmp_path):
    """What open_lab would become, instead of becoming it."""

    def start(port=None, extra=(), user=1000):
        taken = {}
        monkeypatch.setattr(jupyter.os, "geteuid", lambda: user)
        monkeypatch.setattr(jupyter.os, "execve", lambda *what: taken.update(command=what[1]))
        monkeypatch.chdir(tmp_path)
        jupyter.open_lab(Environment(tmp_path, Path(sys.executable)), port, list(extra))
        return taken["command"]

    return start


def test_it_listens_on_loopback_and_opens_the_first_notebook(started):
    command = started()
    assert command[1:3] == ["-m", "jupyterlab"]
    assert "--ServerApp.ip=127.0.0.1" in command
    assert "--LabApp.default_url=/lab/tree/notebooks/0_start_here.ipynb" in command
    assert "--LabApp.extension_manager=readonly" in command
    assert {jupyter.NO_FOREIGN_CODE, jupyter.LATE_MODELS} <= set(command)
    assert not any("token" in word or "password" in word for word in command)


def test_root_has_to_be_allowed(started):
    assert "--allow-root" not in started(user=1000)
    assert "--allow-root" in started(user=0)


def test_a_port_that_was_asked_for_is_the_only_one_tried(started):
    command = started(port=0, extra=["--no-browser"])
    assert command[-1] == "--no-browser"
    assert {"--port=0", "--ServerApp.port_retries=0"} <= set(command)
    assert not any("--port" in word or "port_retries" in word for word in started())


def test_the_real_one_answers_with_its_token_and_ends_with_its_process(tmp_path):
    variables = {
        **os.environ,
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, ROOT / "lab.py", "--no-setup", "--no-browser", "--port", "0"],
            env=variables, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        # The process itself became the server: its id is in the name of the server's file.
        facts = wait_for(tmp_path / "runtime" / f"jpserver-{process.pid}.json", process)
        assert facts["hostname"] == "127.0.0.1"
        assert facts["root_dir"] == str(ROOT)
        assert len(facts["token"]) >= 32
        status = json.loads(ask(facts, "api/status", facts["token"]))
        assert status["kernels"] == 0
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(facts, "api/status", "wrong")
        plugin = "lab/api/settings/@jupyter-widgets/jupyterlab-manager:plugin"
        schema = json.loads(ask(facts, plugin, facts["token"]))["schema"]
        assert schema["properties"]["saveState"]["default"] is True
    finally:
        process.terminate()
        process.wait(30)
    with pytest.raises(urllib.error.URLError, match="refused"):
        ask(facts, "api/status", facts["token"])


def wait_for(path, process):
    """What the server wrote about itself, once it listens: it writes first and listens then."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError, ConnectionRefusedError):
            facts = json.loads(path.read_text())
            socket.create_connection(("127.0.0.1", facts["port"]), timeout=30).close()
            return facts
        time.sleep(0.1)
    raise AssertionError((path.parents[1] / "log").read_text())


def ask(facts, path, token):
    request = urllib.request.Request(
        f"http://127.0.0.1:{facts['port']}/{path}", headers={"Authorization": f"token {token}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback has no proxy
    return opener.open(request, timeout=30).read().decode()
