"""The table keeps what it is given, and its order is that of PyTorch's."""

import random

import pytest

from labkit.memory.robin_hood import RobinHoodTable, stream_key


def keys_in_order(table):
    places, place = [], table.next_place()
    while place is not None:
        places.append(table[place])
        place = table.next_place(place + 1)
    return places


def test_streams_in_the_order_of_the_recordings():
    """Fibonacci hashing of (type, device, id): worked out by hand from the multiplication."""
    table = RobinHoodTable()
    for stream_id in (0, 3, 35, 67):
        table.insert(stream_key(stream_id), stream_id)
    slots = 8
    wish = {i: (stream_key(i) * 11400714819323198485 % 2**64) >> 61 for i in (0, 3, 35, 67)}
    assert sorted(keys_in_order(table), key=lambda i: wish[i]) == keys_in_order(table)
    assert max(wish.values()) < slots


def test_the_key_holds_type_device_and_48_bits_of_the_id():
    assert stream_key(5, device=3) == (1 << 56) + (3 << 48) + 5
    assert stream_key(-1) == (1 << 56) + (1 << 48) - 1


@pytest.mark.parametrize("seed", range(5))
def test_it_holds_exactly_what_was_put_in(seed):
    chooser = random.Random(seed)
    table, expected = RobinHoodTable(), {}
    for _ in range(600):
        key = chooser.randrange(200) << chooser.choice([0, 5, 40])
        place = table.find(key)
        assert (place is None) == (key not in expected)
        if place is not None and chooser.random() < 0.6:
            assert table[place] == expected.pop(key)
            table.erase(place)
        else:
            assert table.insert(key, key + 1) == expected.setdefault(key, key + 1)
        assert len(table) == len(expected)
        assert sorted(table.values()) == sorted(expected.values())


def test_it_is_never_more_than_half_full():
    table = RobinHoodTable()
    for key in range(100):
        table.insert(key, key)
        assert len(table) * 2 <= table._slots


def test_an_empty_place_has_no_value():
    with pytest.raises(KeyError, match="place 0 is empty"):
        RobinHoodTable()[0]
