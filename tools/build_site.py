"""Build the site from the documents, the examples and the docstrings: `make site`. Any warning is an error."""

import re
import shutil
import sys
from pathlib import Path

from hypersphere_papers.laboratory import item_details, load_catalogue, shipped_results
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
    unfold_items(source / "docs" / "reproduction")
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


def unfold_items(folder: Path) -> None:
    """Add to every item of the papers all its sentences, numbers and runs, folded: its page has few words of them."""
    catalogue, results = load_catalogue(), shipped_results()
    for paper in catalogue.papers:
        page = folder / f"{paper}.md"
        sections = re.split(r"(?=^## )", page.read_text(), flags=re.MULTILINE)
        for place, entry in enumerate(catalogue.select(paper=paper), start=1):
            if entry.id in results:
                lines = item_details(entry, results[entry.id])
                title = "All sentences, numbers and runs"
                sections[place] += "\n".join(
                    ["", f"<details><summary>{title}</summary>", "", *lines, "</details>", "", ""]
                )
        page.write_text("".join(sections))


def write_reference(docs: Path) -> None:
    """Write a page of the API for each room, one that lists them, and add that to the door to the reference."""
    folder = docs / "api"
    folder.mkdir()
    rooms = api_pages.rooms()
    for room in rooms:
        (folder / f"{room}.md").write_text(api_pages.page(room))
    names = "\n".join(f"- [hypersphere.{room}]({room}.md)" for room in rooms)
    tree = "\n".join(["```{toctree}", ":hidden:", *rooms, "```"])
    (folder / "index.md").write_text(
        f"# API\n\nEvery public name with its docstring, room by room.\n\n{names}\n\n{tree}\n"
    )
    door = docs / "reference.md"
    door.write_text(door.read_text() + "\n- [API](api/index.md): every public name with its docstring.\n")


def add_contents(docs: Path) -> None:
    """Append the site's navigation: the home page leads to the doors, each door to the pages that it lists.

    Args:
        docs: the folder of the copied documents.
    """
    source = docs.resolve().parent
    _append(docs / "index.md", [f"{door.title()} </docs/{door}>" for door in DOORS])
    for door in DOORS:
        page = docs / f"{door}.md"
        pages = [(title, (docs / link).resolve().relative_to(source)) for title, link in listed(page)]
        _append(page, [f"{title} </{path}>" for title, path in pages])


def listed(door: Path) -> list[tuple[str, str]]:
    """Return title and path, without its ending, of the pages that a door lists, in its order."""
    return re.findall(r"^- \[(.*?)\]\(([^)]*)\.(?:md|ipynb)\)", door.read_text(), flags=re.MULTILINE)


def _append(page: Path, entries: list[str]) -> None:
    page.write_text(page.read_text() + "\n".join(["", "```{toctree}", ":hidden:", *entries, "```", ""]))


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
    write_reference(source / "docs")
    add_contents(source / "docs")
    if not build_html(source, html):
        return 1
    search_index.write_index(html)
    (html / "index.html").write_text(START)
    print(html / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
