"""A scripted learner: logs in as a browser would, opens a chapter and runs its cells."""

import asyncio
import json
import re
import time
import urllib.parse
import uuid
from http.cookies import SimpleCookie

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

SECONDS = 120


class Refused(Exception):
    """The room said no: the status, and the page."""

    def __init__(self, status, text=""):
        super().__init__(f"{status}: {text[:200]}")
        self.status = status


class Learner:
    """One browser: its cookies, and the kernel it talks to."""

    def __init__(self, room, name, password, user=None):
        self.room, self.name, self.password, self.user = room, name, password, user
        self.cookies = {}  # path -> name -> value
        self.client = AsyncHTTPClient()
        self.socket = self.kernel = None

    def _cookie_header(self, url):
        path = urllib.parse.urlsplit(url).path
        found = {}
        for prefix in sorted(self.cookies, key=len):
            if path.startswith(prefix.rstrip("/") + "/") or path == prefix.rstrip("/"):
                found |= self.cookies[prefix]
        return "; ".join(f"{key}={value}" for key, value in found.items())

    def _keep_cookies(self, response):
        for line in response.headers.get_list("Set-Cookie"):
            for key, morsel in SimpleCookie(line).items():
                jar = self.cookies.setdefault(morsel["path"] or "/", {})
                jar.pop(key, None)
                if morsel.value:
                    jar[key] = morsel.value

    def xsrf(self, path):
        found = ""
        for prefix in sorted(self.cookies, key=len):
            if path.startswith(prefix):
                found = self.cookies[prefix].get("_xsrf", found)
        return found

    async def fetch(self, path, method="GET", body=None, headers=(), raw=False):
        """The last page of the redirects, and where it was."""
        url = path if path.startswith("http") else self.room + path
        for _ in range(20):
            request = HTTPRequest(
                url, method=method, body=body, follow_redirects=False, request_timeout=SECONDS,
                headers={
                    "Cookie": self._cookie_header(url), "Accept": "text/html,application/json",
                    "Sec-Fetch-Mode": "navigate", **dict(headers),
                },
            )  # fmt: skip
            response = await self.client.fetch(request, raise_error=False)
            self._keep_cookies(response)
            if response.code in (301, 302, 303, 307) and not raw:
                url = urllib.parse.urljoin(url, response.headers["Location"])
                method, body, headers = "GET", None, ()
                continue
            break
        if response.code >= 400:
            raise Refused(response.code, response.body.decode(errors="replace"))
        if "/hub/login" in url and "/hub/login" not in path:
            raise Refused(401, "sent to log in")
        return response, url

    async def log_in(self):
        page, _ = await self.fetch("/hub/login")
        token = re.search(r'name="_xsrf" value="([^"]*)"', page.body.decode())
        form = {"username": self.name, "password": self.password}
        form["_xsrf"] = token[1] if token else self.xsrf("/hub/")
        await self.fetch(
            "/hub/login?next=%2Fhub%2Fhome", "POST", urllib.parse.urlencode(form),
            {"Content-Type": "application/x-www-form-urlencoded"},
        )  # fmt: skip

    async def spawn(self):
        """The learner's server answers, and this browser may use it."""
        await self.fetch(f"/hub/spawn/{self.name}")
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                _, url = await self.fetch(f"/user/{self.name}/lab")
            except Refused as refused:
                if refused.status not in (404, 424, 502, 503):
                    raise
            else:
                if f"/user/{self.name}/lab" in url and "/hub/" not in url:
                    return
            await _pause(0.2)
        raise TimeoutError(f"{self.name}: no server")

    async def api(self, path, method="GET", content=None, owner=None):
        whole = f"/user/{owner or self.name}/api/{path}"
        body = None if content is None else json.dumps(content)
        if method in ("POST", "PUT", "PATCH") and body is None:
            body = "{}"
        headers = {"X-XSRFToken": self.xsrf(whole), "Content-Type": "application/json"}
        page, url = await self.fetch(whole, method, body, headers)
        if whole not in url:
            raise Refused(403, f"sent to {url}")
        return json.loads(page.body) if page.body else None

    async def open(self, chapter):
        """A kernel runs for the chapter; returns its notebook."""
        path = f"notebooks/{chapter}.ipynb"
        notebook = (await self.api(f"contents/{path}"))["content"]
        asked = {"path": path, "name": path.rpartition("/")[2], "type": "notebook"}
        session = await self.api("sessions", "POST", {**asked, "kernel": {"name": "python3"}})
        self.kernel = session["kernel"]["id"]
        url = f"{self.room}/user/{self.name}/api/kernels/{self.kernel}/channels"
        token = self.xsrf(f"/user/{self.name}/")
        request = HTTPRequest(
            url.replace("http", "ws", 1) + f"?_xsrf={token}",
            headers={"Cookie": self._cookie_header(url), "Origin": self.room},
        )
        self.socket = await websocket_connect(request)
        return notebook

    async def close(self):
        """The chapter's kernel is gone, as after "Close and Shut Down Notebook".

        While Jupyter starts a dead kernel anew it answers 500; a person tries again.
        """
        self.socket.close()
        for attempt in range(20):
            try:
                for session in await self.api("sessions"):
                    await self.api(f"sessions/{session['id']}", "DELETE")
                return
            except Refused as refused:
                if refused.status != 500 or attempt == 19:
                    raise
                await asyncio.sleep(0.5)

    async def run(self, source, cell=""):
        """Everything the kernel said of it, as (type, content), and the reply's status."""
        message = uuid.uuid4().hex
        await self.socket.write_message(
            json.dumps(
                {
                    "channel": "shell", "parent_header": {}, "metadata": {"cellId": cell},
                    "header": {
                        "msg_id": message, "msg_type": "execute_request", "session": self.name,
                        "username": self.name, "version": "5.3", "date": "2020-01-01T00:00:00Z",
                    },
                    "content": {"code": source, "silent": False, "store_history": True,
                                "user_expressions": {}, "allow_stdin": False,
                                "stop_on_error": False},
                    "buffers": [],
                }
            )
        )  # fmt: skip
        said, replied, idle = [], None, False
        while not (replied and idle):
            heard = await self.socket.read_message()
            if heard is None:
                raise ConnectionError(f"{self.name}: the kernel's socket closed")
            told = _decoded(heard)
            if told["content"].get("execution_state") in ("restarting", "autorestarting", "dead"):
                raise ConnectionError(f"{self.name}: the kernel died")
            if told["parent_header"].get("msg_id") != message:
                continue
            kind, content = told["header"]["msg_type"], told["content"]
            said.append((kind, content))
            if kind == "execute_reply":
                replied = content["status"]
            idle |= kind == "status" and content["execution_state"] == "idle"
        return said, replied


def _decoded(heard):
    if isinstance(heard, str):
        return json.loads(heard)
    count = int.from_bytes(heard[:4], "big")
    offsets = [int.from_bytes(heard[4 * n : 4 * n + 4], "big") for n in range(1, count + 1)]
    return json.loads(heard[offsets[0] : offsets[1] if count > 1 else None])


async def _pause(seconds):
    import asyncio

    await asyncio.sleep(seconds)
