import ctypes
import re

import pytest
import torch

from labkit.course import name_history
from labkit.course.exercises._old_names import DTYPES, parts_of
from tests.course.answers import Answers, first_hint

answers = Answers("from_thstorage_to_storageimpl")
LITERAL = "returns the literal answer of the example in the statement"

# --- the count after some events


@answers.right("count_after")
def count_after(events):
    step = {"make": 1, "copy": 1, "drop": -1}
    return sum(step.get(event, 0) for event in events)


def with_step(**changed):
    step = {"make": 1, "copy": 1, "drop": -1} | changed
    return lambda events: sum(step.get(event, 0) for event in events)


for why, answer in [
    ("release takes one off", with_step(release=-1)),
    ("reclaim adds one", with_step(reclaim=1)),
    ("the last event decides", lambda events: 0 if events[-1] == "drop" else 1),
    ("forgets that a new object has one holder", with_step(make=0)),
]:
    answers.wrong("count_after", why)(answer)

# --- bytes that are forgotten


@answers.right("lost")
def lost(nbytes, itemsizes):
    left = nbytes
    for itemsize in itemsizes:
        left -= left % itemsize
    return nbytes - left


for why, answer in [
    ("asks the last type alone", lambda nbytes, sizes: nbytes % sizes[-1]),
    (
        "adds up what each type alone would lose",
        lambda nbytes, sizes: sum(nbytes % n for n in sizes),
    ),
    ("counts what is left", lambda nbytes, sizes: nbytes - lost(nbytes, sizes)),
    ("counts elements", lambda nbytes, sizes: lost(nbytes, sizes) // sizes[-1]),
]:
    answers.wrong("lost", why)(answer)

# --- both counts


@answers.right("apply")
def apply(target, event, *, released=0, watch_holds=False, one_weak=True, revives=False):
    if event == "lock":
        if target.refcount == 0 and not revives:
            return False
        target.refcount += 1
        return True
    target.refcount += {"copy": 1, "drop": -1, "release": released}.get(event, 0)
    strong_end = event == "drop" and target.refcount == 0
    if strong_end and not (watch_holds and target.weakcount > 1):
        target.release_resources()
    ends = event == "unwatch" or (strong_end and one_weak)
    target.weakcount += (event == "watch") - ends
    if ends and target.weakcount == 0:
        target.delete()
    return None


def otherwise(**how):
    return lambda target, event: apply(target, event, **how)


answers.wrong("apply", "release takes one off")(otherwise(released=-1))
answers.wrong("apply", "a weak pointer keeps the bytes alive")(otherwise(watch_holds=True))
answers.wrong("apply", "lock revives what is dead")(otherwise(revives=True))
answers.wrong("apply", "the object never goes")(otherwise(one_weak=False))


@answers.wrong("apply", "a lock does not count")
def uncounted(target, event):
    return target.refcount > 0 if event == "lock" else apply(target, event)


def test_who_forgets_to_count_a_lock_is_told_that_it_counts():
    assert "one strong holder more" in first_hint(answers.exercises["apply"], uncounted)


@answers.wrong("apply", "the object goes with its bytes")
def both_at_once(target, event):
    answer = apply(target, event)
    if event == "drop" and target.refcount == 0 and "object" not in target.log:
        target.delete()
    return answer


@answers.wrong("apply", "the bytes go back twice")
def twice(target, event):
    answer = apply(target, event)
    if target.weakcount == 0:
        target.release_resources()
    return answer


# --- old names


@answers.right("today")
def today(name):
    cuda, dtype, family = parts_of(name)
    device = ", device=cuda" if cuda else ""
    return {
        "new": f"torch.UntypedStorage(0{device})",
        "newWithSize": f"torch.UntypedStorage(n * {dtype.itemsize}{device})",
        "size": f"s.nbytes() // {dtype.itemsize}",
        "data": "s.data_ptr()",
        "get": f"torch.empty(0, dtype={dtype}).set_(s)[i].item()",
        "resize": f"s.resize_(n * {dtype.itemsize})",
    }.get(family, "gone")


@answers.right("today")
def by_slices(name):
    words, family = name.split("Storage_")
    real = re.sub("^TH(Cuda)?", "", words) or "Float"
    size = DTYPES[real].itemsize
    where = "device=cuda" if "Cuda" in words else "device='cpu'"
    return {
        "new": f"torch.UntypedStorage({where})",
        "newWithSize": f"torch.UntypedStorage({size} * n, {where})",
        "size": f"len(s) // {size}",
        "data": "torch.empty(0, dtype=torch.uint8).set_(s).data_ptr()",
        "get": f"torch.tensor(s.tolist(), dtype=torch.uint8).view({DTYPES[real]})[i].item()",
        "resize": f"s.resize_({size} * n)",
    }.get(family, "gone")


for why, answer in [
    (
        "replaces a string",
        lambda name: name.replace("TH", "torch.").replace("Storage_", "Storage."),
    ),
    (
        "knows the printed names alone",
        lambda name: (
            today(name) if name in ("THFloatStorage_size", "THCudaStorage_new") else "gone"
        ),
    ),
    ("returns expressions that raise", lambda name: today(name).replace("s.", "storage.")),
    ("maps CUDA names to CPU ones silently", lambda name: today(name).replace(", device=cuda", "")),
    (LITERAL, lambda name: "s.nbytes() // 4"),
    ("counts elements, not bytes", lambda name: re.sub(r" (\*|//) \d", "", today(name))),
    (
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        lambda name: re.sub(
            r"([*/] )\d", r"\g<1>4", re.sub(r"torch\.\w+\d", "torch.float32", today(name))
        ),
    ),
    (
        "says gone to what it does not know",
        lambda name: today(name) if parts_of(name)[2] != "get" else "gone",
    ),
]:
    answers.wrong("today", why)(answer)


@pytest.mark.parametrize("counted", ["s.nbytes()", "s.nbytes() // 4"])
def test_who_counts_bytes_or_floats_is_told_about_the_item_size(counted):
    def answer(name):
        return counted if name.endswith("_size") else today(name)

    assert "which item size" in first_hint(answers.exercises["today"], answer)


test_answers = answers.tests()

# --- the pinned history


def test_every_state_says_where_it_was_read():
    dates = [one["date"].removeprefix("before ") for one in name_history.states()]
    assert dates == sorted(dates)
    for one in name_history.states():
        assert re.search(r"commit [0-9a-f]{12}|pull requests? \d+|issue \d+", one["read_in"])
        assert one["says"] and one["symbol"] and all(len(line) == 2 for line in one["lines"])


def test_a_name_is_followed_as_it_stood_at_the_date():
    assert name_history.leads_to("THFloatStorage", "2018-06-30") == ["THStorage"]
    assert name_history.leads_to("THStorage", "2019") == ["StorageImpl", "intrusive_ptr_target"]
    assert name_history.leads_to("FloatStorage", "2026")[:2] == ["UntypedStorage", "StorageImpl"]
    with pytest.raises(KeyError):
        name_history.leads_to("THStorage", "2022")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_the_last_state_is_what_is_installed():
    """What the walk ends with, asked of torch: one class below both, and no function of old."""
    below = {
        type(kind(2)._untyped_storage).__name__ for kind in (torch.FloatStorage, torch.IntStorage)
    }
    last = name_history.states()[-1]["lines"]
    assert below == {dict(last)["FloatStorage"]} == {dict(last)["IntStorage"]}
    library = ctypes.CDLL(torch._C.__file__)
    assert not hasattr(library, "THFloatStorage_new")
    assert not any(name.startswith("TH") for line in last for name in line)


def test_the_walk_shows_a_name_from_its_first_state_to_its_last():
    view = name_history.walk(at="2021")
    names = [node["label"] for node in view._nodes]
    absent = [[names[i] for i in frame["absent"]] for frame in view.frames]
    assert "StorageImpl" in absent[0] and "THStorage" in absent[-1]
    assert view.frame == 5 and len(view.frames) == len(name_history.states())
