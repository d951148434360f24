"""The pages of `docs/reproduction`: the catalogue and the results on record, side by side."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hypersphere_papers.catalogue import KINDS, Catalogue, Entry
from hypersphere_papers.engine.item_details import markdown_table
from hypersphere_papers.engine.item_section import WORDS, findings_csv, item_section
from hypersphere_papers.engine.job import find_item
from hypersphere_papers.engine.multiplicity import by_chance
from hypersphere_papers.engine.outcome import NOT_MEASURED, PROXY_WORDS
from hypersphere_papers.engine.result_file import STATE_RULE, STATES, Result, file_name, read_results
from hypersphere_papers.engine.runner import missing
from hypersphere_papers.engine.verdict import FITTED, MARGIN, VERDICTS

_KIND_TEXT = {
    "theory": "computed here, exactly or to a stated tolerance",
    "illustration": "a schematic, redrawn",
    "real": "on faces, MNIST or CIFAR-10; runs when the data set is given with `--data`",
}

_RULE = (
    "Every number and sentence of an experiment on the paper's own data, or a public part of it, with a network that "
    "fits the question, has one of three verdicts, by one rule:",
    "",
    "- **held**: a number within its tolerance of the paper's; a sentence that is computed and true; a measured "
    "sentence where the whole 95 % interval, and every seed, are on the claimed side.",
    "- **contradicted**: the same on the other side.",
    "- **undecided**: everything else: the interval contains zero, seeds disagree, there is no interval (one run), a "
    f"run stopped, or a run did not fit (below {FITTED:g} % of its training images right, where that is recorded). "
    "Seeds that agree are not enough.",
    "",
    "Elsewhere something stands in for the paper's experiment: faces for pedestrians, halves of 500 people for IJB-C, "
    "networks for 16 x 16 pixels, another optimizer. Such an item is a **proxy**, says in its title what stands in for "
    "what, and its sentences **agree**, **disagree** or **cannot tell**, by the same rule: it is no verdict on the "
    "paper. Where learning rates or starts were not chosen by one standard (the same grid for all losses, on people in "
    "no test column, by seeds that are not judged), the first line of the item says so.",
    "",
    "Where intervals judge several sentences of an item, Holm's correction makes undecided what is not sure enough as "
    "one of so many; **alone** in the tables is what the interval alone would say.",
    "",
    f'"At least as good" means less than {MARGIN:g} points worse: it is held where the whole interval is above '
    f"-{MARGIN:g}.",
    "",
    "The column **± 95 %** is half the width of the 95 % interval that was judged, in the unit of its row: a smaller "
    "effect could not have been seen. **paper, its data** is what the paper prints for its own data set, beside ours "
    "of another: not to be compared digit by digit.",
    "",
    f"The one word that `hypersphere reproduce --list` has for an item: {STATE_RULE}. How much of a table was run is "
    "counted in the rows that the paper prints.",
    "",
    "- **Real faces** ([losses.md](../results/losses.md)): judged from runs on record, each sentence on LFW and on "
    "people held out, on whose pairs the learning rates were chosen. Each of these people counts alike, as one has "
    "39 % of the pairs of one person; what pairs alone would decide otherwise is undecided. IJB, MegaFace and BLUFR "
    "are not at hand: templates, distractors and trials of the same people take their place, and the page says so.",
    "- **MNIST and CIFAR-10** ([cifar.md](../results/cifar.md)): judged from runs on record, too, with nothing chosen "
    "on the test images.",
    "",
    "Of items that train, `fits` of the JSON has by setting the seeds, optimizer "
    "steps, train accuracy (per cent of the training images, or of 5,000 of them, right without augmentation; the mean "
    "and the lowest seed), the mean length ||x|| of their embeddings, and what stopped.",
    "",
    "Where one of several seeds stopped, the others are shown and the sentence stays undecided.",
    "",
)


def write_pages(folder: str | Path, catalogue: Catalogue) -> list[Path]:
    """`index.md`, a page per paper and a table per item, from the results in `folder`; equal files are left alone."""
    folder = Path(folder)
    results = read_results(folder)
    there = (
        folder / "results"
    ).resolve()  # in the repository a link, which the web pages of a repository do not follow
    texts = {folder / f"{name}.md": text for name, text in make_pages(catalogue, results, _link(there, folder)).items()}
    texts |= {there / f"{file_name(name)}.csv": findings_csv(result) for name, result in results.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return list(texts)


def _link(there: Path, folder: Path) -> str:
    return Path(os.path.relpath(there, folder.resolve())).as_posix()


def make_pages(catalogue: Catalogue, results: Mapping[str, Result], link: str) -> dict[str, str]:
    """The text of `index` and of the page of each paper.

    Args:
        catalogue: of all items.
        results: by id.
        link: to the folder of their files, from the pages.
    """
    pages = {"index": _index(catalogue, results)}
    return pages | {paper: _paper(catalogue, paper, results, link) for paper in catalogue.papers}


def state(entry: Entry, result: Result | None) -> str:
    """How far an item is, in a few words."""
    if result is not None:
        return f"{'not run: ' if result.extent == 'not run' else ''}{result.summary()}"
    if find_item(entry.id) is not None:
        return f"not run yet: needs {entry.needs}" if entry.kind == "real" else "not run yet"
    return f"not run: {missing(entry, None).split(';')[0]}" if entry.kind == "real" else "not run yet"


def _index(catalogue: Catalogue, results: Mapping[str, Result]) -> str:
    lines = [
        "# Every figure and table of the five papers",
        "",
        "Made by `hypersphere reproduce --pages --out docs/reproduction` from the catalogue and from the results "
        "that `hypersphere reproduce ID --out docs/reproduction` wrote. What was not run is said to be so. An item has "
        f"at most {WORDS} words on its page; where its table has not all rows, the contradicted ones come first, then "
        "those that held. All rows, with intervals, tolerances and notes, are a table beside it.",
        "",
        *(f"- **{kind}**: {_KIND_TEXT[kind]}." for kind in KINDS),
        "",
        *_RULE,
        _chance(results),
        "",
        "Items by their state, and the printed rows of tables that were run:",
        "",
        *markdown_table(["paper", *STATES, "rows run", "of"], _counts(catalogue, results)),
        "",
        "Sentences and numbers:",
        "",
        *markdown_table(["paper", *VERDICTS, *PROXY_WORDS.values(), NOT_MEASURED], _judged(catalogue, results)),
    ]
    for paper, about in catalogue.papers.items():
        rows = [
            [
                f"[{entry.number}]({paper}.md#{_anchor(entry)})",
                entry.data,
                entry.title,
                state(entry, results.get(entry.id)),
                f"{results[entry.id].rows_run(entry) if entry.id in results else 0} of {len(entry.rows)}"
                if entry.rows
                else "",
            ]
            for entry in catalogue.select(paper=paper)
        ]
        lines += ["", f"## {about.short}", "", *markdown_table(["", "data", "what it shows", "state", "rows"], rows)]
    return "\n".join(lines) + "\n"


def _chance(results: Mapping[str, Result]) -> str:
    """How many sentences chance would decide, and how many verdicts were withheld."""
    tested, alone, items = by_chance(result.findings for result in results.values())
    withheld = Counter(finding.alone for result in results.values() for finding in result.findings if finding.alone)
    numbers = ", ".join(f"{withheld[verdict]} {verdict}" for verdict in VERDICTS)
    return (
        f"{tested:,} sentences are judged by a 95 % interval: were none of them true or false, {alone:.0f} would be "
        f"decided wrongly by chance. After Holm's correction it is a sentence in at most {items:.1f} items. The "
        f"{withheld.total()} sentences that were withheld, by it or because runs are no test, would be by their "
        f"intervals alone: {numbers}."
    )


def _totalled(rows: list[list[str]]) -> list[list[str]]:
    total = [str(sum(int(row[place]) for row in rows)) for place in range(1, len(rows[0]))] if rows else []
    return [*rows, ["all", *total]]


def _counts(catalogue: Catalogue, results: Mapping[str, Result]) -> list[list[str]]:
    rows = []
    for paper, about in catalogue.papers.items():
        entries = catalogue.select(paper=paper)
        states = Counter(results[entry.id].state if entry.id in results else "not run" for entry in entries)
        run = sum(results[entry.id].rows_run(entry) for entry in entries if entry.id in results)
        numbers = [*(states[word] for word in STATES), run, sum(len(entry.rows) for entry in entries)]
        rows.append([f"[{about.short}]({paper}.md)", *map(str, numbers)])
    return _totalled(rows)


def _judged(catalogue: Catalogue, results: Mapping[str, Result]) -> list[list[str]]:
    rows = []
    for paper, about in catalogue.papers.items():
        counts = [results[entry.id].counts() for entry in catalogue.select(paper=paper) if entry.id in results]
        words = (*VERDICTS, *PROXY_WORDS.values(), NOT_MEASURED)
        rows.append([about.short, *(str(sum(found[word] for found in counts)) for word in words)])
    return _totalled(rows)


def _paper(catalogue: Catalogue, paper: str, results: Mapping[str, Result], link: str) -> str:
    about = catalogue.papers[paper]
    lines = [f"# {about.short}", "", f"{about.title}. [All papers](index.md).", ""]
    for entry in catalogue.select(paper=paper):
        lines += item_section(entry, results.get(entry.id), link)
    return "\n".join(lines).rstrip("\n") + "\n"


def _anchor(entry: Entry) -> str:
    return entry.number.lower().replace(".", "").replace(" ", "-")
