"""Build the site from the documents, the examples and the docstrings: `make site`. Any warning is an error."""

import re
import shutil
import sys
from pathlib import Path

from tools import api_pages, notebooks, search_index

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "site"
DOORS = ("start", "guides", "reference", "results")
"""Every page belongs to one of these, which lists it."""
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
START = '<!doctype html>\n<meta http-equiv="refresh" content="0; url=docs/index.html">\n'


def copy_documents(source: Path) -> None:
    """Copy the documents and notebooks as pages, each at its own path, and the files that they link to."""
    shutil.copytree(ROOT / "docs", source / "docs")
    for name in PAGES:
        _copy(name, source)
    for path in notebooks.notebooks():
        folder = source / path.parent.relative_to(ROOT)
        folder.mkdir(exist_ok=True)
        (folder / f"{path.stem}.md").write_text(notebooks.page(path, folder / "images"))
    for path in [*source.rglob("*.md")]:
        path.write_text(re.sub(r"(\]\([^()\s]*notebooks/[\w-]+)\.ipynb\)", r"\1.md)", path.read_text()))
        here = ROOT / path.relative_to(source).parent
        for link in LINK.findall(path.read_text()):
            target = (here / link).resolve()
            if target.is_file() and target.is_relative_to(ROOT):
                _copy(target.relative_to(ROOT).as_posix(), source)


def _copy(name: str, source: Path) -> None:
    target = source / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def write_reference(source: Path) -> list[str]:
    """Write a page for each room and return their names."""
    folder = source / "docs" / "api"
    folder.mkdir()
    names = api_pages.rooms()
    for room in names:
        (folder / f"{room}.md").write_text(api_pages.page(room))
    return names


def add_contents(docs: Path, rooms: list[str]) -> None:
    """Append the site's navigation: the home page leads to the doors, each door to the pages that it lists.

    Args:
        docs: the folder of the copied documents.
        rooms: the pages of the API reference, which the door to the reference gets.
    """
    _append(docs / "index.md", "", [f"/docs/{door}" for door in DOORS])
    for door in DOORS:
        page = docs / f"{door}.md"
        _append(page, "", [f"/{(docs / link).resolve().relative_to(docs.parent.resolve())}" for link in listed(page)])
    _append(docs / "reference.md", "API", [f"/docs/api/{room}" for room in rooms])


def listed(door: Path) -> list[str]:
    """Return the pages that a door lists, in its order, without their endings."""
    return re.findall(r"^- \[.*?\]\(([^)]*)\.(?:md|ipynb)\)", door.read_text(), flags=re.MULTILINE)


def _append(page: Path, caption: str, entries: list[str]) -> None:
    heading = f"\n## {caption}\n" if caption else ""
    options = [":maxdepth: 1"] if caption else [":hidden:"]
    page.write_text(page.read_text() + "\n".join([heading, "```{toctree}", *options, *entries, "```", ""]))


def build_html(source: Path, html: Path) -> bool:
    """Make pages of a folder of documents and say whether that went without a warning."""
    from sphinx.cmd.build import main as sphinx

    settings = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(ROOT / "docs")]
    return not sphinx([*settings, str(source), str(html)])


def main() -> int:
    """Build the site; return 1 if there was a warning."""
    shutil.rmtree(OUT, ignore_errors=True)
    source, html = OUT / "source", OUT / "html"
    source.mkdir(parents=True)
    copy_documents(source)
    add_contents(source / "docs", write_reference(source))
    if not build_html(source, html):
        return 1
    search_index.write_index(html)
    (html / "index.html").write_text(START)
    print(html / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
