"""A training loop on labkit's own device, followed while it runs."""

TRAINING = """
import labkit, labkit.nn as nn
from labkit import show
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.select import use
from labkit.memory.storages import cuda_storages

serving = use(EmulatorDriver(64 << 20))
serving.__enter__()
storages = cuda_storages.install()
storages.allocator.record_memory_history()
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)).to("cuda")
optimizer = labkit.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = labkit.ones(128, 64, device="cuda")
live = show.memory(storages, live=True, every=1e-3, title="training on the emulator")
live
"""
STEPS = """
for step in range(3):
    storages.allocator.history.user_metadata = f"step {step}"
    loss = model(data).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_training_loop_is_followed(lab):
    lab.page.set_viewport_size({"width": 1280, "height": 1300})
    lab.open([TRAINING])
    widget = lab.widget(0)
    lab.wait_drawn(widget)
    before = int(widget.get_attribute("data-entries"))
    assert "Live: " in widget.inner_text()
    lab.execute(STEPS)
    lab.execute("looks = live.looks\nlive.stop()")
    entries = lab.ask("storages.allocator.history.total")
    lab.wait_for(f"() => document.querySelectorAll('.lk')[0].dataset.entries === '{entries}'")
    assert entries > before + 60 and lab.ask("looks") > 1
    assert widget.get_attribute("data-differences") == "0"
    reserved = lab.ask("storages.allocator.memory_stats()['reserved_bytes.all.current']")
    assert widget.get_attribute("data-reserved") == str(reserved)
    assert "Live: " not in widget.inner_text()
    legend = widget.locator(".lk-mm-legend").inner_text()
    assert "cell:" in legend and "memory_live.py" not in legend, "named by the notebook's lines"
    assert "C++ frames" not in widget.inner_text()
    lab.screenshot("memory_live_training", of=widget)
    lab.execute("serving.__exit__(None, None, None)")
