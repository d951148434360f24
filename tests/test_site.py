"""The site: docstrings become Markdown, every page is in its contents, and it builds without a warning."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import Browser, find_browser
from tools import api_pages, build_site, exported_names, search_index


def example(first: int, *, second: str = "a", **rest: float) -> list[int]:
    """Return `<x>` of [a](b), 2 * 3.

    L = sum_j e^{x_j}
      = 1

    Args:
        first: one thing
            in two lines.
        second, rest: others, <b>.

    When to use:
        Never.

    Example:
        >>> example(1)
    """
    return [first]


def test_a_docstring_as_markdown() -> None:
    assert api_pages.markdown(example.__doc__ or "").split("\n\n") == [
        r"Return `<x>` of \[a\](b), 2 \* 3.",
        "```text\nL = sum_j e^{x_j}\n  = 1\n```",
        "**Args**",
        "- `first`: one thing in two lines.\n- `second`, `rest`: others, \\<b>.",
        "**When to use**",
        "Never.",
        "**Example**",
        "```python\n>>> example(1)\n```",
    ]


def test_a_signature() -> None:
    assert api_pages.signature(example) == "(first: int, *, second: str = 'a', **rest: float) -> list[int]"
    assert api_pages.constant(3) == "`3`"
    assert api_pages.constant(object()) == "A `object`."


@pytest.mark.parametrize("room", api_pages.rooms())
def test_every_public_name_is_in_the_reference(room: str) -> None:
    headings = re.findall(r"^## `(\w+)`$", api_pages.page(room), flags=re.MULTILINE)
    assert headings == exported_names.exported(exported_names.SOURCE / room / "__init__.py")


def test_every_page_is_in_the_contents(tmp_path: Path) -> None:
    build_site.copy_documents(tmp_path)
    build_site.add_contents(tmp_path / "docs")
    pages = {path.relative_to(tmp_path).with_suffix(""): path.read_text() for path in tmp_path.rglob("*.md")}
    entries = [entry for text in pages.values() for entry in re.findall(r"^.* <(/\S+)>$", text, flags=re.MULTILINE)]
    assert len(entries) == len(set(entries))
    assert {*entries} == {f"/{page}" for page in pages} - {"/docs/index"}


def test_the_index_of_the_search_has_every_section(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.html").write_text(
        "<nav><p>not this</p></nav><section id='one'><h1>One<a class='headerlink' href='#one'>¶</a></h1>"
        "<p>first &lt;b&gt;</p>"
        "<section id='two'><h2>Two <code>x</code></h2><p>second<img src='a.png'></p><script>no</script></section>"
        "<p>third</p></section>"
    )
    assert search_index.sections_of(tmp_path) == [
        ["docs/a.html#two", "One", "Two x", "second"],
        ["docs/a.html#one", "One", "One", "first <b> third"],
    ]


HITS = """[...document.querySelectorAll("ul.search li")].map(
    item => [item.querySelector("a").getAttribute("href"), item.querySelector("p").textContent])"""


@pytest.mark.skipif(find_browser() is None, reason="needs Chromium or Chrome")
def test_the_search_shows_written_pages_first_and_excerpts(tmp_path: Path) -> None:
    sections = [
        ["docs/api/a.html#x", "api", "threshold", "threshold threshold threshold"],
        ["docs/a.html#a", "A", "Thresholds", "before " * 60 + "the <b>threshold</b> of a rate" + " after" * 60],
        ["docs/a.html#b", "A", "Other", "a threshold"],
        ["docs/b.html#c", "B", "C", "nothing of it"],
    ]
    (tmp_path / "sections.js").write_text(f"const SECTIONS = {json.dumps(sections)};")
    script = (build_site.ROOT / "docs" / "site" / "search.js").as_uri()
    page = tmp_path / "search.html"
    page.write_text(
        f"<div id='search-results'></div><script src='sections.js'></script><script src='{script}'></script>"
    )
    browser = Browser(find_browser() or "", tmp_path / "profile")
    try:
        browser.open(page.as_uri() + "?q=thresholds")
        hits = browser.run(HITS)
        assert [address for address, _ in hits] == ["docs/a.html#a", "docs/api/a.html#x"]
        assert "before the <b>threshold</b> of a rate after" in hits[0][1]
        assert len(hits[0][1]) < 300
        assert browser.run("document.querySelector('mark').textContent") == "threshold"
        browser.open(page.as_uri() + "?q=zebra")
        assert "No page has" in browser.run("document.body.textContent")
        assert not browser.complaints
    finally:
        browser.close()


MORE_THAN_FIVE = """new Promise(done => {
    const look = () => document.querySelectorAll("%s").length > 5 ? done(true) : setTimeout(look, 100);
    setTimeout(() => done(false), 30000);
    look();
})"""


SEARCHES = {
    "threshold": {"docs/starter.html", "docs/photos.html", "docs/evaluation.html"},
    "own loss": {"docs/start/researcher.html", "examples/README.html"},
    "webcam": {"docs/service.html", "docs/troubleshooting.html"},
    "HEIC": {"docs/photos.html", "docs/data.html", "docs/troubleshooting.html"},
}
"""What people look for, and the pages that answer; one of them is among the first three hits."""


def look_at(html: Path, folder: Path) -> None:
    """Equations are rendered and searches find their page, all from the disk, where there is a browser to see it."""
    program = find_browser()
    if program is None:
        return
    browser = Browser(program, folder / "profile")
    try:
        browser.open((html / "docs" / "guide" / "margins.html").as_uri())
        assert browser.run(MORE_THAN_FIVE % "mjx-container svg")
        browser.screen(390, 800, mobile=True)
        for page in ("docs/guide/margins.html", "docs/index.html", "docs/losses.html", "README.html"):
            browser.open((html / page).as_uri())
            assert browser.run("document.documentElement.scrollWidth") <= 390, page
        for query, pages in SEARCHES.items():
            browser.open((html / "search.html").as_uri() + f"?q={quote(query)}")
            hits = browser.run(HITS)
            assert any(address.split("#")[0] in pages for address, _ in hits[:3]), (query, hits)
            assert all(any(word in excerpt.lower() for word in query.lower().split()) for _, excerpt in hits[:3])
        assert not browser.complaints
        assert all(address.startswith(("file:", "data:", "about:")) for address in browser.requests)
    finally:
        browser.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_site_is_built_and_a_warning_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="needs the extra hypersphere-learn[site]")
    monkeypatch.setattr(build_site, "OUT", tmp_path / "site")
    assert build_site.main() == 0
    html = tmp_path / "site" / "html"
    assert "create_head" in (html / "docs" / "api" / "heads.html").read_text()
    assert (html / "searchindex.js").is_file()
    look_at(html, tmp_path)
    small = tmp_path / "small" / "docs"
    small.mkdir(parents=True)
    (small / "index.md").write_text("# One\n\n[nowhere](gone.md)\n")
    assert not build_site.build_html(tmp_path / "small", tmp_path / "out")
