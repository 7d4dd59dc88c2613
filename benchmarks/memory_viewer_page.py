"""Pages that open the same snapshot in PyTorch's MemoryViz and in the memory map, for timing.

A loopback server hands out the pages, MemoryViz's script (never copied into this project: its path
is given), a bundle of d3 in place of the addresses it imports, and the snapshot: raw for MemoryViz,
or read by Python into columns for the memory map.
"""

import functools
import http.server
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

from labkit.memory.snapshots.snapshot import load_columns
from labkit.show.memory.sources import trace_of
from labkit.widgets.memory.memory_map import MemoryMap

PAGE = "<!doctype html><meta charset=utf-8><style>body{margin:8px}</style><body></body>"
SCRIPT = Path(__file__).with_name("memory_viewers.js")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers for one snapshot, one MemoryViz.js and one d3 bundle."""

    def __init__(self, files: dict[str, Path], *arguments: Any) -> None:
        self.files = files
        super().__init__(*arguments)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the benchmark's own lines are the output."""

    def do_GET(self) -> None:
        """One of the pages, scripts or snapshots."""
        answer = getattr(self, f"get_{re.sub(r'[^a-z]', '_', self.path[1:].lower())}", None)
        if answer is None:
            self.send_error(404)
            return
        kind, body, headers = answer()
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def get_(self) -> tuple[str, bytes, dict[str, Any]]:
        return "text/html", PAGE.encode(), {}

    def get_memoryviz_js(self) -> tuple[str, bytes, dict[str, Any]]:
        script = self.files["memory_viz"].read_text(encoding="utf-8")
        return "text/javascript", re.sub(r'"https://[^"]*d3[^"]*"', '"/d3.js"', script).encode(), {}

    def get_d__js(self) -> tuple[str, bytes, dict[str, Any]]:
        return "text/javascript", self.files["d3"].read_bytes(), {}

    def get_snapshot(self) -> tuple[str, bytes, dict[str, Any]]:
        return "application/octet-stream", self.files["snapshot"].read_bytes(), {}

    def get_memory_map_js(self) -> tuple[str, bytes, dict[str, Any]]:
        return "text/javascript", str(MemoryMap._esm).encode(), {}

    def get_memory_map_css(self) -> tuple[str, bytes, dict[str, Any]]:
        return "text/css", str(MemoryMap._css).encode(), {}

    def get_viewers_js(self) -> tuple[str, bytes, dict[str, Any]]:
        return "text/javascript", SCRIPT.read_bytes(), {}

    def get_columns(self) -> tuple[str, bytes, dict[str, Any]]:
        """What `show.memory` does between the file and the message to the page, which is one."""
        began = time.perf_counter()
        view = MemoryMap(trace_of(load_columns(self.files["snapshot"])), title="measured")
        meta, data = view._held or (view.meta, view.data)
        text = json.dumps({**meta, "whole": view.meta["whole"]}).encode()
        elapsed = (time.perf_counter() - began) * 1000
        about = {"X-Python-Ms": elapsed, "X-Meta-Bytes": len(text)}
        return "application/octet-stream", text + data, about


class Pages:
    """The server, for as long as a `with` lasts; `url` is its address."""

    def __init__(self, files: dict[str, Path]) -> None:
        handler = functools.partial(Handler, files)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self) -> "Pages":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()
