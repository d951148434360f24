"""A report as one HTML file: everything inside, nothing fetched, no script; for a phone, a dark room and paper."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hypersphere.data.images import Image, encode
from hypersphere.plots.style import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = 32
"""A first column of names no longer than this is not broken into lines."""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_CSS = """
:root { color-scheme: light dark; --ink: #1c2127; --soft: #57606a; --paper: #fff; --line: #d5dae0; --shade: #f3f5f8 }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #dfe3e8; --soft: #9aa4af; --paper: #15181c; --line: #363c44; --shade: #1f242a }
  img.drawn { filter: invert(.91) hue-rotate(180deg) }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif }
main { max-width: 58rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1 { font-size: 1.8rem; line-height: 1.2; margin: .5rem 0 }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-top: .8rem; border-top: 1px solid var(--line) }
p { margin: .6rem 0; max-width: 44rem; overflow-wrap: break-word }
.lead, figcaption { color: var(--soft) }
.lead { font-size: 1.1rem }
figcaption { font-size: .9rem; line-height: 1.45; max-width: 44rem; margin-top: .5rem }
figure { margin: 1.2rem 0 }
.row { display: grid; gap: .6rem; align-items: end; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)) }
.row img { display: block; width: 100%; max-width: 34rem; height: auto; margin: 0 auto }
@media (max-width: 42rem) { .row { grid-template-columns: minmax(0, 1fr) }
  .row.many { grid-template-columns: repeat(2, minmax(0, 1fr)) } }
img.pixels { image-rendering: pixelated }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { text-align: right; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-weight: 600; vertical-align: bottom }
th:last-child, td:last-child { padding-right: 0 }
td { white-space: nowrap }
@media (min-width: 45rem) { td { white-space: normal } }
th:first-child, td:first-child { text-align: left }
table.named td:first-child { white-space: nowrap }
table.options th, table.options td { text-align: left; overflow-wrap: anywhere; white-space: normal }
table.options th { width: 9.5rem; font-weight: 400; color: var(--soft); vertical-align: top }
@media (min-width: 45rem) { table.options th { width: auto; overflow-wrap: break-word; padding-right: 1.5rem } }
ul.pairs { display: grid; grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); gap: .7rem;
  list-style: none; margin: 0 0 .6rem; padding: 0 }
ul.pairs li { background: var(--shade); border-radius: .4rem; padding: .4rem; font-size: .8rem; text-align: center;
  break-inside: avoid; overflow-wrap: anywhere }
ul.pairs div { display: flex; gap: .25rem; margin-bottom: .25rem }
ul.pairs img { flex: 1; min-width: 0; width: 100%; aspect-ratio: 1; object-fit: contain }
pre { background: var(--shade); border-radius: .4rem; padding: .8rem; overflow-x: auto;
  font-size: .85rem; line-height: 1.4 }
@media print { html { font-size: 65% } main { max-width: none; padding: 0 } figure, tr { break-inside: avoid }
  h2 { break-after: avoid } pre { white-space: pre-wrap } }
