"""Seeds of one test: the first is asked in every run, the others by `lab.py test --all` too."""

import pytest


def seeds(first, *others):
    """The values of a parameter; those after the first are marked `full`.

    @pytest.mark.parametrize("seed", seeds(*range(4)))
    """
    return [first, *full_only(*others)]


def full_only(*others):
    """Values that `lab.py test --all` alone asks."""
    return [pytest.param(other, marks=pytest.mark.full) for other in others]
