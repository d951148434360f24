"""What the protocols of `hypersphere evaluate` share: where embeddings come from, and where results go."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from hypersphere.cli.models import open_models
from hypersphere.cli.output import Results
from hypersphere.core import Progress, choose_device, install_hint, is_installed
from hypersphere.core.files import Staged
from hypersphere.core.read_lines import check_names
from hypersphere.data import NamedImages, UnreadableImage
from hypersphere.data.file_access import is_image_name
from hypersphere.data.formats.tar import read_entries
from hypersphere.data.images import Image
from hypersphere.evaluation import (
    Embeddings,
    Result,
    concatenated,
    embed_images,
    load_embeddings,
    write_result,
)
from hypersphere.evaluation.embeddings import names_text, read_names
from hypersphere.evaluation.results.metric_tables import estimate_cells, not_measurable, without_complements
from hypersphere.evaluation.results.report import lost_counts, words, write_report
from hypersphere.evaluation.results.result import result_table


class Wanted(Protocol):
    """Images that belong together, such as those of a pair list."""

    @property
    def title(self) -> str:
        """What they are."""
        ...


@dataclass(frozen=True)
class Titled:
    """A title."""

    title: str


def gather(
    options: argparse.Namespace,
    names: Sequence[str],
    title: str,
    tag: str = "",
    *,
    where: Callable[[int], str] | None = None,
) -> tuple[Embeddings, NamedImages | None]:
    """The embeddings of a protocol's images, ready or made by a model; and the images, where they are given.

    Args:
        options: of `add_inputs`.
        names: of the images.
        title: of the protocol.
        tag: in the names of saved files, where a protocol has more than one set of images.
        where: the place of the k-th name in the protocol's files.
    """
    check_given(options)
    given = list(options.images or [])
    if len(given) > 1:
        raise ValueError(f"--images: {len(given)} given; this protocol takes one")
    if options.model and not given:
        raise ValueError("--model needs --images: where the images are")
    source = NamedImages(given[0], names) if given else None
    if source is not None and source.missing and options.model and not options.allow_missing:
        first = source.missing[0]
        place = source.path if where is None else where(list(names).index(first))
        raise ValueError(
            f"{place}: there is no {first!r} in {source.path}; {len(source.missing):,} of {len(names):,} images are "
            "missing; --allow-missing leaves them out and counts them"
        )
    made = make_embeddings(options, [Titled(title)], [source])[0]
    if len(made) > 1:
        raise ValueError(f"{len(made)} models, arrays or snapshots: this protocol merges them with --merge concat only")
    if options.save_embeddings:
        save_embeddings([made], [title], options.out, tag)
    return made[0], source


def image_names(options: argparse.Namespace) -> list[str]:
    """All images there are: the names of the list, or what lies in the folder or archive of --images."""
    if options.names:
        return list(read_names(options.names[0]))
    if not options.images:
        raise ValueError("give --embeddings and --names, or --model and --images")
    place: Path = options.images[0]
    archives = sorted(place.glob("*.tar")) if place.is_dir() else [place]
    if archives:
        names = [entry.name for archive in archives for entry in read_entries(archive)]
        around = {name.partition("/")[0] for name in names}
        return [name.partition("/")[2] for name in names] if len(around) == 1 and "/" in names[0] else names
    found = sorted(str(file.relative_to(place).as_posix()) for file in place.rglob("*") if is_image_name(file.name))
    check_names(found, str(place))
    return found


def finish(
    result: Result, options: argparse.Namespace, sources: Mapping[str, NamedImages | None], title: str
) -> Results:
    """Write result.json and report.html, and print the metrics.

    Args:
        result: of a protocol.
        options: `out`, the folder, and `command`, what was typed.
        sources: by title, the images of the worst pairs.
        title: of what was measured.
    """
    out: Path = options.out
    result = dataclasses.replace(result, command=options.command)

    def picture(name: str) -> Image | None:
        for owner, source in sources.items():
            place = -1 if source is None else int(source.find([name.removeprefix(f"{owner}: ")])[0])
            if source is not None and place >= 0:
                with suppress(UnreadableImage):
                    return source.read(place)
        return None

    write_result(result, out)
    report: Path | str = install_hint("matplotlib", "The report is left out: drawing its figures")
    if is_installed("matplotlib"):
        report = write_report(result, out, title=f"{result.protocol}: {title}", pictures=picture)
    print(f"{result.protocol}: {title}")
    width = max(len(name) + 2 for name in (*result.counts, *result.metrics))
    for name, count in result.counts.items():
        print(f"  {words(name):<{width}}{count:,}")
    for name in without_complements(result.metrics):
        value, interval, n, _ = estimate_cells(result.metrics[name])
        owner, _, bare = name.rpartition("/")
        detail = result.details.get(owner or "all")
        if bare == "accuracy" and isinstance(detail, Mapping) and "deviation" in detail:
            value = f"{value} +- {100 * detail['deviation']:.2f}"
        print(f"  {name:<{width}}{value:<17}{f'[{interval}]':<24}n={n}")
    missing = not_measurable(result.metrics)
    if missing:
        print(textwrap.fill(missing, 79))
    lost = lost_counts(result)
    if lost:
        print(f"not all of the protocol was measured: {', '.join(lost)}")
    print(f"{out / 'result.json'}\n{report}")
    return Results({**result_table(result), "folder": out})


def check_given(options: argparse.Namespace) -> None:
    """Raise ValueError unless there is a model or ready embeddings; to be asked before images are looked for."""
    if bool(options.model) == bool(options.embeddings):
        raise ValueError("give either --model and --images, or --embeddings and --names")
    for path in options.model or []:
        if not path.exists():
            raise ValueError(f"--model {path} is missing: give a folder of `train`, a .safetensors or an .onnx file")


def make_embeddings(
    options: argparse.Namespace, lists: Sequence[Wanted], sources: Sequence[NamedImages | None]
) -> list[list[Embeddings]]:
    """The embeddings of each list, one of each model or array, merged if they are to stand side by side."""
    check_given(options)
    for name in ("contract", "flip"):
        if options.embeddings and getattr(options, name) is not None:
            raise ValueError(f"--{name} is for models; ready embeddings are taken as they are")
    if options.model:
        made = _embed(options, lists, sources)
    else:
        ready = _ready(options)
        made = [ready for _ in lists]
    several = len(made[0])
    if several > 1 and options.snapshots == 1 and options.merge is None:
        raise ValueError(f"{several} models or arrays: say with --merge concat or --merge scores what to do with them")
    return [[concatenated(each)] for each in made] if several > 1 and options.merge == "concat" else made


def _ready(options: argparse.Namespace) -> list[Embeddings]:
    lists = list(options.names or [])
    if len(lists) not in (1, len(options.embeddings)):
        raise ValueError("--embeddings needs --names: one list of names for all arrays, or one for each in order")
    lists = lists * len(options.embeddings) if len(lists) == 1 else lists
    return [load_embeddings(array, names) for array, names in zip(options.embeddings, lists, strict=True)]


def _embed(
    options: argparse.Namespace, lists: Sequence[Wanted], sources: Sequence[NamedImages | None]
) -> list[list[Embeddings]]:
    device = choose_device(options.device)
    made: list[list[Embeddings]] = [[] for _ in lists]
    for path in options.model:
        onnx_on_cpu = path.suffix == ".onnx" and options.device is None
        for model in open_models(
            path,
            contract=options.contract,
            device="cpu" if onnx_on_cpu else device,
            snapshots=options.snapshots,
        ):
            chosen = model if options.flip is None else model.with_flip(options.flip)
            for pairs, source, mine in zip(lists, sources, made, strict=True):
                if source is None:
                    raise ValueError(f"--images: none for {pairs.title}")
                with Progress(f"embedding {pairs.title} by {model.name}", "images") as progress:
                    mine.append(
                        embed_images(
                            chosen,
                            source,
                            resize=options.resize,
                            resize_option="--resize",
                            allow_unreadable=options.allow_missing,
                            batch_size=options.batch_size,
                            progress=progress,
                        )
                    )
    return made


def save_embeddings(
    made: Sequence[Sequence[Embeddings]], titles: Sequence[str], out: Path, tag_of_all: str = ""
) -> None:
    """Write arrays and lists of names."""
    for title, several in zip(titles, made, strict=True):
        for number, embeddings in enumerate(several, start=1):
            tag = tag_of_all + (f"-{title}" if len(made) > 1 else "") + (f"-{number}" if len(several) > 1 else "")
            with Staged() as stage:
                np.save(stage.open(out / f"embeddings{tag}.npy", replace=True), embeddings.values)
                stage.open(out / f"names{tag}.txt", replace=True).write(names_text(embeddings.names).encode())
