"""Another PyTorch's key list: 2.11 lacks Fake, so all later bits sit one lower."""

import random
import subprocess
import sys

import pytest

from labkit.core.dispatch_key import FUNCTIONALITIES, DispatchKey
from labkit.core.dispatch_key_set import NUM_BACKENDS, DispatchKeySet
from labkit.dispatch import torch_keys

WITHOUT_FAKE = tuple(key.name for key in FUNCTIONALITIES if key is not DispatchKey.Fake)


@pytest.fixture
def older(monkeypatch):
    layout = torch_keys.Layout(
        (*WITHOUT_FAKE, "FromTheFuture"), (DispatchKey.Fake,), ("FromTheFuture",)
    )
    monkeypatch.setattr(torch_keys, "layout", lambda: layout)
    monkeypatch.setattr(torch_keys, "is_same_layout", lambda: False)


class Word:
    def __init__(self, raw):
        self.raw = raw

    def raw_repr(self):
        return self.raw


def test_sets_translate_by_name(older):
    rng = random.Random(0)
    for _ in range(100):
        keys = DispatchKeySet(*rng.sample(WITHOUT_FAKE, 6), "CPU", "Meta")
        there = torch_keys._translated_to(keys)
        assert torch_keys.from_torch(Word(there)) == keys
    python = torch_keys._translated_to(DispatchKeySet("Python"))
    assert python == 1 << (NUM_BACKENDS + DispatchKey.Python - 2)


def test_numbers_move_down_after_the_absent_key(older):
    assert torch_keys.torch_number(DispatchKey.BackendSelect) == DispatchKey.BackendSelect
    assert torch_keys.torch_number(DispatchKey.Python) == DispatchKey.Python - 1
    # one key fewer and one more: the runtime keys stay where they are
    assert torch_keys.torch_number(DispatchKey.CPU) == DispatchKey.CPU


def test_a_key_that_is_not_there_is_refused_by_name(older):
    for ask in (
        lambda: torch_keys.torch_number(DispatchKey.Fake),
        lambda: torch_keys._translated_to(DispatchKeySet("Fake")),
    ):
        with pytest.raises(ValueError, match="no dispatch key Fake"):
            ask()


def test_a_key_labkit_does_not_know_is_left_out(older):
    future = 1 << (NUM_BACKENDS + len(WITHOUT_FAKE))
    assert torch_keys.from_torch(Word(future | 1)) == DispatchKeySet.from_raw_repr(1)


def test_labkits_own_dispatcher_needs_no_torch():
    code = (
        "import sys, labkit.dispatch\n"
        "labkit.dispatch.dispatcher()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
