"""The site: docstrings become Markdown, every page is in its contents, and it builds without a warning."""

import re
from pathlib import Path

import pytest

from tests.browser import Browser, find_browser
from tools import api_pages, build_site, exported_names


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
    index = tmp_path / "docs" / "index.md"
    build_site.add_contents(index, ["heads"])
    listed = re.findall(r"^(/\S+)$", index.read_text(), flags=re.MULTILINE)
    there = {f"/{path.relative_to(tmp_path).with_suffix('')}" for path in tmp_path.rglob("*.md")} - {"/docs/index"}
    assert len(listed) == len(set(listed))
    assert {*listed} == there | {"/docs/api/heads"}


MORE_THAN_FIVE = """new Promise(done => {
    const look = () => document.querySelectorAll("%s").length > 5 ? done(true) : setTimeout(look, 100);
    setTimeout(() => done(false), 30000);
    look();
})"""


def look_at(html: Path, folder: Path) -> None:
    """Equations are rendered and a search finds something, all from the disk; where there is a browser to see it."""
    program = find_browser()
    if program is None:
        return
    browser = Browser(program, folder / "profile")
    try:
        browser.open((html / "docs" / "guide" / "margins.html").as_uri())
        assert browser.run(MORE_THAN_FIVE % "mjx-container svg")
        browser.screen(390, 800, mobile=True)
        assert browser.run("document.documentElement.scrollWidth") <= 390
        browser.open((html / "search.html").as_uri() + "?q=arcface")
        assert browser.run(MORE_THAN_FIVE % "ul.search li")
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
