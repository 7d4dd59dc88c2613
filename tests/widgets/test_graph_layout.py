import itertools
import random

import pytest

from labkit.widgets.graph.graph_columns import in_columns
from labkit.widgets.graph.graph_layout import layered_layout


def random_dag(seed, nodes=60, edges=90):
    rng = random.Random(seed)
    pairs = [sorted(rng.sample(range(nodes), 2)) for _ in range(edges)]
    return nodes, [(a, b) for a, b in pairs]


@pytest.mark.parametrize("seed", range(5))
def test_edges_point_down_and_nodes_do_not_touch(seed):
    count, edges = random_dag(seed)
    layout = layered_layout(count, edges)
    assert all(layout.y[a] < layout.y[b] for a, b in edges)
    rows = {}
    for node in range(count):
        rows.setdefault(layout.y[node], []).append(layout.x[node])
    for places in rows.values():
        places.sort()
        assert all(b - a >= 1 - 1e-9 for a, b in itertools.pairwise(places))


def test_routes_cross_every_layer_between():
    layout = layered_layout(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert [len(route) for route in layout.routes] == [0, 0, 0, 2]
    assert [y for _, y in layout.routes[3]] == [1.0, 2.0]


def test_a_chain_is_straight_and_same_every_time():
    chain = [(i, i + 1) for i in range(50)]
    layout = layered_layout(51, chain)
    assert len({round(x, 6) for x in layout.x}) == 1
    assert layout == layered_layout(51, chain)


def test_the_longest_chain_is_a_straight_spine():
    chain = [(i, i + 1) for i in range(30)]
    leaves = [(i, 31 + i) for i in range(30)] + [(i, 61 + i) for i in range(0, 30, 3)]
    layout = layered_layout(91, [*chain, *leaves])
    assert len({round(layout.x[i], 3) for i in range(31)}) == 1


def test_edges_to_one_node_share_a_lane():
    users = [(i, 40) for i in range(39)]
    layout = layered_layout(41, [*((i, i + 1) for i in range(39)), *users])
    assert max(layout.x) - min(layout.x) < 2
    assert len({x for route in layout.routes for x, _ in route[1:]}) <= 3


def test_a_long_chain_stands_in_columns_and_reads_down_then_right():
    chain = [(i, i + 1) for i in range(40)]
    layout = in_columns(layered_layout(41, chain), chain)
    assert max(layout.y) <= 12
    places = list(zip(layout.x, layout.y, strict=True))
    assert len(set(places)) == 41
    assert sorted(range(41), key=places.__getitem__) == list(range(41))
    for (source, target), route in zip(chain, layout.routes, strict=True):
        if layout.x[source] != layout.x[target]:  # around the foot, in at the head
            assert route[0][1] > layout.y[source] and route[-1][1] < layout.y[target]
        else:
            assert route == []


def test_what_fits_a_page_stays_in_one_piece():
    chain = [(i, i + 1) for i in range(5)]
    layout = layered_layout(6, chain)
    assert in_columns(layout, chain) == layout
    wide = [(0, i) for i in range(1, 40)] + [(1, 40 + i) for i in range(40)]
    assert in_columns(layered_layout(80, wide), wide) == layered_layout(80, wide)


def test_cycles_self_loops_and_parallel_edges_are_drawn():
    layout = layered_layout(3, [(0, 1), (1, 2), (2, 0), (1, 1), (0, 1)])
    assert sorted(layout.y) == [0.0, 1.0, 2.0]


def test_a_deep_chain_does_not_recurse():
    layout = layered_layout(20_000, [(i, i + 1) for i in range(19_999)])
    assert layout.y[-1] == 19_999


def test_empty_graph_and_isolated_nodes():
    assert layered_layout(0, []).x == []
    assert len(set(layered_layout(3, []).x)) == 3


def test_an_edge_outside_the_graph_is_refused():
    with pytest.raises(ValueError, match=r"edge \(0, 5\) leaves the nodes 0\.\.2"):
        layered_layout(3, [(0, 5)])


def crossings(edges, x, y):
    """How many pairs of edges between the same two rows cross."""
    ends = [sorted([(y[a], x[a]), (y[b], x[b])]) for a, b in edges]
    return sum(
        (p, q) == (r, s) and (one - other) * (below - beside) < 0
        for ((p, one), (q, below)), ((r, other), (s, beside)) in itertools.combinations(ends, 2)
    )


def test_residual_blocks_are_drawn_without_crossings():
    edges, last = [], 0
    for _ in range(20):
        edges += [(last, last + 1), (last + 1, last + 2), (last, last + 3), (last + 2, last + 3)]
        last += 3
    layout = layered_layout(last + 1, edges)
    x, y, lines = list(layout.x), list(layout.y), []
    for (source, target), route in zip(edges, layout.routes, strict=True):
        line = [source]
        for place in route:
            x.append(place[0])
            y.append(place[1])
            line.append(len(x) - 1)
        line.append(target)
        lines += itertools.pairwise(line)
    assert crossings(lines, x, y) == 0


def test_crossings_are_counted():
    assert crossings([(0, 3), (1, 2)], [0, 1, 0, 1], [0, 0, 1, 1]) == 1
    assert crossings([(0, 2), (1, 3)], [0, 1, 0, 1], [0, 0, 1, 1]) == 0


def test_a_node_with_room_moves_to_where_it_has_more_neighbours():
    # 4 hangs below 0 and feeds 3 and 5, three layers further down: one long edge, not two.
    edges = [(0, 1), (1, 2), (2, 3), (2, 5), (0, 4), (4, 3), (4, 5)]
    layout = layered_layout(6, edges)
    assert layout.y[4] == 2.0
    assert sum(len(route) for route in layout.routes) == 1
