"""A snapshot in words and tables: what a terminal prints, and a page shows below its map."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.memory.sizes import format_size
from labkit.memory.snapshots.call_sites import changes_by_site, growing_sites, live_by_site, regions
from labkit.memory.snapshots.columns import Columns
from labkit.memory.snapshots.findings import findings

MOST_ROWS = 15
MOST_REGIONS = 1000


@dataclass(frozen=True)
class Table:
    """Rows of texts under a heading; `missing` says what no rows mean."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    missing: str

    def as_dict(self) -> dict[str, Any]:
        """The table as plain data."""
        return {
            "title": self.title,
            "head": list(self.head),
            "rows": [list(row) for row in self.rows],
            "missing": self.missing,
        }


def tables(found: Columns, other: Columns | None = None) -> list[Table]:
    """By call site: what is live, what grows, what `other` holds otherwise; and the regions."""
    live = [(format_size(size), f"{count:,}", site)
            for site, (size, count) in live_by_site(found).items()]  # fmt: skip
    grows = [(*map(format_size, least), site) for site, least in growing_sites(found).items()]
    quarters = tuple(f"quarter {i + 1}" for i in range(4))
    named = [
        (f"{region.first:,} to {region.last:,}", "· " * region.depth + region.name)
        for region in regions(found)[:MOST_REGIONS]
    ]
    made = [
        Table("In use at the end, by call site", ("bytes", "blocks", "call site"), live, "nothing"),
        Table(
            "Grows across the trace: the least held in each quarter",
            (*quarters, "call site"),
            grows,
            "no call site holds more in every quarter than in the one before",
        ),
    ]
    if other is not None:
        changed = [
            (
                change.kind,
                _signed(change.bytes_after - change.bytes_before),
                f"{change.blocks_after - change.blocks_before:+,}",
                change.site,
            )
            for change in changes_by_site(found, other)
        ]
        head = ("", "bytes", "blocks", "call site")
        made.append(Table("In the other snapshot, by call site", head, changed, "the same"))
    if named:
        made.append(Table("Annotated regions", ("entries", "region"), named, ""))
    return made


def report(found: Columns, other: Columns | None = None) -> str:
    """The whole in lines of text."""
    return "\n".join([*_head(found), *(line for t in tables(found, other) for line in _lines(t))])


def _head(found: Columns) -> Iterator[str]:
    blocks, segments = found.blocks, found.segments
    allocated = int(blocks["size"][blocks["state"] == 1].sum())
    pending = int(blocks["size"][blocks["state"] == 2].sum())
    yield (
        f"device {found.device}: {len(found):,} entries, {len(segments['size']):,} segments, "
        f"{len(blocks['size']):,} blocks"
    )
    yield (
        f"  reserved {format_size(int(segments['size'].sum()))}, "
        f"allocated {format_size(allocated)}, active {format_size(allocated + pending)}"
    )
    if found.settings.get("PYTORCH_CUDA_ALLOC_CONF"):
        yield f"  settings {shown(found.settings['PYTORCH_CUDA_ALLOC_CONF'])}"
    for finding in findings(found):
        yield f"  not as PyTorch writes it: {finding}"


def _lines(table: Table) -> Iterator[str]:
    yield ""
    yield table.title
    if not table.rows:
        yield f"  {table.missing}"
        return
    rows: Sequence[tuple[str, ...]] = [table.head, *table.rows[:MOST_ROWS]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head) - 1)]
    for row in rows:
        cells = [text.rjust(width) for text, width in zip(row, widths, strict=False)]
        yield f"  {'  '.join(cells)}  {shown(row[-1])}".rstrip()
    if len(table.rows) > MOST_ROWS:
        yield f"  and {len(table.rows) - MOST_ROWS:,} more"


def shown(text: Any) -> str:
    """The text without what would steer a terminal."""
    return "".join(c if c.isprintable() else "�" for c in str(text))[:200]


def _signed(size: int) -> str:
    return ("+" if size >= 0 else "-") + format_size(abs(size))
