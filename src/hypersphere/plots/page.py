"""A report as one HTML file: everything inside, nothing fetched, no script; for a phone, a dark room and paper."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from hypersphere.core import whole_file
from hypersphere.data import Image, encode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = 32
"""A first column of names no longer than this stays in sight while a narrow screen scrolls the others."""
_LONG = 40
"""A cell is broken into lines from here on only."""
_CONTENTS = 3
"""So many headings get a list of contents."""
_DIGITS = 12
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class ImagePair:
    """Two images to show side by side, uint8 (H, W, 1 or 3), a line below them, and lines of small print."""

    left: Image
    right: Image
    text: str
    note: str = ""


class Page:
    """An HTML report, built from top to bottom. All text is plain text and escaped.

    Args:
        title: of the page.
        lead: in a sentence, what it is about.

    Example:
        >>> page = Page("Result", "1,000 pairs")
        >>> page.heading("Accuracy")
        >>> page.metrics({"accuracy": {"value": 0.931, "low": 0.92, "high": 0.94, "n": 1000}})
        >>> path = page.save("report.html")
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title = title
        self._headings: list[str] = []
        self._top = [f"<h1>{escape(title)}</h1>"]
        if lead:
            self._top.append(f'<p class="lead">{escape(lead)}</p>')
        self._blocks = self._top

    def heading(self, text: str) -> None:
        """Begin a section; the list of contents, below what comes before the first one, leads there."""
        if not self._headings:
            self._blocks = []
        self._headings.append(text)
        self._blocks.append(f'<h2 id="section-{len(self._headings)}">{escape(text)}</h2>')

    def text(self, *paragraphs: str) -> None:
        """Paragraphs."""
        self._blocks += [f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs]

    def code(self, text: str) -> None:
        """Commands or a file, as they are."""
        self._blocks.append(f"<pre>{escape(text)}</pre>")

    def origin(self, facts: Mapping[str, str]) -> None:
        """Whose report this is: model, data, command, date, version; those that are empty are left out."""
        rows = "".join(_option(name, _whole_words(value)) for name, value in facts.items() if value)
        self._figure(f'<table class="options origin">{rows}</table>', "")

    def options(self, options: Mapping[str, object]) -> None:
        """A table of names and values: settings, versions, the machine."""
        rows = "".join(_option(str(name), escape(str(value))) for name, value in options.items())
        self._figure(f'<table class="options">{rows}</table>', "")

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[object] | str],
        caption: str = "",
        *,
        best: int | None = None,
        text: bool = False,
    ) -> None:
        """A table; the first column is text, the others are numbers, to the right. A cell is kept in one line, unless
        it is long; what comes after a line break in it, such as an interval, is set below in small print.

        Args:
            header: names of the columns.
            rows: as many cells each; a text instead of cells goes over the whole width.
            caption: below it.
            best: the number of the row that is marked as the best.
            text: whether all columns are text, to the left.
        """
        for row in rows:
            if not isinstance(row, str) and len(row) != len(header):
                raise ValueError(f"row {list(row)!r} has {len(row)} cells; the header has {len(header)}")
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
        body = "".join(_row(row, len(header), place == best) for place, row in enumerate(rows))
        named = all(isinstance(row, str) or len(str(row[0])) <= _NAME for row in rows)
        kinds = " ".join(["named"] * named + ["text"] * text)
        kind = f' class="{kinds}"' if kinds else ""
        content = f"<table{kind}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"
        self._figure(f'<div class="wide" tabindex="0">{content}</div>', caption)

    def metrics(self, metrics: Mapping[str, Mapping[str, float | None]], caption: str = "") -> None:
        """A table of metrics with their intervals and counts.

        Args:
            metrics: by name `value`, `low`, `high` as fractions, and `n`; a value of None was not measurable.
            caption: below it.
        """
        rows = []
        for name, metric in metrics.items():
            value, low, high, count = (metric.get(key) for key in ("value", "low", "high", "n"))
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
        """A sheet of pairs of images, each with its lines."""
        items = "".join(
            f"<li><div>{_pixels(pair.left, '')}{_pixels(pair.right, '')}</div><b>{escape(pair.text)}</b>"
            f"{''.join(f'<small>{_breakable(line)}</small>' for line in pair.note.splitlines())}</li>\n"
            for pair in pairs
        )
        self._figure(f'<ul class="pairs">{items}</ul>' if pairs else "", caption)

    def sheet(
        self, images: Sequence[tuple[Image, str]], caption: str, *, quality: int | None = None, large: bool = False
    ) -> None:
        """A sheet of images, each with a line of small print.

        Args:
            images: uint8 (H, W, 1 or 3), and the line.
            caption: below them.
            quality: of JPEG, which takes a tenth of the bytes; PNG by default.
            large: in their own size, as far as the page has room; otherwise small.
        """
        items = "".join(
            f"<li>{_pixels(image, '', quality)}<small>{_breakable(text)}</small></li>\n" for image, text in images
        )
        kind = "sheet large" if large else "sheet"
        self._figure(f'<ul class="{kind}">{items}</ul>' if images else "", caption)

    def _figure(self, content: str, caption: str) -> None:
        below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        self._blocks.append(f"<figure>{content}{below}</figure>")

    def html(self) -> str:
        """The page."""
        style = files("hypersphere.plots").joinpath("page.css").read_text(encoding="utf-8")
        head = (
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>"
        )
        body = "\n".join([*self._top, self._contents(), *self._blocks] if self._headings else self._top)
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
            f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
        )

    def _contents(self) -> str:
        if len(self._headings) < _CONTENTS:
            return ""
        links = "".join(
            f'<a href="#section-{number}">{escape(text)}</a>\n' for number, text in enumerate(self._headings, start=1)
        )
        return f'<nav aria-label="Contents">\n{links}</nav>'

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all, making the folder if need be."""
        with whole_file(path) as partial:
            partial.write_text(self.html(), encoding="utf-8")
        return Path(path)


def percent(share: float | None, digits: int = 2) -> str:
    """A fraction as a percentage; a dash for None.

    A fraction that is neither 0 nor 1 gets as many digits more as keep it from reading as 0 or 100 %.
    """
    return "–" if share is None else f"{_hundredths(share, digits)} %"


def interval(low: float, high: float, digits: int = 2) -> str:
    """The ends of an interval of fractions, in percent, in brackets."""
    return f"[{_hundredths(low, digits)}, {_hundredths(high, digits)}]"


def _hundredths(share: float, digits: int) -> str:
    shown = f"{100 * share:.{digits}f}"
    while float(shown) in (0.0, 100.0) and share not in (0.0, 1.0) and digits < _DIGITS:
        digits += 1
        shown = f"{100 * share:.{digits}f}"
    return shown


def points(share: float, low: float, high: float, digits: int = 2) -> str:
    """A difference of fractions in percentage points, with its interval."""
    value, least, most = (f"{100 * number:+.{digits}f}" for number in (share, low, high))
    return f"{value} [{least}, {most}]"


def _option(name: str, value: str) -> str:
    return f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>\n'


def _whole_words(text: str) -> str:
    """Words that are broken only where one is longer than the line: an option keeps its dashes."""
    return " ".join(f"<span>{escape(word)}</span>" for word in text.split())


def _breakable(name: str) -> str:
    """A name that may be broken after an underscore."""
    return escape(name).replace("_", "_<wbr>")


def _row(cells: Sequence[object] | str, columns: int, best: bool) -> str:
    if isinstance(cells, str):
        return f'<tr><td class="whole" colspan="{columns}"><div>{escape(cells)}</div></td></tr>\n'
    first, *others = cells
    badge = '<span class="badge">best</span>' if best else ""
    filled = _cell(str(first), badge) + "".join(_cell(str(cell)) for cell in others)
    return f'<tr class="best">{filled}</tr>\n' if best else f"<tr>{filled}</tr>\n"


def _cell(text: str, badge: str = "") -> str:
    first, *below = text.split("\n")
    small = badge + "".join(f"<small>{escape(line)}</small>" for line in below)
    if len(first) > _LONG:
        return f'<td class="long">{_whole_words(first)}{small}</td>'
    return f"<td>{escape(first)}{small}</td>"


def _drawn(figure: Figure, vector: bool) -> str:
    stream = io.BytesIO()
    if vector:
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    else:
        figure.savefig(stream, format="png", transparent=True)
    return _data("image/svg+xml" if vector else "image/png", stream.getvalue())


def _pixels(image: Image, alt: str, quality: int | None = None) -> str:
    kind = "image/png" if quality is None else "image/jpeg"
    return f'<img class="pixels" alt="{escape(alt)}" src="{_data(kind, encode(image, quality))}">'


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
