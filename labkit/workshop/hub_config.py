"""What JupyterHub reads at its start: `jupyterhub -f hub_config.py`."""

import os
import sys
from pathlib import Path

from labkit.workshop.folders import Workshop
from labkit.workshop.hub import FOLDER, CellSpawner, Passwords
from labkit.workshop.roster import TEACHER

place = Workshop(Path(os.environ[FOLDER]))
settings = place.settings
c = get_config()  # type: ignore[name-defined]  # noqa: F821  (JupyterHub's, while it reads this)

c.JupyterHub.bind_url = f"http://{settings['ip']}:{settings['port']}"
c.JupyterHub.hub_connect_ip = "127.0.0.1"
c.JupyterHub.hub_port = settings["hub_port"]
c.JupyterHub.db_url = f"sqlite:///{place.hub}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(place.hub / "cookie_secret")
c.JupyterHub.pid_file = str(place.hub / "jupyterhub.pid")
c.JupyterHub.extra_log_file = ""
c.JupyterHub.concurrent_spawn_limit = 0  # a fork is cheap, and a refusal is not understood
c.JupyterHub.authenticator_class = Passwords
c.JupyterHub.spawner_class = CellSpawner
c.JupyterHub.default_url = "/hub/spawn"
c.Authenticator.allow_all = True  # everybody on the roster
c.Authenticator.admin_users = {TEACHER}
c.Spawner.default_url = "/lab/tree/notebooks/0_start_here.ipynb"
c.Spawner.http_timeout = 120
c.Spawner.start_timeout = 120

scripts = Path(sys.prefix) / "bin"
c.ConfigurableHTTPProxy.command = [str(scripts / "configurable-http-proxy")]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{settings['proxy_port']}"
c.ConfigurableHTTPProxy.pid_file = str(place.hub / "proxy.pid")
c.JupyterHub.services = [
    {
        "name": "room",
        "url": f"http://127.0.0.1:{settings['room_port']}",
        "command": [sys.executable, "-m", "labkit.workshop.room"],
        "environment": {FOLDER: str(place.root), "OMP_NUM_THREADS": "1"},
        "oauth_no_confirm": True,
    },
]
