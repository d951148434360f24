"""What the documents say is true: links lead somewhere, defaults are the code's."""

import dataclasses
import inspect
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import hypersphere as hs
from hypersphere import geometry
from hypersphere.losses import OBJECTIVES
from hypersphere.models import PRESETS
from tools import build_site, check_links, first_picture, guide_pictures, notebooks, recipe_keys

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NOT_COUNTED = (
    "docs/recipe-keys.md",  # made from the dataclasses of recipes
    "docs/robustness.md",  # its table is written by tests.fuzz
    "docs/reliability.md",  # a table of tests, whose names a test keeps
    "docs/reproduction/*.md",  # made from the results on record
    "docs/results/*.md",  # tables of the runs on record
    "docs/photos.md",
    "docs/galleries.md",
)
"""Pages that may have more than 1,500 words."""
EVALUATION = (ROOT / "docs" / "evaluation.md").read_text()


def test_the_presets_of_contracts_are_listed_as_they_are() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| (\d+)x(\d+) (RGB|BGR) \| (.*) \|$", EVALUATION, flags=re.MULTILINE)
    assert [name for name, *_ in listed] == list(PRESETS)
    for name, height, width, colour, values in listed:
        preset = PRESETS[name]
        assert (preset.input_size, preset.colour) == ((int(height), int(width)), colour.lower()), name
        scaled = "0 to 255" if preset.std == (1.0,) else f"(x - {preset.mean[0]:g}) / {preset.std[0]:g}"
        assert values.startswith(scaled), name
        if preset.flip != "none":
            assert values.endswith(f"`--flip {preset.flip}`"), name


def test_links_lead_somewhere(tmp_path: Path) -> None:
    assert [line for page in check_links.pages() for line in check_links.broken_links(page)] == []
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# Two words\n## `a_b`: c\n## Two words\n")
    page.write_text(
        "[a](other.md#two-words) [b](other.md#a_b-c) ![c](other.md#two-words-1) [d](https://x.y) `[e](f)`\n"
    )
    assert check_links.broken_links(page) == []
    page.write_text("# One\n[a](other.md#two-words-2) [b](gone.md) [c](#one) [d](#two) [](.)\n```\n[e](gone.md)\n```\n")
    assert check_links.broken_links(page) == [
        "page.md: other.md#two-words-2: no such heading",
        "page.md: gone.md: no such file",
        "page.md: #two: no such heading",
        "page.md: .: a folder, which the site cannot show",
    ]


def test_files_that_documents_name_are_there() -> None:
    for page in check_links.pages():
        if page.name == "CHANGELOG.md":  # it may tell of files that were
            continue
        for name in re.findall(r"`([a-z_]+/[\w./-]+\.(?:py|toml|md|css|js))`", page.read_text()):
            folders = (
                ROOT,
                ROOT / "src" / "hypersphere",
                ROOT / "papers" / "src" / "hypersphere_papers",
                ROOT / "docs",
                ROOT / "tests",
            )
            assert any((folder / name).exists() for folder in folders), f"{page.name}: {name}"


def sections_of_losses() -> dict[str, str]:
    page = (ROOT / "docs" / "losses.md").read_text()
    return dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^#|\Z)", page, flags=re.MULTILINE | re.DOTALL))


def test_every_loss_has_its_section() -> None:
    assert set(sections_of_losses()) == set(hs.list_heads())


@pytest.mark.parametrize("name", hs.list_heads())
def test_the_defaults_of_losses_are_the_codes(name: str) -> None:
    section = re.fullmatch(
        r"\n\$\$(?P<equation>.+)\$\$\n\n(?P<use>.+)\. (No options|Defaults: (?P<defaults>.+?))\. (?P<paper>.+)\.\n+",
        sections_of_losses()[name],
    )
    assert section, f"{name} is not an equation, a use, defaults and a paper"
    parameters = inspect.signature(OBJECTIVES[name]).parameters.values()
    expected = {}
    for parameter in parameters:
        if parameter.name in ("dim", "num_classes"):
            continue
        value = parameter.default
        if parameter.name == "anneal":
            value = "released"
        expected[parameter.name] = "required" if parameter.name == "class_counts" else value
    written = dict(re.findall(r"`(\w+)=([^`]*)`", section["defaults"] or ""))
    assert set(written) == set(expected)
    for key, value in expected.items():
        shown = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
        assert written[key].strip('"') == shown, key


def test_every_loss_is_in_the_guide_with_an_equation_and_a_picture() -> None:
    pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "guide").glob("*.md")}
    made = {name: set(re.findall(r'create_(?:head|loss)\("(\w+)"|add=\{"(\w+)"', text)) for name, text in pages.items()}
    assert {part for found in made.values() for pair in found for part in pair if part} == set(hs.list_heads())
    for name, text in pages.items():
        assert re.search(r"\$\$.+?\$\$|\$[^$]*\\(?:d?frac|max)[^$]*\$", text), f"{name} has no equation"
        assert "](../images/" in text, f"{name} has no picture"
        assert "\n## When to use\n" in text, name


