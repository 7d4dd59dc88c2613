import pytest

from labkit.widgets.graph_view import FOLD_ABOVE, GraphView

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
