"""A timeline in JupyterLab: choose spans by keyboard, step, and see what may overlap."""

CELLS = [
    """from labkit.show.timeline import timeline
spans = [
    {"lane": "host", "name": "enqueue copy", "start": 0, "end": 1, "kind": "call"},
    {"lane": "host", "name": "enqueue kernel", "start": 1, "end": 2, "kind": "call"},
    {"lane": "stream 1", "name": "copy", "start": 1, "end": 6, "kind": "copy", "writes": ["x"]},
    {"lane": "stream 2", "name": "kernel", "start": 4, "end": 9, "kind": "kernel", "reads": ["x"]},
    {"lane": "host", "name": "wait", "start": 3, "end": 9, "kind": "wait"},
]
w = timeline(spans, edges=[("enqueue copy", "copy"), ("enqueue kernel", "kernel")],
             races=[("copy", "kernel", "kernel reads x while copy writes it")],
             frames=[{"text": f"after {t} steps", "time": t} for t in range(10)],
             title="a missing event")
w""",
]


def test_timeline_view(lab):
    lab.open(CELLS)
    view = lab.widget()
    lab.wait_drawn(view)
    view.locator("input[type=range]").focus()
    lab.press("End")
    lab.wait_until("w.frame", 9)
    view.locator("canvas").focus()
    lab.press("ArrowRight", "ArrowRight", "ArrowRight")
    lab.wait_until("w.spans[w.selected]['name']", "copy")
    view.get_by_role("button", name="dim what cannot run").click()
    lab.screenshot("timeline_view", of=view)
    lab.execute("w.selected = 3")
    lab.wait_for("() => document.querySelector('.lk').dataset.selected === 'kernel'")