@pytest.mark.parametrize("name", sorted(guide_pictures.PICTURES))
def test_a_picture_of_the_guide_is_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guide_pictures, "STEPS", 2)
    monkeypatch.setattr(guide_pictures, "tammes", geometry.uniform_sphere)
    assert guide_pictures.PICTURES[name]().get_axes()
    assert (ROOT / "docs" / "images" / f"{name}.png").is_file()


def test_readmes_picture_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"STEPS": 2, "TRAINING_PHOTOS": 10, "NEW_PHOTOS": 5}.items():
        monkeypatch.setattr(first_picture, name, value)
    assert len(first_picture.draw_before_and_after().get_axes()) == 3


def test_installation_names_extras_that_there_are() -> None:
    """What pages tell to install works from a checkout: the package is in no index yet."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    written = [page.read_text() for page in check_links.pages() if page.name != "CHANGELOG.md"]
    written += ["".join(map(notebooks.source, notebooks.read(path)["cells"])) for path in notebooks.notebooks()]
    named = re.findall(r"pip install '([^']*)\[([^]]*)\]'", "".join(written))
    assert len(named) > 5
    assert {where for where, _ in named} == {".", "./hypersphere"}
    assert {extra for _, several in named for extra in several.split(",")} <= set(extras)


@pytest.mark.parametrize("name", hs.list_heads())
def test_every_docstring_of_a_loss_has_its_sections(name: str) -> None:
    text = inspect.getdoc(OBJECTIVES[name]) or ""
    sections = re.findall(r"^(When to use|What it equals|References|Example):$", text, flags=re.MULTILINE)
    assert sections == ["When to use", "What it equals", "References", "Example"]
    for other in re.findall(r"`([a-z0-9_]+)`", text.partition("What it equals:")[2].partition("References:")[0]):
        known = set(hs.list_heads()) | set(inspect.signature(OBJECTIVES[name]).parameters)
        assert other in known, f"{other} is neither a loss nor an option of {name}"


def test_the_table_of_recipe_keys_is_up_to_date() -> None:
    page = recipe_keys.page()
    assert recipe_keys.PAGE.read_text() == page, "run `python tools/recipe_keys.py`"
    assert "| `batch_size` | integer | `128` | images per optimizer step" in page


def test_a_key_without_a_sentence_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        """Some settings.

        Args:
            first, second: two of them,
                in two lines.
        """

        first: int = 1
        second: tuple[float, ...] = (0.5,)
        third: str | None = None

    assert recipe_keys.described(Settings) == dict.fromkeys(("first", "second"), "two of them, in two lines.")
    with pytest.raises(ValueError, match="Settings.third is not described"):
        list(recipe_keys.rows(Settings, ""))


def test_every_page_belongs_to_one_door() -> None:
    docs = ROOT / "docs"
    doors = [docs / f"{door}.md" for door in build_site.DOORS]
    named = [(docs / f"{link}.md").resolve() for door in doors for _, link in build_site.listed(door)]
    assert [path.name for path, times in Counter(named).items() if times > 1] == []
    assert {*docs.rglob("*.md")} - {docs / "index.md", *doors} <= {*named}
    home = (docs / "index.md").read_text()
    for door in build_site.DOORS:
        assert f"({door}.md)" in home
        assert f"(docs/{door}.md)" in README


def test_equations_are_shown_on_github() -> None:
    """It refuses this macro, and shows an error in the equation's place."""
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if "\\operatorname" in page.read_text()] == []


def test_no_page_written_by_hand_is_long() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if not any(page.match(name) for name in NOT_COUNTED)]
    words = {page.name: len(page.read_text().split()) for page in pages}
    assert {name: count for name, count in words.items() if count > 1500} == {}


def test_the_programs_of_pages_for_newcomers_import_what_they_use() -> None:
    """Other tests give blocks the package as `hs`; who types one as it is printed has not got it."""
    pages = [*(ROOT / "docs" / "start").glob("*.md"), ROOT / "docs" / "from-pytorch-metric-learning.md"]
    for page in pages:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for used, imported in (("hs.", "import hypersphere as hs"), ("math.", "import math")):
                if re.search(rf"(?<![\w.]){re.escape(used)}", block):
                    assert imported in block, f"{page.name}: {imported} is missing before\n{block}"


def test_every_erratum_is_listed_with_its_test() -> None:
    listed = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "errata.md").read_text())
    tests = "".join(path.read_text() for path in (ROOT / "papers" / "tests").glob("test_errata*.py"))
    written = re.findall(r"^def (test_\w+)\(", tests, flags=re.MULTILINE)
    assert sorted(listed) == sorted(written)
