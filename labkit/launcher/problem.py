"""A failure a stranger can act on: what happened, and what to do about it."""

import errno
import re
import shlex
import shutil
import tempfile
from pathlib import Path


class Problem(Exception):
    """Something lab.py cannot mend itself.

    what    one sentence, with the values that matter
    remedy  what to type or change
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  What to do: {self.remedy}"


def quoted(path: str | Path) -> str:
    """A path as it can be pasted into a shell."""
    return shlex.quote(str(path))


DISK_FULL = re.compile(r"No space left on device|\bErrno 28\b|os error 28|Disk quota exceeded")
NO_NETWORK = re.compile(
    r"NewConnectionError|ProxyError|NameResolutionError|ConnectTimeout|ReadTimeout|"
    r"Connection refused|Temporary failure in name resolution|Network is unreachable|"
    r"Failed to establish a new connection|dns error|tcp connect error|error sending request|"
    r"operation timed out"
)
NOTHING_OFFERED = re.compile(r"requirement (\S+) \(from versions: none\)")
NO_VERSION = re.compile(r"No matching distribution found for (\S+)|No solution found")


def install_failure(what: str, output: str, root: Path) -> Problem:
    """The Problem behind an installer's output; the order matters: a full disk is the surest sign.

    what    what was being installed
    output  the end of what the installer said
    """
    if DISK_FULL.search(output):
        return Problem(f"The disk is full: {what} could not be written.\n{disks(root)}", FREE_SPACE)
    if NO_NETWORK.search(output):
        return Problem(
            f"No network: {what} could not be fetched from the package index.",
            "connect (behind a proxy: set HTTPS_PROXY), then run the same command again. "
            "What has arrived is kept.",
        )
    if match := NOTHING_OFFERED.search(output):
        return Problem(
            f"The package index offers no version of {match[1]} at all: it cannot be reached, or "
            "it is not a full one.",
            "check the connection, and what `pip config list` names as index-url or find-links.",
        )
    if match := NO_VERSION.search(output):
        return Problem(
            f"The package index has no {match[1] or 'set of versions'} that fits this Python and "
            "this machine.",
            "look at the lines above for the versions it has. The lab runs on Linux (x86-64, "
            "arm64) and on macOS (Apple silicon), with Python 3.11, 3.12 or 3.13.",
        )
    last_line = output.strip().rpartition("\n")[2] or "no output"
    return Problem(
        f"Installing {what} failed: {last_line}",
        "read the lines above; then run the same command again: it goes on where it stopped.",
    )


def file_failure(error: OSError, root: Path) -> Problem | None:
    """The Problem behind a file that could not be written; None when it is something else."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(f"The disk is full.\n{disks(root)}", FREE_SPACE)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Problem(
            f"{error.filename or root} cannot be written: {error.strerror}.",
            "move the lab to a folder of your own (without .venv), and run lab.py there.",
        )
    return None


FREE_SPACE = "free some space, then run the same command again: it goes on where it stopped."


def disks(root: Path) -> str:
    """One line per place an installer writes to, with the space that is left there."""
    places = {"the lab": root, "temporary files": Path(tempfile.gettempdir()), "home": Path.home()}
    return "\n".join(
        f"  {shutil.disk_usage(place).free / 1e9:8.2f} GB free for {name}, {place}"
        for name, place in places.items()
        if place.exists()
    )
