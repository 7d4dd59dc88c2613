"""How tests are collected: what is skipped where there is no GPU."""

import pytest

from tests import conftest


class Item:
    """A test in a folder called gpu, with or without the marker."""

    def __init__(self, marked):
        self.keywords = {"gpu": True}
        self._marked, self.added = marked, []

    def get_closest_marker(self, name):
        return pytest.mark.gpu if self._marked and name == "gpu" else None

    def add_marker(self, marker):
        self.added.append(marker)


def test_a_checkout_in_a_folder_called_gpu_skips_nothing_else(monkeypatch):
    monkeypatch.setattr(conftest.torch.cuda, "is_available", lambda: False)
    items = [Item(False), Item(True)]
    conftest.pytest_collection_modifyitems(items)
    assert [len(item.added) for item in items] == [0, 1]
