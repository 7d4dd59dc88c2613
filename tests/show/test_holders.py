"""Who holds whom: names, tensors, storages and bases, step by step."""

import pytest

from labkit.show import holders

THREE = """a = torch.arange(6.0)
b = a[2:]
c = b.view(2, 2)
del a
del b, c
"""


def there(view, step):
    """What exists in a step, and the count of the storage there."""
    frame = view.frames[step]
    labels = [node["label"] for node in view.levels["all"]["nodes"]]
    absent = frame.get("absent", ())
    left = {label for place, label in enumerate(labels) if place not in absent}
    return left, [count for count in frame["notes"].values() if count]


def arrows(view, step):
    level = view.levels["all"]
    cut = view.frames[step].get("absent_edges", ())
    label = [node["label"] for node in level["nodes"]]
    return {
        (label[s], label[t], said)
        for s, t, said, _, (edge,), _ in level["edges"]
        if edge not in cut
    }


def test_the_tensor_behind_a_deleted_name_is_held_by_its_views():
    view = holders(THREE, at="del a")
    assert view.frame == 3 and view.simple
    left, counts = there(view, 3)
    assert left == {"b", "c", "tensor a", "tensor b", "tensor c", "storage"}
    assert counts == ["held by 3"] == there(view, 2)[1]
    assert ("tensor c", "tensor a", "base") in arrows(view, 3)
    assert not any(source == "a" for source, *_ in arrows(view, 3))
    assert there(view, 4) == (set(), [])


def test_without_bases_what_only_they_lead_to_looks_gone_and_the_count_is_still_all():
    view = holders(THREE, at="del a", bases=False)
    left, counts = there(view, 3)
    assert left == {"b", "c", "tensor b", "tensor c", "storage"}
    assert counts == ["held by 3"]
    assert there(view, 4) == (set(), [])
    assert not any(said for *_, said in arrows(view, 3))


def test_a_second_name_is_no_holder_and_a_list_is_one_of_its_tensor():
    view = holders("a = torch.zeros(4)\nb = a\nnode = [b]\na = torch.ones(2)\ndel b")
    assert [there(view, step)[1] for step in range(5)] == [
        ["held by 1"], ["held by 1"], ["held by 1"], ["held by 1"] * 2, ["held by 1"] * 2,
    ]  # fmt: skip
    assert ("node", "tensor a", "") in arrows(view, 4)


def test_the_static_picture_leaves_out_what_is_gone():
    view = holders(THREE, at="del a", bases=False)
    assert ">b<" in view.svg() and ">a<" not in view.svg()
    assert ">tensor b<" in view.svg() and ">tensor a<" not in view.svg()


def test_names_stand_above_their_tensors_and_no_way_to_a_storage_leads_through_a_base():
    level = holders(THREE + "p = torch.zeros(3)\nq = p\n").levels["all"]
    at = {node["label"]: (node["x"], node["y"]) for node in level["nodes"]}
    assert [at[name][1] for name in "abcpq"] == [0] * 5
    assert at["a"][0] == at["tensor a"][0] and at["tensor a"][1] > at["tensor b"][1]
    assert at["p"][0] < at["tensor p"][0] < at["q"][0] and at["p"][0] > at["c"][0]
    label = [node["label"] for node in level["nodes"]]
    routes = {label[s]: route for s, t, _, route, *_ in level["edges"] if label[t] == "storage"}
    assert routes["tensor b"] == [[at["b"][0], 2]] and routes["tensor c"] == [[at["c"][0], 2]]
    assert len({at[name][0] for name in "abc"}) == 3 and routes["tensor a"] == []


@pytest.mark.parametrize("program", ["", "x = 3"])
def test_a_program_without_tensors_is_refused(program):
    with pytest.raises(ValueError, match="makes no tensor"):
        holders(program)
