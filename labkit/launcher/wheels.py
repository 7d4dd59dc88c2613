"""A folder `wheels/` beside lab.py: packages come from there, and from nowhere else.

`labkit workshop bundle` writes it, for a room without internet.
"""

import os
from pathlib import Path

FOLDER = "wheels"


def use_wheels(root: Path) -> bool:
    """Whether the lab brings its packages along; pip, and what it calls, then asks no index."""
    if not (root / FOLDER).is_dir():
        return False
    os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=(root / FOLDER).resolve().as_uri())
    return True
