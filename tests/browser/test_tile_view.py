"""Tiles in JupyterLab: step through indices, read cells by keyboard, move the threshold."""

CELLS = [
    """import numpy as np, torch
from labkit.show.tiles import tiles
from labkit.widgets.cuda.tile_view import TileView
t = torch.arange(24).reshape(4, 6)
w = tiles(t, {"1:3, ::2": (slice(1, 3), slice(None, None, 2)), "[3, 0], :": ([3, 0], slice(None)),
              "t > 15": t > 15}, title="what an index picks")
w""",
    """values = np.sin(np.arange(1600) / 90).reshape(40, 40)
h = TileView([{"name": "error", "values": values, "heat": True, "unit": "V"}],
             [{"text": "", "boxes": {"error": [(5, 5, 20, 30, "region")]}}], title="a heat map")
h""",
    """TileView([{"name": "y", "values": np.full((1, 2), ""), "status": [["right", "wrong"]]}])""",
]


def test_tile_view(lab):
    lab.open(CELLS)
    tiles, heat, covered = lab.widget(0), lab.widget(1), lab.widget(2)
    lab.wait_drawn(tiles)
    tiles.locator("canvas").first.focus()
    lab.press("ArrowDown", "ArrowDown", "ArrowRight")
    lab.wait_until("w.cell", [0, 1, 1])
    tiles.get_by_text("source[1, 1] = 7").wait_for()
    tiles.locator("input[type=range]").focus()
    lab.press("ArrowRight")
    lab.wait_until("w.frame", 1)
    lab.screenshot("tile_view", of=tiles)
    heat.locator("input[type=range]").focus()
    lab.press("End")
    lab.wait_until("h.threshold > 0.99", True)
    lab.execute("h.threshold = 0.2")
    heat.get_by_text("0.2", exact=True).wait_for()
    lab.screenshot("tile_view_heat", of=heat)
    covered.get_by_text("✗ wrong").wait_for()
    assert covered.get_by_text("2x twice").count() == 0  # the key names what is in the picture
