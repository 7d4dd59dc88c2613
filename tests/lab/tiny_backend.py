"""A build backend that writes wheels by hand, so that a set-up can be tested with no network.

Copied into the tiny project as its own backend, and used by the tests to make its dependencies.
"""

import base64
import hashlib
import os
import time
import tomllib
import zipfile
from pathlib import Path


def make_wheel(folder, name, version, requires=(), extras=(), files=None):
    """Write a pure-Python wheel and return its file name."""
    record_folder = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Provides-Extra: {extra}" for extra in extras]
    metadata += [f"Requires-Dist: {line}" for line in requires]
    contents = {f"{name}.py": b"", **(files or {})}
    contents[f"{record_folder}/METADATA"] = "\n".join([*metadata, ""]).encode()
    contents[f"{record_folder}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tiny\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / wheel, "w") as archive:
        record = f"{record_folder}/RECORD,,\n"
        for path, content in contents.items():
            archive.writestr(path, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record += f"{path},sha256={digest.decode()},{len(content)}\n"
        archive.writestr(f"{record_folder}/RECORD", record)
    return wheel


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Wheel of the project in the current folder, pointing back at it."""
    hang = os.environ.get("TINY_HANG")
    if hang:
        Path(hang).touch()
        time.sleep(600)
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    requires = [
        *project["dependencies"],
        *(f'{line}; extra == "{extra}"' for extra, lines in extras.items() for line in lines),
    ]
    pointer = {"tiny_labkit.pth": str(Path.cwd()).encode()}
    return make_wheel(wheel_directory, "labkit", "0.1.0", requires, list(extras), pointer)
