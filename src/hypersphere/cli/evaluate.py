"""`hypersphere evaluate`: measure embeddings by a protocol, and compare two results."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence

from hypersphere.cli.embedding import check_given, finish, make_embeddings, save_embeddings
from hypersphere.cli.output import Results
from hypersphere.core import Progress
from hypersphere.data import NamedImages
from hypersphere.evaluation.metrics.similarity import Comparison
from hypersphere.evaluation.protocols import PairList, evaluate_pairs, read_pairs
from hypersphere.evaluation.results.compare_results import (
    compare_results,
    difference_cells,
    only_in_one,
    read_result,
    shown_rows,
    unmeasured,
    write_comparison,
)
from hypersphere.evaluation.results.metric_tables import estimate_cells, not_measurable


def evaluate_pair_lists(options: argparse.Namespace) -> Results:
    """Run the pairs protocol and write its folder."""
    how = Comparison(
        similarity=options.similarity, normalize=not options.no_normalize, center=options.center, pca=options.pca
    )
    check_given(options)
    if options.data is not None:
        _find_data(options)
    if not options.pairs:
        raise ValueError("give --pairs LIST, or --data PATH")
    lists = [read_pairs(path) for path in options.pairs]
    sources = _sources(options, lists)
    for pairs, source in zip(lists, sources, strict=True):
        if source is not None and not options.allow_missing:
            pairs.check_images(source.missing, source.files)
    made = make_embeddings(options, lists, sources)
    with Progress("measuring", "sets") as progress:
        result = evaluate_pairs(
            list(zip(lists, made, strict=True)),
            how,
            allow_missing=options.allow_missing,
            fars=options.far,
            progress=progress,
        )
    titles = [pairs.title for pairs in lists]
    if options.save_embeddings:
        save_embeddings(made, titles, options.out)
    return finish(result, options, dict(zip(titles, sources, strict=True)), ", ".join(titles))


def compare(options: argparse.Namespace) -> Results:
    """Print two results side by side."""
    first, second = (read_result(path) for path in options.results)
    with Progress("comparing", "metrics") as progress:
        rows = compare_results(first, second, progress=progress)
    shown = shown_rows(rows)
    width = max((len(row.name) + 2 for row in shown), default=2)
    tests: dict[str, list[str]] = {}
    print(f"{'':<{width}}{'A':<10}{'B':<10}{'B - A, points':<25}p")
    for row in shown:
        one, two = (estimate_cells(estimate)[0] for estimate in (row.first, row.second))
        difference, p, test = difference_cells(row)
        tests.setdefault(test if p else f"no test ({test})", []).append(row.name)
        print(f"{row.name:<{width}}{one:<10}{two:<10}{difference:<25}{p}".rstrip())
    for test, names in tests.items():
        print(textwrap.fill(f"{test}: {', '.join(names)}", 79, subsequent_indent="  "))
    for sentence in (not_measurable(unmeasured(rows)), *only_in_one(first, second)):
        if sentence:
            print(textwrap.fill(sentence, 79))
    page = None
    if options.out is not None:
        page = write_comparison(rows, first, second, options.out, command=options.command)
        print(page)
    return Results({"results": options.results, "metrics": rows, "page": page})


def _find_data(options: argparse.Namespace) -> None:
    """Fill --pairs and --images from --data."""
    if options.pairs or options.images:
        raise ValueError("--data stands for both --pairs and --images; leave these out")
    if options.data.suffix == ".bin":
        options.pairs = [options.data]
        return
    lists = sorted(options.data.glob("*pairs*.txt")) if options.data.is_dir() else []
    lists = [path for path in lists if path.name == "pairs.txt"] or lists
    if len(lists) != 1:
        found = ", ".join(path.name for path in lists) or "none"
        raise ValueError(
            f"--data {options.data}: expected a folder with one list *pairs*.txt (found {found}), or a .bin"
        )
    options.pairs = lists
    if options.embeddings:
        return
    names = read_pairs(lists[0]).names
    places = [path for path in sorted(options.data.iterdir()) if path.is_dir() or path.suffix == ".tar"]
    if (options.data / names[0]).is_file():
        places = [options.data]
    missing = {path: len(NamedImages(path, names).missing) for path in places}
    some = [path for path, count in missing.items() if count < len(names)]
    whole = [path for path in some if not missing[path]] or some
    if len(whole) != 1:
        found = ", ".join(path.name for path in whole) or "none"
        raise ValueError(
            f"--data {options.data}: expected one folder or tar in it with the images of {lists[0].name} "
            f"(found {found}); give --pairs and --images"
        )
    options.images = whole


def _sources(options: argparse.Namespace, lists: Sequence[PairList]) -> list[NamedImages | None]:
    """The images of each list: a pack's own, or those of --images in order."""
    given = list(options.images or [])
    others = [path for path in options.pairs if path.suffix != ".bin"]
    if len(given) == 1:
        given *= len(others)
    if given and len(given) != len(others):
        raise ValueError(f"--images: {len(given)} for {len(others)} lists; give one for all, or one for each in order")
    if options.model and not given and others:
        raise ValueError("--model needs --images: where the images of the list are")
    places = iter(given)
    sources: list[NamedImages | None] = []
    for path, pairs in zip(options.pairs, lists, strict=True):
        where = path if path.suffix == ".bin" else next(places, None)
        sources.append(None if where is None else NamedImages(where, pairs.names))
    return sources
