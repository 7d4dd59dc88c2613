"""Files that are no Python: inside the package in a wheel, outside of it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def carried(inside: str, outside: str) -> Path:
    """The folder `inside` the package where there is one, else `outside`, from the checkout's root.

    hatch_build.py says which folder of the checkout becomes which.
    """
    packed = PACKAGE / inside
    return packed if packed.is_dir() else PACKAGE.parent / outside
