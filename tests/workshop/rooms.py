"""A workshop started by its own command, in a folder of the test's."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from labkit.workshop.folders import Workshop
from labkit.workshop.roster import read_roster
from tests.workshop.learner import Learner

ROOT = Path(__file__).parents[2]
SECONDS = 300


def is_free(port):
    """Whether nobody has the port; the system gives out none below 32768 by itself."""
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return True
    return False


class Room:
    """A running workshop: its folder, its address, its passwords."""

    def __init__(self, folder, names):
        self.folder = folder
        self.names = folder / "names.txt"
        self.names.write_text("\n".join(names), encoding="utf-8")
        self.port = next(filter(is_free, iter(lambda: random.randrange(20_000, 32_000), None)))
        self.address = f"http://127.0.0.1:{self.port}"
        self.passwords = {}
        self.process = None

    @property
    def place(self):
        return self.folder / "workshop"

    def start(self):
        """`labkit workshop start`; returns when the hub answers."""
        out = self.folder / "out.txt"
        with out.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "labkit", "workshop", "start", "--folder",
                    str(self.place), "--learners", str(self.names), "--port", str(self.port),
                ],
                stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self.wait_for_hub()
        printed = out.read_text(encoding="utf-8")
        self.passwords |= dict(re.findall(r"^  ([\w-]+) +([\w-]{14})$", printed, re.MULTILINE))
        return printed

    def wait_for_hub(self):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError((self.folder / "out.txt").read_text(encoding="utf-8"))
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0 and self._answers():
                    return
            time.sleep(0.2)
        raise AssertionError("the hub does not answer")

    def _answers(self):
        import http.client
        import urllib.error
        import urllib.request

        try:
            with urllib.request.urlopen(f"{self.address}/hub/login", timeout=10) as page:
                return page.status == 200
        except (urllib.error.URLError, http.client.HTTPException, OSError):
            return False

    def stop(self):
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)

    def hub_pid(self):
        return int((self.place / "hub" / "jupyterhub.pid").read_text(encoding="ascii"))

    def learner(self, name):
        user = read_roster(Workshop(self.place).roster)[name].user
        return Learner(self.address, name, self.passwords[name], user)
