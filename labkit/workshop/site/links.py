"""Every link of a site leads to something in it or is plainly elsewhere; no page asks elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Links(HTMLParser):
    """The links of a page, the names they may lead to, and what the page loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names, loads and leads to."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.names.add(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def broken_links(site: Path) -> list[str]:
    """One line for each link into nothing, and for each thing a page would load from elsewhere."""
    pages = {path.resolve(): Links(path.read_text(encoding="utf-8")) for path in _pages(site)}
    found = []
    for path, page in pages.items():
        shown = path.relative_to(site.resolve())
        for address in page.loaded:
            if urlsplit(address).scheme not in ("", "data") or urlsplit(address).netloc:
                found.append(f"{shown} loads {address[:80]}")
            elif not address.startswith("data:") and not (path.parent / address).exists():
                found.append(f"{shown} loads {address[:80]}, which is not there")
        for address in page.links:
            if trouble := _trouble(path, address, pages):
                found.append(f"{shown} links to {address[:80]}, {trouble}")
    return sorted(set(found))


def _pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def _trouble(path: Path, address: str, pages: dict[Path, Links]) -> str:
    parts = urlsplit(address)
    if parts.scheme in ("http", "https", "mailto", "data"):
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target not in pages and not target.is_file():
        return "which is not there"
    names = pages[target].names if target in pages else set()
    # A browser looks for the name as it is written first, and decoded then.
    if parts.fragment and not {parts.fragment, unquote(parts.fragment)} & names:
        return "where nothing has that name"
    return ""