"""


@dataclass(frozen=True)
class ImagePair:
    """Two images to show side by side, uint8 (H, W, 1 or 3), and a line below them."""

    left: Image
    right: Image
    text: str


class Page:
    """An HTML report, built from top to bottom. All text is plain text and escaped.

    Args:
        title: of the page.
        lead: in a sentence, what it is about.

    Example:
        >>> page = Page("Result", "1,000 pairs")
        >>> page.heading("Accuracy")
        >>> page.metrics({"accuracy": {"value": 0.931, "low": 0.92, "high": 0.94, "n": 1000}})
        >>> page.save("report.html")
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title = title
        self._blocks = [f"<h1>{escape(title)}</h1>"]
        if lead:
            self._blocks.append(f'<p class="lead">{escape(lead)}</p>')

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._blocks.append(f"<h2>{escape(text)}</h2>")

    def text(self, *paragraphs: str) -> None:
        """Paragraphs."""
        self._blocks += [f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs]

    def code(self, text: str) -> None:
        """Commands or a file, as they are."""
        self._blocks.append(f"<pre>{escape(text)}</pre>")

    def options(self, options: Mapping[str, object]) -> None:
        """A table of names and values: settings, versions, the machine."""
        rows = "".join(
            f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(str(value))}</td></tr>\n'
            for name, value in options.items()
        )
        self._figure(f'<div class="wide"><table class="options">{rows}</table></div>', "")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> None:
        """A table; the first column is text, the others are numbers, to the right.

        Args:
            header: names of the columns.
            rows: as many cells each.
            caption: below it.
        """
        for row in rows:
            if len(row) != len(header):
                raise ValueError(f"row {list(row)!r} has {len(row)} cells; the header has {len(header)}")
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>\n" for row in rows)
        named = ' class="named"' if all(len(str(row[0])) <= _NAME for row in rows) else ""
        self._figure(
            f'<div class="wide"><table{named}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>',
            caption,
        )

    def metrics(self, metrics: Mapping[str, Mapping[str, float | None]], caption: str = "") -> None:
        """A table of figures with their intervals and counts.

        Args:
            metrics: by name `value`, `low`, `high` as fractions, and `n`; a value of None was not measurable.
            caption: below it.
        """
        rows = []
        for name, figure in metrics.items():
            value, low, high, count = figure.get("value"), figure.get("low"), figure.get("high"), figure.get("n")
            shown = percent(value) if value is not None else f"not measurable with n={count:,.0f}"
            between = f"{percent(low)} to {percent(high)}" if None not in (value, low, high) else ""
            rows.append([name, shown, between, f"{count:,.0f}" if count is not None else ""])
        self.table(["metric", "value", "95 % interval", "n"], rows, caption)

    def figure(self, figures: Mapping[str, Figure], caption: str, *, columns: int = 1, vector: bool = True) -> None:
        """One or more figures in rows.

        Args:
            figures: by a description of each, for those who cannot see it.
            caption: below them.
            columns: of a row; on a narrow screen 1, or 2 where these are 4 or more.
            vector: SVG; False for PNG, where a figure has thousands of shapes.
        """
        images = "".join(
            f'<img class="drawn" alt="{escape(alt)}" src="{_drawn(figure, vector)}">\n'
            for alt, figure in figures.items()
        )
        many = " many" if columns >= 4 else ""
        self._figure(f'<div class="row{many}" style="--columns: {columns}">\n{images}</div>', caption)

    def image(self, image: Image, alt: str, caption: str) -> None:
        """A picture, uint8 (H, W, 1 or 3), as it is."""
        self._figure(f'<div class="row" style="--columns: 1">{_pixels(image, alt)}</div>', caption)

    def pairs(self, pairs: Sequence[ImagePair], caption: str) -> None:
        """A sheet of pairs of images, each with its line."""
        items = "".join(
            f"<li><div>{_pixels(pair.left, '')}{_pixels(pair.right, '')}</div>{escape(pair.text)}</li>\n"
            for pair in pairs
        )
        self._figure(f'<ul class="pairs">{items}</ul>' if pairs else "", caption)

    def _figure(self, content: str, caption: str) -> None:
        below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        self._blocks.append(f"<figure>{content}{below}</figure>")

    def html(self) -> str:
        """The page."""
        head = (
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_CSS}</style>"
        )
        body = "\n".join(self._blocks)
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
            f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all, making the folder if need be."""
        with whole_file(path) as partial:
            partial.write_text(self.html(), encoding="utf-8")
        return Path(path)


def percent(share: float | None, digits: int = 2) -> str:
    """A fraction as a percentage; a dash for None."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def points(share: float, low: float, high: float, digits: int = 2) -> str:
    """A difference of fractions in percentage points, with its interval."""
    value, least, most = (f"{100 * figure:+.{digits}f}" for figure in (share, low, high))
    return f"{value} [{least}, {most}]"


def _drawn(figure: Figure, vector: bool) -> str:
    stream = io.BytesIO()
    if vector:
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    else:
        figure.savefig(stream, format="png", transparent=True)
    return _data("image/svg+xml" if vector else "image/png", stream.getvalue())


def _pixels(image: Image, alt: str) -> str:
    return f'<img class="pixels" alt="{escape(alt)}" src="{_data("image/png", encode(image))}">'


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
