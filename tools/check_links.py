"""Find links of documents that lead nowhere: files that do not exist, headings that a page does not have."""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", _text(page), flags=re.MULTILINE):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def broken_links(page: Path) -> list[str]:
    """Return what is wrong with the links of a page to files and headings, a line each; pages of the web are not asked.

    Args:
        page: a Markdown file.
    """
    wrong = []
    for link in re.findall(r"\]\(([^()\s]+)[^()]*\)", re.sub(r"`[^`\n]*`", "", _text(page))):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists():
            wrong.append(f"{page.name}: {link}: no such file")
        elif target.is_dir():
            wrong.append(f"{page.name}: {link}: a folder, which the site cannot show")
        elif anchor and anchor not in anchors(target.resolve()):
            wrong.append(f"{page.name}: {link}: no such heading")
    return wrong


def _text(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Return the documents of the repository."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("papers/*.md"), *(ROOT / "docs").rglob("*.md")])


def main() -> int:
    """Print every broken link; return 1 if there is one."""
    wrong = [line for page in pages() for line in broken_links(page)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
