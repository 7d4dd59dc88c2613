# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False
"""`python -m labkit.workshop.room`: the service of the hub that serves the teacher's page.

Only who may use the service gets an answer, and by the hub's rules that is who runs the room.
"""

import asyncio
import json
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Application, HTTPError, RequestHandler, authenticated

from labkit.workshop.calls import call
from labkit.workshop.cell import linux
from labkit.workshop.folders import Workshop
from labkit.workshop.room.observe import observe, programme

HERE = Path(__file__).parent
KINDS = {"page.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}


class Guarded(HubOAuthenticated, RequestHandler):
    """A page for the teacher."""

    def set_default_headers(self) -> None:
        """Nothing comes from elsewhere, and no other page holds this one."""
        self.set_header("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
        self.set_header("Cache-Control", "no-store")


class File(Guarded):
    """One of the page's three files."""

    @authenticated
    def get(self, name: str) -> None:
        """The file, the page itself where none is named."""
        name = name or "page.html"
        self.set_header("Content-Type", f"{KINDS[name]}; charset=utf-8")
        self.finish((HERE / name).read_bytes())


class State(Guarded):
    """What the room is doing now."""

    def initialize(self, workshop: Workshop) -> None:
        """The room that is meant."""
        self.workshop = workshop

    @authenticated
    async def get(self) -> None:
        """Everything the page shows, as JSON."""
        found: dict[str, Any] = await asyncio.to_thread(observe, self.workshop)
        self.finish(found)


class Everybody(Guarded):
    """Calls the room to a section of the programme."""

    def initialize(self, workshop: Workshop) -> None:
        """The room that is meant."""
        self.workshop = workshop

    @authenticated
    def post(self) -> None:
        """{"chapter": ..., "section": ...}; 400 where the programme has no such section."""
        known = {
            (stop.chapter, section.name)
            for stop in programme(self.workshop.settings["hours"])
            for section in stop.done
        }
        try:
            asked = json.loads(self.request.body)
            place = (asked["chapter"], asked["section"])
            if place not in known:
                raise ValueError(place)
        except (ValueError, TypeError, KeyError):
            raise HTTPError(400, "the programme has no such section") from None
        self.finish(asdict(call(self.workshop.called, *place)))


async def main() -> None:
    """Serve until the hub stops it, or is gone itself."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
    workshop = Workshop(Path(os.environ["LABKIT_WORKSHOP"]))
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    application = Application(
        [
            (prefix + r"(|page\.js|page\.css)", File),
            (prefix + "state", State, {"workshop": workshop}),
            (prefix + "everybody", Everybody, {"workshop": workshop}),
            (prefix + "oauth_callback", HubOAuthCallbackHandler),
        ],
        cookie_secret=os.urandom(32),
    )
    address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    application.listen(address.port or 0, address=address.hostname)
    await asyncio.to_thread(observe, workshop)  # imports and reads what the first answer needs
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
