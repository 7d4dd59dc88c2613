"""The memory map in JupyterLab: every state equals the allocator's, and each control works."""

from pathlib import Path

import nbformat
import pytest

from labkit.widgets.static_page import render_page, run_notebook

FIXTURES = Path(__file__).parents[1] / "memory" / "fixtures"
SNAPSHOTS = FIXTURES / "snapshots"

PROGRAM = """
import random
from labkit import show
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice

MIB = 1 << 20
device = SimulatedDevice(80 * MIB)
allocator = CachingAllocator(device, "")
allocator.record_memory_history()
allocator.explain()
rng, alive, expected = random.Random(5), [], []
while allocator.history.total < 240:
    if alive and rng.random() < 0.45:
        address = alive.pop(rng.randrange(len(alive)))
        if rng.random() < 0.3:
            allocator.record_stream(address, 7)
            if rng.random() < 0.5:
                device.complete(7)
        allocator.free(address)
    else:
        size = rng.choice([70, 5000, 600_000, MIB + 1, 3 * MIB, 9 * MIB, 21 * MIB])
        try:
            alive.append(allocator.malloc(size, stream=rng.choice([0, 0, 7])))
        except RuntimeError:
            pass
    stats = allocator.memory_stats()
    now = {k: stats[f"{k}_bytes.all.current"] for k in ("reserved", "allocated", "active")}
    expected.append([allocator.history.total, now["reserved"], now["allocated"],
                     now["active"] - now["allocated"]])
"""
CELLS = [
    PROGRAM,
    "lesson = show.memory(allocator, title='a lesson')\nlesson",
    f"""compared = show.memory({str(SNAPSHOTS / "infer_growing.pickle.gz")!r},
    {str(SNAPSHOTS / "infer_growing_expandable.pickle.gz")!r},
    autopsy=["66.8 MiB are free, the largest piece has 14 MiB."])
compared""",
    f"""from labkit.widgets.memory import memory_map
memory_map.SAVED_BYTES, memory_map.CHUNK_BYTES = 20_000, 30_000
large = show.memory({str(SNAPSHOTS / "train_resnet.pickle.gz")!r}, what_if=())
large""",
    f"show.memory({str(FIXTURES / 'gpu' / 'h200_torch_2_11_expandable.pickle.gz')!r}, what_if=())",
    """running = CachingAllocator(SimulatedDevice(64 * MIB))
live = show.memory(running, live=True, every=1e-9)
live""",
]

WALK = """(root) => {
  const canvas = root.querySelector("canvas"), seen = [];
  const names = ["step", "reserved", "allocated", "pending"];
  const look = () => seen.push(names.map((name) => Number(root.dataset[name])));
  const key = (name) => {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  };
  key("Home");
  look();
  for (let i = 0; i < Number(root.dataset.entries); i++) { key("ArrowRight"); look(); }
  const forward = seen.length;
  for (let i = 0; i < Number(root.dataset.entries); i++) { key("ArrowLeft"); look(); }
  return { forward: seen.slice(0, forward), back: seen.slice(forward - 1).reverse() };
}"""


def numbers(widget, *names):
    return [int(widget.get_attribute(f"data-{name}")) for name in names]


