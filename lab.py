"""Set up the lab and open it: `python3 lab.py`; `python3 lab.py --help` names the rest.

This file alone must be readable by any Python, however old, so that an old one gets a sentence
and not a SyntaxError: no annotations, no f-strings here. The work is done in labkit/launcher.
"""

import os
import subprocess
import sys

OLDEST = (3, 11)
NEWEST = (3, 13)

if not OLDEST <= sys.version_info[:2] <= NEWEST:
    usable = []
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 (old Pythons have no pathlib)
        for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
            name = "python3." + str(minor)
            try:
                status = subprocess.call([name, "-c", ""], stdout=nowhere, stderr=nowhere)
            except OSError:
                continue
            if status == 0:  # a name on PATH is not yet a Python: version managers put stubs there
                usable.append(name)
    try:
        from shlex import quote
    except ImportError:  # Python 2
        from pipes import quote  # noqa: UP035
    again = " ".join(quote(word) for word in usable[:1] + sys.argv)
    sys.stderr.write(
        "lab.py: this is Python " + ".".join(str(part) for part in sys.version_info[:3]) + " ("
        + sys.executable + "); the lab needs Python 3.11, 3.12 or 3.13.\n"
        + ("  What to do: " + usable[0] + " is on this machine, so run\n\n    " + again
           + "\n\n" if usable else
           "  What to do: install one of them beside this one (your system's package manager,\n"
           "  Homebrew, conda or uv all have it), then run lab.py with that python.\n")
    )  # fmt: skip
    sys.exit(1)

from labkit.launcher.cli import main  # noqa: E402 (only now is newer syntax safe)
from labkit.launcher.surroundings import open_streams  # noqa: E402

if __name__ == "__main__":
    open_streams()
    sys.exit(main(os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]))  # noqa: PTH100, PTH120
