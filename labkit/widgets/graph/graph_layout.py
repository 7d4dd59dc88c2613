"""Layered drawing of a directed graph: the same picture every time, in near-linear time.

The steps are Sugiyama's: put every node on a layer below its predecessors, give each long edge a
stand-in on every layer it crosses (edges to one node share theirs, as lanes of one road), order the
layers so that few edges cross, then place nodes so that chains run straight, the longest of all as
the drawing's spine. Nothing is random and nothing recurses, so ten thousand nodes are fine.
"""

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

MAX_STAND_INS_PER_NODE = 6  # beyond it the longest edges are drawn straight through
ORDERING_SWEEPS = 24
SWAPS_PER_SWEEP = 3
SHORTENING_SWEEPS = 6
THOROUGH_UP_TO = 6000  # nodes and stand-ins: beyond it an order is good enough sooner
ORDERING_WORK = 250_000  # node visits all ordering sweeps may cost together
STRAIGHTENING_SWEEPS = 4
SPINE_FROM = 6  # nodes in a row; fewer need no spine
SPINE_WEIGHT = 1e6  # others make room


@dataclass(frozen=True)
class Layout:
    """Where everything goes.

    x, y    position of each node, in units of one node's width and one layer's height
    routes  per edge, in the order given: the bends between its ends, possibly none
    """

    x: list[float]
    y: list[float]
    routes: list[list[tuple[float, float]]]


def layered_layout(node_count: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Every node has a place, and every edge its bends.

    node_count  nodes are numbered 0 .. node_count - 1
    edges       (from, to) pairs; parallel edges and self-loops are allowed, cycles are drawn
                with one of their edges pointing up

    Raises   ValueError   an edge names a node that does not exist
    """
    for source, target in edges:
        if not (0 <= source < node_count and 0 <= target < node_count):
            raise ValueError(f"edge ({source}, {target}) leaves the nodes 0..{node_count - 1}")
    layer = _layers(node_count, _without_cycles(node_count, edges))
    above, below, layer, chains = _with_stand_ins(node_count, edges, layer)
    rows = _ordered(above, below, layer)
    x = _straightened(above, below, rows, _spine(below, rows, node_count))
    y = [float(row) for row in layer]
    routes = [[(x[node], y[node]) for node in chain] for chain in chains]
    return Layout(x[:node_count], y[:node_count], routes)


def _inversions(values: list[float]) -> int:
    """Pairs out of order, with a Fenwick tree: n log n."""
    in_order = sorted(values)
    if values == in_order:
        return 0  # most rows of a tidy drawing
    rank = {value: i + 1 for i, value in enumerate(dict.fromkeys(in_order))}
    tree = [0] * (len(rank) + 1)
    found = 0
    for seen, value in enumerate(values):
        not_greater, i = 0, rank[value]
        while i:
            not_greater += tree[i]
            i &= i - 1
        found += seen - not_greater
        i = rank[value]
        while i < len(tree):
            tree[i] += 1
            i += i & -i
    return found


def _without_cycles(node_count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges, those that close a cycle turned around, self-loops dropped."""
    following: list[list[int]] = [[] for _ in range(node_count)]
    for source, target in edges:
        if source != target:
            following[source].append(target)
    state = bytearray(node_count)  # 0 unseen, 1 on the path, 2 done
    back = set()
    for root in range(node_count):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(following[root]))]
        while path:
            node, rest = path[-1]
            for target in rest:
                if state[target] == 1:
                    back.add((node, target))
                elif state[target] == 0:
                    state[target] = 1
                    path.append((target, iter(following[target])))
                    break
            else:
                state[node] = 2
                path.pop()
    return [(t, s) if (s, t) in back else (s, t) for s, t in edges if s != t]