def test_memory_map(lab):
    lab.page.set_viewport_size({"width": 1280, "height": 1500})
    lab.open(CELLS)
    lesson, compared, large, real, live = (lab.widget(index) for index in range(5))
    for widget in (lesson, compared, large, real, live):
        lab.wait_drawn(widget)

    # Every state, forward and back, equals the allocator's own statistics.
    walked = lesson.evaluate(WALK)
    assert walked["forward"] == walked["back"]
    states = {state[0]: state for state in walked["forward"]}
    expected = lab.ask("expected")
    assert len(expected) > 60
    assert [states[entry[0]] for entry in expected] == expected
    assert numbers(lesson, "differences") == [0]

    # The keyboard reaches Python, Python reaches the page.
    timeline = lesson.locator("canvas").first
    timeline.focus()
    lab.command_mode()
    timeline.focus()
    lab.press("Home", "ArrowRight", "ArrowRight")
    lab.wait_until("lesson.frame", 2)
    assert "are rounded to" in lesson.locator(".lk-mm-why").inner_text()
    lab.execute("lesson.frame = 100")
    lab.wait_for("() => document.querySelectorAll('.lk')[0].dataset.step === '100'")
    timeline.click(position={"x": 5, "y": 20})
    assert numbers(lesson, "step")[0] < 10
    lab.press("End")
    lesson.locator(".lk-mm-map").focus()
    lab.press("ArrowRight", "ArrowRight")
    assert "Pinned block" in lesson.locator(".lk-mm-details").inner_text()
    lab.screenshot("memory_map_lesson", of=lesson)

    # Filters, matches, other settings.
    search = compared.get_by_label("search in stacks")
    search.fill("no such function")
    search.press("Enter")
    compared.get_by_role("button", name="earlier alloc that matches").click()
    assert "no earlier alloc matches" in compared.inner_text()
    search.fill("infer_growing.py:23")
    search.press("Enter")
    compared.get_by_role("button", name="earlier alloc that matches").click()
    assert "infer_growing.py:23" in compared.locator(".lk-mm-stack .own").first.inner_text()
    compared.get_by_role("button", name="Why it ran out").click()
    assert "the largest piece has 14 MiB" in compared.locator(".lk-mm-panel").inner_text()
    compared.get_by_role("button", name="go to the request that failed").click()
    assert "oom: " in compared.locator(".lk-step-text").inner_text()
    compared.get_by_role("button", name="Other settings").click()
    compared.get_by_label("expandable_segments", exact=True).check()
    assert "expandable_segments:True" in compared.locator(".lk-mm-chosen").inner_text()
    compared.get_by_label("roundup_power2_divisions").focus()
    lab.press("ArrowRight")
    compared.get_by_role("button", name="replay the trace").click()
    lab.wait_until("len(compared.what_if)", 6)
    lab.wait_for("() => document.querySelectorAll('.lk')[1].innerText.includes('replayed in')")
    lab.screenshot("memory_map_compared", of=compared)

    # What is too large to save comes from the kernel in pieces.
    lab.wait_for("() => document.querySelectorAll('.lk')[2].dataset.complete === 'true'")
    assert numbers(large, "entries", "differences") == [3139, 0]
    assert "A saved notebook keeps the last" in large.inner_text()

    # A recording of a real card: streams, private pools, expandable segments.
    assert numbers(real, "entries", "differences") == [914, 0]
    assert "private pool (1, 0)" in real.get_by_label("pool").inner_text()
    real.get_by_label("colour by").select_option("pool")
    assert "private pool (0, 1)" in real.locator(".lk-mm-legend").inner_text()
    lab.screenshot("memory_map_h200", of=real)

    # A loop that runs is followed.
    lab.execute("for i in range(30): running.free(running.malloc(1000 + i))\nlive.stop()")
    lab.wait_for("() => document.querySelectorAll('.lk')[4].dataset.entries === '91'")
    assert numbers(live, "step") == [91]
    lab.use_theme("JupyterLab Dark")
    large.scroll_into_view_if_needed()
    lab.screenshot("memory_map_dark", of=large)


SIMPLE = """
tiny = CachingAllocator(SimulatedDevice(80 * MIB))
tiny.record_memory_history()
first = tiny.malloc(100)
tiny.history.user_metadata = "image"
large = tiny.malloc(64 * MIB)
tiny.history.user_metadata = ""
try:
    tiny.malloc(63 * MIB)
except RuntimeError:
    pass
tiny.free(large)
tiny.snapshot()
show.memory(tiny, simple=True)
"""
ONE_BYTE_MORE = """
odd = CachingAllocator(SimulatedDevice(80 * MIB))
odd.record_memory_history()
odd.malloc(MIB + 1)
show.memory(odd, simple=True)
"""
STEPS = """(root) => {
  const said = [], [first, , , next] = root.querySelectorAll(".lk-stepper button");
  first.click();
  for (;;) {
    const words = (name) => root.querySelector(name).innerText;
    said.push(`${words(".lk-step-count")}: ${words(".lk-step-text")}`);
    if (next.getAttribute("aria-disabled") === "true") return said;
    next.click();
  }
}"""
FIRST_PIXELS = """(root) => {
  const bars = root.querySelectorAll("canvas")[1], scale = window.devicePixelRatio || 1;
  const dots = bars.getContext("2d").getImageData(0, Math.round(30 * scale), 12, 1).data;
  return Array.from({ length: 12 }, (_, x) => Array.from(dots.slice(4 * x, 4 * x + 3)));
}"""


