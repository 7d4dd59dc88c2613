"""A page on which a visitor opens a memory snapshot of their own: read there, sent nowhere."""

from pathlib import Path

from labkit.course.notebook_form import ROOT
from labkit.memory.history import ACTIONS
from labkit.memory.sizes import TRACE_SIZES
from labkit.memory.snapshots.columns import STATES
from labkit.show.memory import memory
from labkit.widgets.static_page import script_json, widget_page

PAGE = "your_snapshot.html"
EXAMPLE = ROOT / "tests/memory/fixtures/snapshots/train_mlp.pickle.gz"
SCRIPTS = ("snapshot_pickle.js", "snapshot_columns.js", "snapshot_drop.js")
CLOSED = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:"
)
"""What the page may load, which is nothing: so nothing can leave it either."""
ABOVE = """<nav><a href="index.html" target="_top">All chapters</a></nav>
<style>.drop { max-width: 900px; margin: 12px auto 0; padding: 12px 20px;
  border: 2px dashed var(--line); border-radius: 8px; }
.lk-over .drop { border-color: var(--link); }
.drop p { margin: 0 0 8px; } .drop input { font: inherit; max-width: 100%; }</style>
<section class="drop"><p><label for="snapshot-file">A memory snapshot of yours, dropped on this page
or chosen here, takes the place of the example</label>: the file that
<code>torch.cuda.memory._dump_snapshot</code> writes, gzipped or not. It is read in this page and
sent nowhere.</p>
<input type="file" id="snapshot-file"> <span id="snapshot-said" role="status"></span></section>"""


def snapshot_page() -> str:
    """The page, with a recorded training run on it until there is something better."""
    title = "An example: a small network is trained"
    view = memory(EXAMPLE, title=title, what_if=(), whole=True)
    page = widget_page(view, "Your memory snapshot", ABOVE)
    words = script_json({"actions": ACTIONS, "states": STATES, "sizes": TRACE_SIZES})
    here = Path(__file__).parent
    scripts = "\n".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    head = f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
    tail = (
        f'<script type="application/json" id="snapshot-words">{words}</script>'
        f"<script>{scripts}</script>"
    )
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">{head}', 1)
    return page.replace("</body></html>", f"{tail}</body></html>")