def _layers(node_count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of every node: one below its lowest predecessor."""
    before: list[list[int]] = [[] for _ in range(node_count)]
    following: list[list[int]] = [[] for _ in range(node_count)]
    for source, target in edges:
        before[target].append(source)
        following[source].append(target)
    waiting = [len(sources) for sources in before]
    layer = [0] * node_count
    ready = deque(node for node in range(node_count) if not waiting[node])
    while ready:
        node = ready.popleft()
        for target in following[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    _shorten(before, following, layer)
    for node in range(node_count):
        if following[node] and not before[node]:  # next to what it feeds, so its edges are short
            layer[node] = min(layer[target] for target in following[node]) - 1
    return layer


def _shorten(before: list[list[int]], following: list[list[int]], layer: list[int]) -> None:
    """Nodes with room move to the side where they have more neighbours: edges cross less."""
    movable = [
        node for node in range(len(layer))
        if before[node] and following[node] and len(before[node]) != len(following[node])
    ]  # fmt: skip
    for sweep in range(SHORTENING_SWEEPS):
        moved = False
        for node in movable if sweep % 2 else reversed(movable):
            if len(following[node]) > len(before[node]):
                place = min(layer[target] for target in following[node]) - 1
            else:
                place = max(layer[source] for source in before[node]) + 1
            moved |= place != layer[node]
            layer[node] = place
        if not moved:
            return


def _with_stand_ins(
    node_count: int, edges: Sequence[tuple[int, int]], layer: list[int]
) -> tuple[list[list[int]], list[list[int]], list[int], list[list[int]]]:
    """Neighbours above and below per node and stand-in, their layers, and each edge's stand-ins."""
    layer = list(layer)
    above: list[list[int]] = [[] for _ in range(node_count)]
    below: list[list[int]] = [[] for _ in range(node_count)]
    chains: list[list[int]] = [[] for _ in edges]
    lanes: dict[tuple[int, int], int] = {}  # (target, layer) -> the stand-in there
    room = MAX_STAND_INS_PER_NODE * node_count
    spans = sorted(range(len(edges)), key=lambda e: abs(layer[edges[e][0]] - layer[edges[e][1]]))
    for index in spans:
        source, target = edges[index]
        step = 1 if layer[source] < layer[target] else -1
        crossed = list(range(layer[source] + step, layer[target], step))
        if source == target or len(crossed) > room:
            continue
        new = [row for row in crossed if (target, row) not in lanes]
        room -= len(new)
        lanes.update({(target, row): len(layer) + place for place, row in enumerate(new)})
        layer += new
        above += [[] for _ in new]
        below += [[] for _ in new]
        chains[index] = [lanes[target, row] for row in crossed]
        line = [source, *chains[index], target]
        for upper, lower in pairwise(line):
            if step < 0:
                upper, lower = lower, upper
            if lower not in below[upper]:
                below[upper].append(lower)
                above[lower].append(upper)
    return above, below, layer, chains


def _ordered(above: list[list[int]], below: list[list[int]], layer: list[int]) -> list[list[int]]:
    """The nodes of every layer from left to right, with few crossings.

    A small graph is ordered from its top and from its bottom, and the better order is kept.
    """
    starts = [_depth_first(below, layer)]
    if len(layer) <= THOROUGH_UP_TO:
        starts.append(_depth_first(above, [-row for row in layer]))
    orders = []
    for start in starts:
        rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
        for node in start:
            rows[layer[node]].append(node)
        orders.append(_fewer_crossings(above, below, rows, len(layer)))
        if not orders[-1][0]:
            break
    return min(orders, key=lambda order: order[0])[1]


def _fewer_crossings(
    above: list[list[int]], below: list[list[int]], rows: list[list[int]], count: int
) -> tuple[int, list[list[int]]]:
    """How many crossings remain, and the rows that have them."""
    position = [0.0] * count
    for row in rows:
        for i, node in enumerate(row):
            position[node] = i
    best, fewest = [list(row) for row in rows], _row_crossings(rows, below, position)
    thorough = count <= THOROUGH_UP_TO
    most = ORDERING_SWEEPS if thorough else ORDERING_SWEEPS // 2
    sweeps = max(2, min(most, ORDERING_WORK // max(1, 2 * count)))
    for sweep in range(sweeps):
        if not fewest:
            break
        neighbours, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            _sort_by_neighbours(row, neighbours, position)
        for row in order:
            _swap_neighbours(row, above, below, position, threshold=(sweep // 2) % 2)
        for again in range(SWAPS_PER_SWEEP if thorough else 0):
            for row in order if again % 2 else order[::-1]:
                _swap_neighbours(row, above, below, position, threshold=1)
        crossings = _row_crossings(rows, below, position)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return fewest, best


def _depth_first(below: list[list[int]], layer: list[int]) -> list[int]:
    """All nodes, each chain in one piece, starting from the top."""
    seen = bytearray(len(layer))
    order = []
    for root in sorted(range(len(layer)), key=layer.__getitem__):
        stack = [root]
        while stack:
            node = stack.pop()
            if seen[node]:
                continue
            seen[node] = 1
            order.append(node)
            stack.extend(reversed(below[node]))
    return order


def _sort_by_neighbours(row: list[int], neighbours: list[list[int]], position: list[float]) -> None:
    """Order a row by the mean place of each node's neighbours; nodes without any stay put."""
    if len(row) < 2:
        return
    mean = {}
    for node in row:
        near = neighbours[node]
        mean[node] = sum(position[n] for n in near) / len(near) if near else position[node]
    row.sort(key=mean.__getitem__)
    for i, node in enumerate(row):
        position[node] = i


def _swap_neighbours(
    row: list[int],
    above: list[list[int]],
    below: list[list[int]],
    position: list[float],
    threshold: int,
) -> None:
    """Swap adjacent nodes where that removes at least `threshold` crossings, both sides counted.

    With threshold 0 ties are swapped too, which leaves plateaus that no single gain leads out of.
    """
    for i in range(len(row) - 1):
        left, right = row[i], row[i + 1]
        gain = 0
        for neighbours in (above, below):
            for a in neighbours[left]:
                for b in neighbours[right]:
                    gain += (position[a] > position[b]) - (position[a] < position[b])
        if gain >= threshold:
            row[i], row[i + 1] = right, left
            position[right], position[left] = i, i + 1


def _row_crossings(rows: list[list[int]], below: list[list[int]], position: list[float]) -> int:
    return sum(
        _inversions([end for node in row for end in sorted(position[n] for n in below[node])])
        for row in rows
    )


def _spine(below: list[list[int]], rows: list[list[int]], node_count: int) -> set[int]:
    """The nodes of the longest chain, where it is long; stand-ins make no chain."""
    length = [0] * len(below)
    following = [-1] * len(below)
    for row in reversed(rows):
        for node in row:
            ahead = [other for other in below[node] if max(node, other) < node_count]
            following[node] = max(ahead, key=length.__getitem__, default=-1)
            length[node] = 1 + (length[following[node]] if ahead else 0)
    node = max(range(node_count), key=length.__getitem__, default=-1)
    spine: set[int] = set()
    while node >= 0 and length[node] + len(spine) >= SPINE_FROM:
        spine.add(node)
        node = following[node]
    return spine


def _straightened(
    above: list[list[int]], below: list[list[int]], rows: list[list[int]], spine: Set[int]
) -> list[float]:
    """Places with at least one node's width between neighbours and nearly straight chains."""
    x = [0.0] * len(above)
    for row in rows:
        for i, node in enumerate(row):
            x[node] = i - (len(row) - 1) / 2
    for sweep in range(STRAIGHTENING_SWEEPS):
        order = rows if sweep % 2 == 0 else rows[::-1]
        for row in order:
            wanted, weights = [], []
            for node in row:
                near = above[node] + below[node] if sweep >= 2 else (above, below)[sweep][node]
                mean = sum(x[n] for n in near) / len(near) if near else x[node]
                wanted.append(0.0 if node in spine else mean)
                weights.append(SPINE_WEIGHT if node in spine else 1.0)
            for node, place in zip(row, _spread(wanted, weights), strict=True):
                x[node] = place
    left = min(x, default=0.0)
    return [place - left for place in x]


def _spread(wanted: list[float], weights: list[float]) -> list[float]:
    """The places closest to the wanted ones (least squares) that keep order and distance 1."""
    blocks: list[tuple[float, float, int]] = []  # (sum of shifted wishes, weight, how many nodes)
    for i, (place, weight) in enumerate(zip(wanted, weights, strict=True)):
        total, count = (place - i) * weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / weight:
            other_total, other_weight, other_count = blocks.pop()
            total, weight, count = total + other_total, weight + other_weight, count + other_count
        blocks.append((total, weight, count))
    shifted = [total / weight for total, weight, count in blocks for _ in range(count)]
    return [place + i for i, place in enumerate(shifted)]
