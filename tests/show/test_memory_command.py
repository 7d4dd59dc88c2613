"""`labkit memory`: a snapshot in the terminal and on a page, without a notebook."""

import gzip
import json
import pickle
import re
from pathlib import Path

import pytest

from labkit import show
from labkit.cli import main

SNAPSHOTS = Path(__file__).parents[1] / "memory" / "fixtures" / "snapshots"
MLP = str(SNAPSHOTS / "train_mlp.pickle.gz")
GROWING = str(SNAPSHOTS / "infer_growing.pickle.gz")


def test_the_summary_names_sites_leaks_and_regions(capsys):
    assert main(["memory", GROWING]) == 0
    said = capsys.readouterr().out
    assert "device 0: 12,425 entries, 22 segments, 88 blocks" in said
    assert "reserved 308.00 MiB, allocated 228.77 MiB" in said
    assert re.search(r"0 bytes +13\.25 MiB .* infer_growing\.py:21 forward", said)
    assert main(["memory", MLP]) == 0
    assert "104 to 160  Optimizer.step#AdamW.step" in capsys.readouterr().out


def test_two_files_are_compared_by_call_site(capsys):
    assert main(["memory", MLP, "--diff", GROWING]) == 0
    said = capsys.readouterr().out
    assert re.search(r"added +\+69\.94 MiB +\+5  infer_growing\.py:21 forward", said)
    assert re.search(r"removed +-32\.00 MiB +-1  train_mlp\.py:14 forward", said)


@pytest.mark.parametrize("also", [[], ["--diff", GROWING]])
def test_the_page_holds_everything_and_asks_no_network(tmp_path, capsys, also):
    page = tmp_path / "map.html"
    assert main(["memory", MLP, "--html", str(page), *also]) == 0
    text = page.read_text(encoding="utf-8")
    saved = json.loads(re.search(r'id="lk-widgets">(.*?)</script>', text)[1])
    (model,) = saved["models"].values()
    assert model["state"]["meta"]["whole"] == 740
    assert "held" not in model["state"]["meta"]
    assert len(model["state"]["what_if"]) == 5
    titles = [table["title"] for table in model["state"]["tables"]]
    assert ("In the other snapshot, by call site" in titles) == bool(also)
    assert not re.search(r'(src|href)="https?:', text)


def test_a_range_of_events(capsys):
    assert main(["memory", MLP, "--events", "100:400"]) == 0
    assert "device 0: 300 entries" in capsys.readouterr().out
    assert main(["memory", MLP, "--events=-40:"]) == 0
    assert "device 0: 40 entries" in capsys.readouterr().out
    widget = show.memory(MLP, events=(100, 400), what_if=())
    assert widget.meta["whole"] == 300
    for wrong in ("7", "a:b"):
        with pytest.raises(SystemExit):
            main(["memory", MLP, "--events", wrong])


def test_what_cannot_be_read_is_one_line(tmp_path, capsys):
    hostile = tmp_path / "hostile.pickle"
    hostile.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    missing = tmp_path / "no"
    for path, says in ((hostile, "os.system"), (tmp_path, "a folder"), (missing, "No such file")):
        assert main(["memory", str(path)]) == 2
        out, error = capsys.readouterr()
        assert out == "" and says in error and error.count("\n") == 1
    assert main(["memory", MLP, "--events", "5000:"]) == 2


def test_findings_are_told(tmp_path, capsys):
    snapshot = pickle.loads(gzip.decompress(Path(MLP).read_bytes()))
    snapshot["device_traces"][0].reverse()
    path = tmp_path / "reversed.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    assert main(["memory", str(path)]) == 0
    assert "not as PyTorch writes it: entry" in capsys.readouterr().out
