"""A snapshot dropped on the site's page: read as Python reads it, and nothing of it runs."""

import base64
import gzip
import json
import pickle
from pathlib import Path

import pytest

from labkit.memory.snapshots.snapshot import load_columns
from labkit.show.memory.sources import trace_of
from labkit.widgets.memory.memory_trace import encode
from labkit.workshop.site.your_snapshot import snapshot_page
from tests.memory import hostile
from tests.memory.damaged import small_snapshot, synthetic

FIXTURES = Path(__file__).parents[1] / "memory" / "fixtures"
RECORDED = sorted(FIXTURES.rglob("*.pickle.gz"))
READ = """async (base64) => {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const words = JSON.parse(document.getElementById("snapshot-words").textContent);
  const { meta, data } = snapshotColumns.state(snapshotPickle.read(bytes), words, "x");
  const columns = Object.entries(meta.schema).map(([name, [, from, count]]) =>
    [name.slice(2), [...new Float64Array(data.buffer, from, count)]]);
  return { part: meta.traces[0], columns: Object.fromEntries(columns) };
}"""


class Runs:
    """A pickle of it runs a program when Python loads it."""

    def __reduce__(self):
        return (print, ("run",))


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    page = tmp_path_factory.mktemp("site") / "your_snapshot.html"
    page.write_text(snapshot_page(), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def site(new_lab, page_file):
    with new_lab(offline=True) as lab:
        lab.page.goto(page_file.as_uri())
        lab.wait_for("() => document.documentElement.dataset.widgets === 'ready'")
        yield lab


def drop(site, data, name="snapshot.pickle"):
    """The file is chosen; returns what the page says of it."""
    file = {"name": name, "mimeType": "", "buffer": data}
    site.page.locator("#snapshot-said").evaluate("node => (node.textContent = '')")
    site.page.locator("#snapshot-file").set_input_files([])
    site.page.locator("#snapshot-file").set_input_files([file])
    site.wait_for(
        "() => /nowhere|is not shown/.test(document.getElementById('snapshot-said').textContent)"
    )
    return site.page.locator("#snapshot-said").inner_text()


def as_python_reads(data):
    """(what travels as JSON, its columns) of the device with the longest trace."""
    part, columns = encode(trace_of(load_columns(data)))
    part.pop("regions")
    return json.loads(json.dumps(part)), {name: values.tolist() for name, values in columns.items()}


def same(site, data):
    part, columns = as_python_reads(data)
    found = site.page.evaluate(READ, base64.b64encode(data).decode())
    found["part"].pop("regions")
    assert found["part"] == part
    assert sorted(found["columns"]) == sorted(columns)
    for name, values in columns.items():
        assert list(map(float, found["columns"][name])) == list(map(float, values)), name


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_recorded_snapshot_is_read_as_python_reads_it(site, path):
    same(site, gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_that_holds_bytes_is_read(site, protocol):
    same(site, synthetic(300, protocol=protocol))
    same(site, pickle.dumps(small_snapshot(), protocol))


def test_older_formats_are_completed_as_in_python(site):
    old = small_snapshot()
    (block,) = old["segments"][0]["blocks"]
    frames = block.pop("frames")
    del block["address"], block["requested_size"]
    block["history"] = [{"addr": 4096, "real_size": 99, "frames": frames}]
    block["state"] = "active_awaiting_free"
    same(site, pickle.dumps(old))
    same(site, pickle.dumps(old["segments"]))


def test_the_file_takes_the_place_of_the_example(site):
    path = FIXTURES / "snapshots" / "train_resnet.pickle.gz"
    said = drop(site, path.read_bytes(), path.name)
    assert said == f"{path.name}: read in this page, and sent nowhere."
    entries = len(load_columns(path))
    assert site.page.locator(".lk").count() == 1
    assert site.widget(0).get_attribute("data-entries") == str(entries)
    assert path.name in site.widget(0).inner_text()
    assert "small network" not in site.widget(0).inner_text()
    site.widget(0).locator(".lk-stepper input").first.focus()
    site.press("Home", "ArrowRight")
    assert site.widget(0).get_attribute("data-step") == "1"
    site.screenshot("your_snapshot")


def test_a_file_that_is_dropped_is_shown(site):
    data = base64.b64encode(pickle.dumps(small_snapshot())).decode()
    site.page.evaluate(
        """(base64) => {
          const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([bytes], "dropped.pickle"));
          for (const type of ["dragover", "drop"])
            document.body.dispatchEvent(
              new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        data,
    )
    site.page.get_by_text("dropped.pickle: read in this page").wait_for()
    assert site.widget(0).get_attribute("data-entries") == "2"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pickle.dumps({"segments": [Runs()]}), "asks for a class or a function"),
        (pickle.dumps({"segments": [Runs()]}, 0), "is no step of a snapshot's"),
        (pickle.dumps({"segments": {1, 2}, "device_traces": []}), "is no step of a snapshot's"),
        (b"", "the file is cut short"),
        (hostile.REAL[:-9], "the file is cut short"),
        (b"\x1f\x8b\x08 and then nothing", "the gzip file is damaged"),
        (b"PK\x03\x04 and so on", "a zip archive, as torch.save writes"),
        (b"\x80\x04K\x01.", "a snapshot is a dict"),
        (b"\x80\x04}.", "a snapshot has segments and device_traces"),
        (b"\x80\x04\x8b\xff\xff\xff\x7f.", "64 bits are the most"),
        (b"\x80\x04K\x01r\xff\xff\xff\xff.", "place 4294967295 in a file of"),
        (b"\x80\x04}]K\x01s.", "a container as a key"),
        (pickle.dumps({"segments": [{"address": 1, "total_size": "x"}]}), "total_size is"),
        (pickle.dumps({"segments": [], "device_traces": [[3]]}), "[0] is \"3\", not a dict"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_gets_a_sentence_and_what_was_shown_stays(site, data, why):
    drop(site, pickle.dumps(small_snapshot()))
    said = drop(site, data, "<b>bad.pickle</b>")
    assert said.startswith("<b>bad.pickle</b> is not shown: ")
    assert why in said
    assert site.widget(0).get_attribute("data-entries") == "2"


def test_texts_of_a_file_are_only_text(site):
    held = '<img src=x onerror="window.ran = 1">'
    bad = small_snapshot()
    for rows in (bad["device_traces"][0], bad["segments"][0]["blocks"]):
        rows[-1]["frames"] = [{"name": held, "filename": held, "line": 3}]
    bad["device_traces"][0][1]["user_metadata"] = held
    assert "sent nowhere" in drop(site, pickle.dumps(bad), held)
    assert site.page.evaluate("window.ran") is None
    assert site.page.locator("img").count() == 0


def test_the_page_may_ask_nobody(site):
    ask = "fetch('data:text/plain,x').then(() => 'sent', () => 'kept')"
    assert site.page.evaluate(ask) == "kept"
    assert any("Content Security Policy" in error for error in site.errors)
    site.errors.clear()  # the browser says what it kept back


def test_an_attack_ends_in_a_sentence_or_a_picture(site):
    for name, data in hostile.bombs():
        assert drop(site, data, name)
    site.page.evaluate("document.body.isConnected")  # the tab lives


def test_mutated_recordings_end_in_a_sentence_or_a_picture(site):
    said = [drop(site, data) for data in hostile.mutations(60)]
    assert any("not shown" in one for one in said)
    assert any("nowhere" in one for one in said)
