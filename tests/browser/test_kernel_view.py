"""A traced kernel in JupyterLab: step requests, read lanes, play a race back, ask what if."""

import random
from pathlib import Path

from labkit.widgets.cuda.warp_request import groups, ideal_sectors, passes, sectors

WIDGETS = Path(__file__).parents[2] / "labkit" / "widgets"
CELLS = [
    '''import numpy as np
from labkit import cuda, show
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.witness import find_witness
device = EmulatorDriver(capacity=1 << 26)
module = cuda.RawModule(r"""
extern "C" __global__ void column(const float* x, float* y) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = x[32 * threadIdx.y + threadIdx.x];
    __syncthreads();
    y[32 * threadIdx.x + threadIdx.y] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void count(int* y) {
    y[0] += 1;
}
""", driver=device)
x, y, n = np.zeros(1024, "f"), np.zeros(1024, "f"), np.zeros(1, np.int32)
w = show.kernel(module.get_function("column")(1, (32, 32), (x, y), trace=cuda.Trace()))
w''',
    """kernel = module.get_function("count")
report = kernel(1, 64, (n,), trace=cuda.Trace())
n[:] = 0
r = show.kernel(report, witness=find_witness(kernel, 1, 64, (n,), report.findings[0]))
r""",
]


def test_kernel_view(lab):
    lab.open(CELLS)
    view, race = lab.widget(0), lab.widget(1)
    lab.wait_drawn(view)
    assert view.locator("[data-line='6'] [data-heat='1.00']").count() == 1
    view.get_by_text("32 wavefronts, 1 at best").wait_for()
    lab.screenshot("kernel_view_banks", of=view)
    lab.command_mode()
    view.locator("[data-key='lanes']").focus()
    lab.press("ArrowRight", "ArrowRight")
    lab.wait_until("w.lane", 2)
    view.get_by_text("lane 2: tile + 256 bytes, bank 0, answered in pass 3").wait_for()

    view.locator("[data-key='lines']").focus()
    lab.press("ArrowUp")
    lab.wait_until("w.place", 0)
    view.locator("[data-line='4'].lk-station").wait_for()
    view.get_by_text("4 sectors, 4 at best · 128 bytes move, 128 were asked for (100%)").wait_for()
    view.get_by_role("button", name="request forward").click()
    lab.wait_until("w.frame", 1)
    lab.press("ArrowLeft")
    lab.wait_until("w.frame", 0)
    view.get_by_role("combobox", name="warp").select_option("0,0,0/3")
    view.get_by_text("line 4, block (0, 0, 0), warp 3: 32 lanes read 4 bytes").wait_for()
    view.get_by_text("thread (2, 3, 0)").wait_for()
    lab.screenshot("kernel_view_sectors", of=view)

    view.get_by_role("tab", name="page: what if").click()
    view.get_by_label("stride").focus()
    lab.press(*["ArrowRight"] * 7)
    lab.wait_until("w.what_if['stride']", 8)
    view.get_by_text("32 sectors, 4 at best").wait_for()
    lab.execute("w.what_if = {**w.what_if, 'stride': -1, 'offset': 31}")
    view.get_by_text("4 sectors, 4 at best").wait_for()

    race.scroll_into_view_if_needed()
    race.get_by_role("button", name="finding: race at line 9").first.wait_for()
    race.locator("input[type=range]").focus()
    lab.press("End")
    race.get_by_text("At the end y[0] is").wait_for()
    race.locator("[data-line='9'].lk-station").wait_for()
    lab.screenshot("kernel_view_race", of=race)
    lab.press("ArrowLeft", "ArrowLeft")
    lab.wait_for("() => !document.querySelector('.lk-k-result.lk-alert')")
    seats = race.locator(".lk-k-done").count()
    lab.press("Home")
    lab.wait_until("r.step", 0)
    assert race.locator(".lk-k-done").count() == 1 < seats
    race.get_by_text("reads y[0] at line 9 and sees 0").first.wait_for()
    lab.use_theme("JupyterLab Dark")
    lab.screenshot("kernel_view_race_dark", of=race)

    lab.save()
    lab.reopen()
    view = lab.widget(0)
    lab.wait_drawn(view)
    view.get_by_role("tab", name="page: requests").click()
    view.get_by_role("button", name="step the requests of all lines").click()
    view.get_by_role("button", name="last request").click()
    view.get_by_text("line 6, block (0, 0, 0), warp 3").wait_for()
    lab.screenshot("kernel_view_reopened_dark", of=view)


def test_the_browser_counts_as_python_does(lab):
    """Sectors, passes and what is best, of 400 random requests."""
    source = (WIDGETS / "cuda/kernel_memory.js").read_text(encoding="utf-8")
    rng = random.Random(3)
    requests = []
    for _ in range(400):
        size = rng.choice([1, 2, 4, 8, 16])
        stride, start = rng.randrange(-9, 34), rng.randrange(200, 400)
        spread = rng.choice([0, 0, 3, 300])
        lanes = [
            None if rng.random() < 0.2 else size * (start + lane // rng.choice([1, 2]) * stride
                                                    + rng.randrange(spread + 1))
            for lane in range(32)
        ]  # fmt: skip
        requests.append([lanes, size])
    answers = lab.page.evaluate(
        f"""(requests) => {{
            {source}
            return requests.map(([lanes, size]) => [
                kernelMemory.sectors(lanes, size), kernelMemory.idealSectors(lanes, size),
                kernelMemory.groups(lanes, size), kernelMemory.passes(lanes, size)]);
        }}""",
        requests,
    )
    for (addresses, size), (touched, ideal, served, rows) in zip(requests, answers, strict=True):
        lanes = {lane: at for lane, at in enumerate(addresses) if at is not None}
        assert touched == sectors(lanes, size)
        assert ideal == ideal_sectors(lanes, size)
        assert served == groups(lanes, size)
        assert [{b: asking for b, asking in enumerate(row) if asking} for row in rows] == passes(
            lanes, size
        )
