"""The graph in JupyterLab: select by keyboard, follow an edge, search, step, fold, reopen."""

CELLS = [
    """import torch
from labkit.show.graph import graph
from labkit.widgets.graph_view import GraphView""",
    """x = torch.ones(3, requires_grad=True)
w = graph(((x * x).exp() + x).sum(), title='a small graph')
w""",
    """nodes = [
    {"label": f"n{i}", "kind": ("even", "odd")[i % 2], "group": f"block {i // 4}"}
    for i in range(12)
]
edges = [{"source": i, "target": i + 1} for i in range(11)] + [{"source": 0, "target": 4}]
frames = [
    {
        "text": f"step {i}",
        "marks": {i: "active", **({i - 1: "done"} if i else {})},
        "lists": {"ready queue": [f"n{j}" for j in range(i, min(12, i + 3))]},
    }
    for i in range(12)
]
g = GraphView(nodes, edges, frames, title="a walk")
g""",
]


def test_graph_view(lab):
    lab.open(CELLS)
    graph, walk = lab.widget(0), lab.widget(1)
    lab.wait_drawn(graph)
    graph.locator("canvas").focus()
    lab.command_mode()
    graph.locator("canvas").focus()
    lab.press("ArrowDown", "ArrowDown")
    assert graph.get_attribute("data-selected") == "AddBackward0"
    lab.wait_until("w.levels['all']['nodes'][w.selected]['label']", "AddBackward0")
    graph.get_by_role("button", name="follow this edge").last.click()
    lab.execute("w.selected = 0")
    lab.wait_for("() => document.querySelectorAll('.lk')[0].dataset.selected === 'SumBackward0'")
    graph.get_by_label("search nodes").fill("exp")
    graph.get_by_text("1 found").wait_for()
    lab.screenshot("graph_view", of=graph)

    walk.scroll_into_view_if_needed()
    walk.locator("input[type=range]").focus()
    lab.press("ArrowRight", "ArrowRight", "ArrowRight")
    lab.wait_until("g.frame", 3)
    walk.get_by_text("ready queue (3)").wait_for()
    lab.screenshot("graph_view_steps", of=walk)
    walk.get_by_role("button", name="fold all groups", exact=True).click()
    lab.wait_until("g.level", "folded")
    lab.execute("g.selected = 1")
    walk.get_by_role("button", name="show the nodes of this group").click()
    lab.wait_until("len(g.levels['mixed']['nodes'])", 6)
    lab.use_theme("JupyterLab Dark")
    lab.screenshot("graph_view_folded_dark", of=walk)
    lab.save()
    lab.reopen()
    lab.wait_drawn(lab.widget(1))
    lab.widget(1).get_by_role("button", name="unfold all groups").click()