def test_a_simple_map_is_read_without_knowing_the_tool(new_lab, page_file):
    with new_lab(offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        simple = lab.widget(2)
        assert simple.evaluate(STEPS) == [
            "step 0 of 6: nothing asked for yet",
            "step 1 of 6: the allocator takes a segment of 2 MiB from the GPU",
            "step 2 of 6: 100 B asked for: they get a block of 512 B",
            "step 3 of 6: image: the allocator takes a segment of 64 MiB from the GPU",
            "step 4 of 6: image: 64 MiB asked for: they get a block of 64 MiB",
            "step 5 of 6: out of memory: 63 MiB wanted, 14 MiB left on the GPU, "
            "and the longest free piece is 2047.5 KiB",
            "step 6 of 6: the block of 64 MiB is free again; the allocator keeps it",
        ]
        blue = [dot for dot in simple.evaluate(FIRST_PIXELS) if dot == [0x00, 0x72, 0xB2]]
        assert len(blue) >= 5, "512 bytes of 2 MiB in a row of 64 MiB are seen"
        strips = [bool(step["middle"]) for step in simple.evaluate(RUNS)]
        assert strips == [False, False, True, True, True, False, True], (
            "nothing is enlarged where a request found no room"
        )
        assert simple.locator("select, table, input:not([type=range])").count() == 0
        lab.screenshot("memory_map_simple", of=simple)
        simple.get_by_role("button", name="the whole tool").click()
        assert simple.get_by_label("colour by").count() == 1
        assert "entry 7 of 8" in simple.inner_text(), "it opens at the entry of that step"
        simple.get_by_role("button", name="hide all panels").click()
        assert simple.get_by_label("colour by").count() == 0


EMPTIED = """
kept = CachingAllocator(SimulatedDevice(80 * MIB))
kept.record_memory_history()
kept.explain()
three = [kept.malloc(400) for _ in range(3)]
long = kept.malloc(64 * MIB)
kept.empty_cache()
kept.free(long)
kept.free(three[1])
kept.empty_cache()
show.memory(kept, simple=True)
"""
RUNS = """(root) => {
  // At every step: what it says, and the runs [colour, from, to] along the strip's middle and along
  // the edge of its frame, in CSS pixels.
  const [first, , , next] = root.querySelectorAll(".lk-stepper button"), seen = [];
  const scale = window.devicePixelRatio || 1, strip = root.querySelectorAll("canvas")[2];
  const along = (y) => {
    const dots = strip.getContext("2d").getImageData(0, y * scale, strip.width, 1).data, found = [];
    for (let x = 0; x < strip.width; x++) {
      const colour = Array.from(dots.slice(4 * x, 4 * x + 3)).join();
      if (found.at(-1)?.[0] !== colour) found.push([colour, x / scale, 0]);
      found.at(-1)[2] = (x + 1) / scale;
    }
    return found;
  };
  first.click();
  for (;;) {
    const shown = strip.style.display !== "none";
    const text = root.querySelector(".lk-step-text").innerText;
    seen.push({ text, middle: shown ? along(24) : [], edge: shown ? along(19) : [] });
    if (next.getAttribute("aria-disabled") === "true") return seen;
    next.click();
  }
}"""
BLUE = "0,114,178"  # a block's bytes; the frame of the step has the accent's colour


def test_equal_blocks_stay_equal_and_every_step_is_framed(new_lab, page_file):
    with new_lab(offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        emptied = lab.widget(3)
        seen = emptied.evaluate(RUNS)
        assert [step["text"] for step in seen[6:]] == [
            "64 MiB asked for: they get a block of 64 MiB",
            "empty_cache() begins and ends: nothing was changed by it",
            "the block of 64 MiB is free again; the allocator keeps it",
            "the block of 512 B is free again; the allocator keeps it",
            "empty_cache() begins",
            "the segment of 64 MiB goes back to the GPU",
        ]
        blocks = [[r for r in step["middle"] if r[0] == BLUE] for step in seen]
        assert [len(runs) for runs in blocks] == [0, 0, 1, 2, 3, 3, 3, 3, 3, 2, 2, 2]
        starts = [round(run[1]) for run in blocks[5]]
        assert starts[2] - starts[1] == pytest.approx(starts[1] - starts[0], abs=1)
        assert [round(run[1]) for run in blocks[9]] == [starts[0], starts[2]], "nothing else moved"

        def framed(step):  # the frame's upper edge lies just above the strip
            return [run for run in step["edge"] if run[2] - run[1] > 40 and run[0] != "0,0,0"]

        assert [len(framed(step)) for step in seen] == [0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0]
        ((_, left, right),) = framed(seen[9])
        assert left <= starts[1] <= right <= starts[2] + 2, "the frame is round the hole"
        lab.screenshot("memory_map_emptied", of=emptied)
        opened = (
            "() => document.querySelectorAll('.lk')[3].querySelector('.lk-step-count').innerText"
        )
        assert lab.page.evaluate(opened) == "step 11 of 11"


def test_a_size_that_only_reads_as_round_is_said_to_the_byte(new_lab, page_file):
    with new_lab(offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        assert lab.widget(4).evaluate(STEPS)[1:] == [
            "step 1 of 2: the allocator takes a segment of 20 MiB from the GPU",
            "step 2 of 2: 1,048,577 B asked for: they get a block of 1024.5 KiB",
        ]


@pytest.fixture(scope="module")
def page_file(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    sources = (CELLS[0], CELLS[1], CELLS[3], SIMPLE, EMPTIED, ONE_BYTE_MORE)
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "memory.ipynb")
    page = folder / "memory.html"
    page.write_text(render_page(run_notebook(folder / "memory.ipynb"), "m"), encoding="utf-8")
    return page


def test_offline_the_saved_states_are_walked_and_the_rest_is_named(new_lab, page_file):
    with new_lab(offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        lesson, large = lab.widget(0), lab.widget(1)
        walked = lesson.evaluate(WALK)
        assert walked["forward"] == walked["back"]
        assert numbers(large, "entries")[0] < 3139
        assert numbers(large, "differences") == [0]
        lab.wait_for(
            "() => /too large to save/.test(document.querySelectorAll('.lk')[1].innerText)"
        )
        assert "of 3,139 entries" in large.inner_text()
        assert walked["forward"][0] == [0, 0, 0, 0]
        lab.screenshot("memory_map_static")
