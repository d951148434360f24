"""The index of the site's search: every section of every page, read from the HTML that Sphinx made."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
SKIPPED = {"script", "style", "nav"}


class Sections(HTMLParser):
    """Collect the sections of a page: anchor, heading and the text up to the next heading.

    Args:
        html: of the page.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[tuple[str, str, str]] = []
        self._open: list[tuple[str, list[str], list[str]]] = []
        self._in_heading = False
        self._skipped = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a section or a heading; leave out scripts and the marks that link to headings."""
        attributes = dict(attrs)
        if self._skipped or tag in SKIPPED or attributes.get("class") == "headerlink":
            self._skipped += tag not in ("img", "br", "hr", "input", "link", "meta")
        elif tag == "section":
            self._open.append((attributes.get("id") or "", [], []))
        elif tag in HEADINGS:
            self._in_heading = True
        elif self._open and tag in ("p", "li", "td", "th", "pre", "dt", "dd", "br"):
            self._open[-1][2].append(" ")

    def handle_endtag(self, tag: str) -> None:
        """Close what a tag has opened."""
        if self._skipped:
            self._skipped -= 1
        elif tag == "section":
            anchor, heading, text = self._open.pop()
            self.sections.append((anchor, "".join(heading), "".join(text)))
        elif tag in HEADINGS:
            self._in_heading = False

    def handle_data(self, data: str) -> None:
        """Add text to the heading or to the body of the innermost section."""
        if self._open and not self._skipped:
            _, heading, text = self._open[-1]
            (heading if self._in_heading else text).append(data)


def sections_of(html: Path) -> list[list[str]]:
    """Return address, title of the page, heading and text of every section of a built site."""
    found = []
    for page in sorted(html.rglob("*.html")):
        address = page.relative_to(html).as_posix()
        sections = Sections(page.read_text(encoding="utf-8")).sections
        title = " ".join(sections[-1][1].split()) if sections else ""  # the outermost section closes last
        for anchor, heading, text in sections:
            found.append([f"{address}#{anchor}", title, " ".join(heading.split()), " ".join(text.split())])
    return found


def write_index(html: Path) -> None:
    """Write the index as a script, which a page may load from a disk where it may not read other pages."""
    text = json.dumps(sections_of(html), ensure_ascii=False, separators=(",", ":"))
    (html / "_static" / "sections.js").write_text(f"const SECTIONS = {text};\n", encoding="utf-8")
