"""One training step in JupyterLab: five lanes show one event, and a click in one leads the rest."""

from pathlib import Path

CELLS = [
    """import labkit as lab
from labkit import nn, optim, show
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)).to("cuda")
x, target = lab.randn(12, 8).to("cuda"), lab.tensor([0, 1, 2, 3] * 3).to("cuda")
optimizer = optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    scores = model(x)
    loss = nn.functional.cross_entropy(scores, target)
    loss.backward()
    optimizer.step()""",
    """v = show.training_step(step)
relu = next(launch for launch in v.meta["launches"] if launch[0] == "lab_relu")
v""",
]


def test_the_lanes_light_one_another(lab):
    lab.open(CELLS)
    view = lab.widget()
    lab.wait_drawn(view)
    assert view.locator(".lk-code-line.lk-step-now").inner_text().split("\n")[1] == (
        "    scores = model(x)"
    )
    queued, (written,) = lab.ask("relu[7]"), lab.ask("relu[6]")

    def at(event):
        lab.wait_for(
            "event => document.querySelector('.lk').dataset.event === String(event)", event
        )

    lab.execute(f"v.frame = {queued}")
    at(queued)
    assert view.get_attribute("data-writes") == str(written)
    assert view.locator(".lk-step-row.lk-step-now").inner_text().startswith("aten::relu")
    assert view.locator(".lk-step-chip.lk-chosen").inner_text() == "▸ lab_relu"
    lab.screenshot("step_view", of=view)

    # a kernel that is clicked leads to its own event, back from anywhere
    lab.execute("v.frame = 0")
    at(0)
    lab.execute(f"v.frame = {queued}")
    at(queued)
    streams = view.locator(".lk-lane-streams canvas")
    place = lab.ask("v.meta['launches'].index(relu)")
    cell = (streams.bounding_box()["width"] - 66) / lab.ask("len(v.meta['launches'])")
    streams.click(position={"x": 62 + (place + 1.5) * cell, "y": 12})
    at(lab.ask(f"v.meta['launches'][{place + 1}][7]"))
    assert view.get_attribute("data-writes") != str(written)

    # a line leads to the next event at which it runs
    view.get_by_text("loss.backward()").click()
    lab.wait_until("v.step_texts()[v.frame].startswith(('4 bytes are asked', 'backward'))", True)

    # keys, and from one kind of event to the next
    before = lab.ask("v.frame")
    view.locator("input[type=range]").focus()
    lab.press("ArrowRight", "ArrowRight", "ArrowLeft")
    lab.wait_until("v.frame", before + 1)
    view.get_by_label("kind of step").select_option("gradient")
    view.get_by_role("button", name="next step of this kind").click()
    lab.wait_until("v.step_texts()[v.frame].startswith('a gradient of shape')", True)
    view.locator(".lk-heat").wait_for()

    view.locator("input[type=range]").focus()
    lab.press("End")
    lab.wait_for("() => document.querySelector('.lk').dataset.ran === "
                 "document.querySelector('.lk').dataset.queued")  # fmt: skip


def test_a_static_page_walks_without_a_network(new_lab, tmp_path):
    from labkit import nn, ones, show
    from labkit.widgets.static_page import widget_page

    model, x = nn.Linear(4, 2).to("cuda"), ones((3, 4)).to("cuda")
    view = show.training_step(lambda: model(x).sum().backward())
    page = Path(tmp_path, "step.html")
    page.write_text(widget_page(view, "one step"), encoding="utf-8")
    with new_lab() as lab:
        lab.page.set_viewport_size({"width": 600, "height": 900})
        lab.page.goto(page.as_uri())
        widget = lab.widget()
        lab.wait_drawn(widget)
        first = int(widget.get_attribute("data-event"))
        widget.get_by_role("button", name="event forward", exact=True).click()
        lab.wait_for("e => document.querySelector('.lk').dataset.event === String(e)", first + 1)
        assert widget.locator(".lk-step-lanes.lk-narrow").count() == 1
        lab.screenshot("step_view_narrow", of=widget)
        drawn = int(widget.get_attribute("data-draws"))
        lab.page.emulate_media(color_scheme="dark")
        lab.wait_drawn(widget, more_than=drawn)
        lab.screenshot("step_view_narrow_dark", of=widget)
