import pytest

from labkit.widgets.graph.graph_levels import PLACES
from labkit.widgets.graph.graph_picture import STATE_COLOURS
from labkit.widgets.graph.graph_view import FOLD_ABOVE, GraphView
from labkit.widgets.picture import PALETTE

NODES = [
    {"label": "a", "kind": "leaf", "group": "first"},
    {"label": "b", "kind": "operation", "group": "first"},
    {"label": "c", "kind": "operation"},
]
EDGES = [{"source": 0, "target": 1}, {"source": 1, "target": 2, "label": "1"}]


def test_text_form_counts_and_has_no_address():
    assert repr(GraphView(NODES, EDGES)) == "GraphView(3 nodes, 2 edges)"
    frames = [{"text": "start", "marks": {0: "active"}}]
    assert repr(GraphView(NODES, EDGES, frames)) == "GraphView(3 nodes, 2 edges, 1 step)"


def test_groups_fold_into_one_node_and_unfold_again():
    view = GraphView(NODES, EDGES)
    folded = view.levels["folded"]
    assert [node["label"] for node in folded["nodes"]] == ["first", "c"]
    assert folded["nodes"][0]["badges"] == ["2 nodes"]
    assert [edge[:3] for edge in folded["edges"]] == [[0, 1, "1"]]
    view.unfolded = ["first"]
    assert view.level == "mixed"
    assert [node["label"] for node in view.levels["mixed"]["nodes"]] == ["a", "b", "c"]


def test_a_large_graph_starts_folded():
    nodes = [{"label": str(i), "group": f"g{i // 100}"} for i in range(FOLD_ABOVE + 1)]
    assert GraphView(nodes, []).level == "folded"
    assert GraphView(nodes[:-1], []).level == "all"


def test_the_picture_shows_labels_and_says_what_it_leaves_out():
    picture = GraphView(NODES, EDGES, title="three").svg()
    assert all(f">{text}</text>" in picture for text in ("three", "a", "b", "c"))
    many = GraphView([{"label": str(i)} for i in range(400)], [])
    assert "first 150 of 400 nodes" in many.svg()


@pytest.mark.parametrize(
    ("edges", "frames", "message"),
    [
        ([{"source": 0, "target": 9}], [], r"names node 9; there are 0\.\.2"),
        ([], [{"marks": {7: "done"}}], "marks node 7; there are 3"),
        ([], [{"marks": {0: "glowing"}}], "'glowing' is not one of active, ready"),
    ],
)
def test_bad_input_is_named(edges, frames, message):
    with pytest.raises(ValueError, match=message):
        GraphView(NODES, edges, frames)


def test_frames_travel_lean_and_long_lists_are_cut():
    frame = {
        "text": "one",
        "marks": {0: "active"},
        "notes": {1: "waits for 2", 2: None},
        "edges": [1],
        "lists": {"heap": range(40)},
        "heats": [{"title": "g", "rows": 1, "columns": 2, "numbers": [1.5, "nan"]}],
        "stop": "here",
    }
    shown, bare = GraphView(NODES, EDGES, [frame, {"text": "two"}]).frames
    assert shown["notes"] == {"1": "waits for 2", "2": None}
    assert shown["lists"]["heap"][-2:] == ["11", "… and 28 more"]
    assert shown["heats"][0]["numbers"] == [1.5, "nan"]
    assert bare == {"text": "two", "marks": {}, "lists": {}}


def test_edges_of_every_level_know_which_edges_they_stand_for():
    edges = [*EDGES, {"source": 0, "target": 2, "label": "1"}]
    view = GraphView(NODES, edges)
    assert [edge[4] for edge in view.levels["all"]["edges"]] == [[0], [1], [2]]
    assert [edge[4] for edge in view.levels["folded"]["edges"]] == [[1, 2]]


def test_what_came_along_an_edge_stays_written_beside_it():
    frames = [
        {"text": "first", "edges": [0], "flows": {0: "[1, 2]"}},
        {"text": "second", "edges": [1], "flows": {1: "6"}},
        {"text": "again", "flows": {0: None, 1: None}},
    ]
    view = GraphView(NODES, EDGES, frames)
    drawn = [view.open_at(step).svg() for step in (1, 2, 3)]
    assert ["[1, 2]" in one for one in drawn] == [True, True, False]
    assert [">6<" in one for one in drawn] == [False, True, False]


def test_the_picture_stops_where_the_steps_stop():
    frames = [
        {"text": "start", "notes": {2: "waits for 1"}},
        {"text": "it broke", "marks": {1: "error"}, "stop": "broken"},
        {"text": "never", "marks": {1: "done"}},
    ]
    picture = GraphView(NODES, EDGES, frames).svg()
    assert "step 2 of 3: it broke" in picture
    assert ">waits for 1</text>" in picture


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"edges": [2]}, "lights edge 2; there are 2"),
        ({"flows": {3: "1"}}, "lights edge 3; there are 2"),
        ({"notes": {5: "x"}}, "marks node 5; there are 3"),
        ({"absent": [3]}, "marks node 3; there are 3"),
        ({"absent_edges": [2]}, "lights edge 2; there are 2"),
        ({"heats": [{"title": "g", "rows": 2, "columns": 2, "numbers": [1]}]}, "1 numbers for 2 x"),
    ],
)
def test_a_bad_frame_is_named(frame, message):
    with pytest.raises(ValueError, match=message):
        GraphView(NODES, EDGES, [frame])


def test_a_kind_has_the_same_colour_in_every_backward_graph():
    def kinds(*names):
        return GraphView([{"label": name, "kind": name} for name in names], []).kinds

    assert kinds("operation", "saves tensors", "leaf")["leaf"] == kinds("leaf")["leaf"]
    assert kinds("saves tensors", "operation") == {"operation": 0, "saves tensors": 3}
    assert kinds("open", "leaf", "done") == {"leaf": 7, "open": 0, "done": 3}
    assert kinds() == {}


def test_no_kind_of_a_backward_graph_has_the_colour_of_a_state():
    assert not {PALETTE[place] for place in PLACES.values()} & {*STATE_COLOURS.values()}
