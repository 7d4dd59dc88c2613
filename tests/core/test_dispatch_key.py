import pickle
import random

import pytest
import torch

from labkit.core.alias_keys import ALIAS_SETS, BACKENDS_OF_AUTOGRAD, autograd_slot_of_backend
from labkit.core.dispatch_key import FUNCTIONALITIES, RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import FULL_MASK, DispatchKeySet
from labkit.dispatch.torch_keys import from_torch, layout, to_torch, torch_key, torch_number

K = DispatchKey


def test_sixty_two_bits_and_137_slots():
    assert FULL_MASK.bit_count() == FULL_MASK.bit_length() == 62
    assert len(RUNTIME_KEYS) == len(set(RUNTIME_KEYS)) == 137
    assert [key.table_index() for key in map(DispatchKeySet, RUNTIME_KEYS)] == [*range(137)]


@pytest.mark.parametrize("key", [key for key in K if not key.is_marker], ids=str)
def test_every_key_has_pytorchs_name_under_pytorchs_number(key):
    if key in layout().absent:
        with pytest.raises(ValueError, match=key.name):
            torch_number(key)
        return
    assert torch._C._dispatch_key_name(torch_key(key)) == key.name
    assert DispatchKey.parse(key.name) is key


@pytest.mark.parametrize("name", ["CPUU", "StartOfDenseBackends", "EndOfFunctionalityKeys", ""])
def test_a_name_that_is_no_key_is_refused(name):
    with pytest.raises(ValueError, match=repr(name)):
        DispatchKey.parse(name)


def test_removing_a_key_leaves_its_backend():
    keys = DispatchKeySet("CPU", "AutogradCPU").remove("CPU")
    assert keys.functionalities() == (K.AutogradFunctionality,)
    assert keys.backends() == ("CPU",)


def test_nobody_owns_a_backend_bit():
    assert DispatchKeySet("CPU", "AutogradCUDA") == DispatchKeySet("CUDA", "AutogradCPU")
    assert DispatchKeySet("CPU", "AutogradCUDA").highest_priority_type_id() is K.AutogradCUDA


def test_iteration_expands_over_the_backends():
    keys = DispatchKeySet("CPU", "CUDA", "AutogradCPU", "Functionalize")
    assert [*keys] == [K.CPU, K.CUDA, K.Functionalize, K.AutogradCPU, K.AutogradCUDA]


def test_without_a_backend_bit_the_first_backends_slot_is_used():
    bare = DispatchKeySet(K.AutogradFunctionality)
    assert bare.slot_key() is K.AutogradCPU
    assert bare.highest_priority_type_id() is K.StartOfAutogradFunctionalityBackends
    assert [*bare] == []
    assert "on no backend" in repr(bare)


def test_full_after_keeps_the_python_dispatcher():
    after = DispatchKeySet.full_after("AutogradOther")
    assert after.has("ADInplaceOrView")
    assert after.has("PythonDispatcher")
    assert not after.has("AutogradOther")
    assert not after.has("AutocastCPU")


def test_words_travel_to_pytorch_and_back():
    rng = random.Random(0)
    known = [key for key in FUNCTIONALITIES if key not in layout().absent]
    for _ in range(200):
        keys = DispatchKeySet(*rng.sample(known, 5), *rng.sample(RUNTIME_KEYS[1:17], 2))
        assert from_torch(to_torch(keys)) == keys


@pytest.mark.parametrize("raw", [-1, FULL_MASK + 1, 1 << 63])
def test_a_word_outside_the_bits_is_refused(raw):
    with pytest.raises(ValueError, match=f"{raw:#x}"):
        DispatchKeySet.from_raw_repr(raw)


def test_a_set_is_a_value():
    keys = DispatchKeySet("CPU")
    with pytest.raises(AttributeError, match="does not change"):
        keys.raw = 3
    assert pickle.loads(pickle.dumps(keys)) == keys
    assert {keys: 1}[DispatchKeySet("CPU")] == 1
    with pytest.raises(ValueError, match="Undefined"):
        keys.has("Undefined")


def test_quirks_of_the_alias_sets():
    implicit = ALIAS_SETS[K.CompositeImplicitAutograd]
    assert implicit.has(K.NestedTensorCPU)
    assert not ALIAS_SETS[K.CompositeExplicitAutograd].has(K.NestedTensor)
    nonfunctional = ALIAS_SETS[K.CompositeExplicitAutogradNonFunctional]
    assert not nonfunctional.has(K.XLA)
    assert not nonfunctional.has(K.Sparse)
    assert BACKENDS_OF_AUTOGRAD[K.AutogradMTIA] == frozenset()
    assert BACKENDS_OF_AUTOGRAD[K.AutogradCPU] == {K.CPU}
    assert autograd_slot_of_backend(K.QuantizedCPU) is K.AutogradCPU
    assert autograd_slot_of_backend(K.HIP) is K.AutogradOther
