"""The graph in JupyterLab: select by keyboard, follow an edge, search, step, fold, reopen."""

CELLS = [
    """import torch
from labkit.show.graph import graph
from labkit.widgets.graph.graph_view import GraphView""",
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
    "graph(((x * x).exp() + x).sum(), simple=True)",
    "GraphView(nodes, edges, frames[:1], simple=True)",
]


def test_graph_view(lab):
    lab.open(CELLS)
    graph, walk, alone, still = (lab.widget(index) for index in range(4))
    lab.wait_drawn(graph)
    lab.wait_drawn(alone)
    layers = "canvas => Math.round(canvas.clientHeight / 62 / 1.1)"
    assert alone.locator("canvas").evaluate(layers) == 5, "as high as its five rows need"
    still.get_by_text("step 0", exact=True).wait_for()
    assert not still.locator(".lk-stepper input").is_visible(), "one step is not played"
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


ENGINE_CELLS = [
    """import torch
import labkit as lab
from labkit import show
x = lab.tensor([[1.0, -2.0], [3.0, 4.0]]).requires_grad_()
w = lab.tensor([[0.5, -1.0]]).requires_grad_()
b = show.backward(((x * w).exp() + x).sum(), title='two paths')
b""",
    """def spoilt():
    y = x.exp()
    z = (y * 2).sum()
    with lab.no_grad():
        y.mul_(3)
    return z
e = show.backward(spoilt, title='written in place')
e""",
    """torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
rows = torch.randn(20, 8)
t = show.backward(model(rows).square().mean(), title='of torch')
t""",
]


def test_a_backward_call_is_walked(lab):
    lab.open(ENGINE_CELLS)
    walk, spoilt, torch_step = lab.widget(0), lab.widget(1), lab.widget(2)
    lab.wait_drawn(walk)
    walk.get_by_text("dependencies are counted").wait_for()
    swatches = walk.locator(".lk-graph-legend .lk-swatch")
    colours = swatches.evaluate_all("all => all.map((one) => one.style.backgroundColor)")
    assert len(colours) == 7 == len(set(colours)), "a colour of the legend has one meaning"
    walk.locator("input[type=range]").focus()
    lab.command_mode()
    walk.locator("input[type=range]").focus()
    lab.press("ArrowRight", "ArrowRight")
    lab.wait_until("b.frame", 2)
    walk.get_by_text("buffer of input 0 (2, 2)").wait_for()
    walk.get_by_label("kind of step").select_option("accumulation")
    walk.get_by_role("button", name="next step of this kind").click()
    walk.get_by_text("x.grad becomes what arrived").wait_for()
    lab.screenshot("graph_view_backward", of=walk)
    lab.press("Shift+Tab", "Enter")
    lab.wait_until("b.frames[b.frame]['kind']", "accumulation")

    spoilt.scroll_into_view_if_needed()
    assert spoilt.get_by_label("kind of step").input_value() == "break"
    spoilt.get_by_role("button", name="next step of this kind").click()
    spoilt.get_by_text("needs result as it was at version 0").wait_for()
    lab.screenshot("graph_view_stopped", of=spoilt)

    torch_step.scroll_into_view_if_needed()
    torch_step.get_by_label("kind of step").select_option("node runs")
    torch_step.get_by_role("button", name="next step of this kind").click()
    torch_step.get_by_text("MeanBackward0 #6 leaves the heap").wait_for()
    lab.screenshot("graph_view_torch", of=torch_step)
    lab.use_theme("JupyterLab Dark")
    lab.execute("b.frame = 9")
    walk.scroll_into_view_if_needed()
    lab.screenshot("graph_view_backward_dark", of=walk)
    lab.save()
    lab.reopen()
    lab.wait_drawn(lab.widget(1))
    lab.widget(1).get_by_role("button", name="next step of this kind").click()
    lab.widget(1).get_by_text("modified by an inplace operation").wait_for()
