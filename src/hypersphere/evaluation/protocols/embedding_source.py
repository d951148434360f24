"""Where the embeddings of a protocol come from: ready arrays, or models and images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from hypersphere.core import Reporter, check_choice, check_names
from hypersphere.core.read_arrays import read_npy
from hypersphere.data import NamedImages, is_image_name, read_entries
from hypersphere.evaluation.arrays import Array, finite_rows
from hypersphere.evaluation.embed import embed_images
from hypersphere.evaluation.embeddings import Embeddings, concatenated, load_embeddings, read_names
from hypersphere.models import Contract, Embedder, find_entry, load_model

Meter = Callable[[str, str], AbstractContextManager[Reporter]]
"""Shows the progress of one piece of work, given what is done and what is counted; as `core.Progress`."""
MERGES = ("concat", "unit", "scores")


@dataclass(frozen=True, kw_only=True)
class EmbeddingSource:
    """Ready embeddings, or models and images to make them of.

    Args:
        model: models, or files and folders that `load_model` opens.
        images: folders, tars or folders of tars.
        embeddings: arrays, or embeddings themselves.
        names: lists with the name of each row's image: one for all arrays, or one for each.
        contract: of ONNX files.
        flip: how the embeddings of mirror images are merged; the contract's choice by default.
        resize: resize images to the model's size instead of refusing them.
        merge: of several models or arrays: `concat`, side by side; `unit`, the same of unit vectors; or `scores`, the
            mean of scores (pairs only).
        batch_size: images at a time.
        device: to compute on; the best there is by default, for ONNX files the CPU.
        allow_missing: leave out what is missing or cannot be read, and count it.
        meter: shows progress.
        open_model: opens a path instead of `load_model`; what it returns belongs together, such as late snapshots.
        keep: called with a tag for file names and embeddings, as soon as they are there.
        option: how a user writes an option, for messages.
    """

    model: Sequence[Embedder | Path] = ()
    images: Sequence[Path] = ()
    embeddings: Sequence[Embeddings | Path] = ()
    names: Sequence[Path] = ()
    contract: Contract | str | Path | None = None
    flip: str | None = None
    resize: bool = False
    merge: str | None = None
    batch_size: int = 128
    device: str | None = None
    allow_missing: bool = False
    meter: Meter | None = None
    open_model: Callable[[Path], Sequence[Embedder]] | None = None
    keep: Callable[[str, Embeddings], None] | None = None
    option: Callable[[str], str] = str

    def __post_init__(self) -> None:
        model, images, embeddings, names = map(self.option, ("model", "images", "embeddings", "names"))
        if bool(self.model) == bool(self.embeddings):
            raise ValueError(f"give either {model} and {images}, or {embeddings} and {names}")
        if self.merge is not None:
            check_choice(self.option("merge"), self.merge, MERGES)
        for path in self.model:
            if isinstance(path, Path) and not path.exists() and find_entry(path) is None:
                raise ValueError(
                    f"{model} {path} is missing: give a folder of `train`, a .safetensors or an .onnx file, or a name "
                    "of `hypersphere models`"
                )

    def measuring(self, title: str, unit: str) -> AbstractContextManager[Reporter | None]:
        """The progress of a piece of work."""
        return nullcontext() if self.meter is None else self.meter(title, unit)

    def gather(
        self, names: Sequence[str], title: str, tag: str = "", *, where: Callable[[int], str] | None = None
    ) -> tuple[Embeddings, NamedImages | None]:
        """The embeddings of a protocol's images; and the images, where they are given.

        Args:
            names: of the images.
            title: of the protocol.
            tag: in the names of saved files, where a protocol has more than one set of images.
            where: the place of the k-th name in the protocol's files.
        """
        given = list(self.images)
        if len(given) > 1:
            raise ValueError(f"{self.option('images')}: {len(given)} given; this protocol takes one")
        if self.model and not given:
            raise ValueError(f"{self.option('model')} needs {self.option('images')}: where the images are")
        source = NamedImages(given[0], names) if given else None
        if source is not None and source.missing and self.model and not self.allow_missing:
            first = source.missing[0]
            place = source.path if where is None else where(list(names).index(first))
            raise ValueError(
                f"{place}: there is no {first!r} in {source.path}; {len(source.missing):,} of {len(names):,} images "
                f"are missing; {self.option('allow_missing')} leaves them out and counts them"
            )
        (made,) = self.of_sets([title], [source], tag)
        if len(made) > 1:
            raise ValueError(
                f"{len(made)} models, arrays or snapshots: this protocol merges them with {self.option('merge')} "
                "concat or unit only"
            )
        return made[0], source

    def of_sets(
        self, titles: Sequence[str], sources: Sequence[NamedImages | None], tag: str = ""
    ) -> list[list[Embeddings]]:
        """The embeddings of each set of images, one of each model or array; one where they stand side by side."""
        made = self._embedded(titles, sources) if self.model else [self._ready()] * len(titles)
        if len(self.model or self.embeddings) > 1 and self.merge is None:
            raise ValueError(
                f"{len(made[0])} models or arrays: say with {self.option('merge')} concat, unit or scores what to do "
                "with them"
            )
        if self.merge in ("concat", "unit") and len(made[0]) > 1:
            made = [[concatenated(each, unit=self.merge == "unit")] for each in made]
        if self.keep is not None:
            for title, several in zip(titles, made, strict=True):
                of_set = f"{tag}-{title}" if len(made) > 1 else tag
                for number, each in enumerate(several, start=1):
                    self.keep(f"{of_set}-{number}" if len(several) > 1 else of_set, each)
        return made

    def of_others(self, path: Path) -> Array:
        """(images, dim): of all images of a folder or archive by the same models, merged likewise; or a ready array."""
        if self.embeddings:
            return finite_rows(str(path), read_npy(path))
        other = replace(self, images=[path], keep=None)
        (made,) = other.of_sets([path.name], [NamedImages(path, other.image_names())])
        if len(made) > 1:
            raise ValueError(
                f"{self.option('merge')} scores compares {len(made)} models one by one, each with a PCA of its own: use"
                f" {self.option('merge')} unit, whose cosines are the same, with {self.option('fit')}"
            )
        return made[0].values

    def image_names(self) -> list[str]:
        """All images there are: the names of the list, or what lies in the folder or archive of images."""
        if self.embeddings and isinstance(self.embeddings[0], Embeddings):
            return list(self.embeddings[0].names)
        if self.names:
            return list(read_names(self.names[0]))
        if not self.images:
            raise ValueError(f"give {self.option('names')} or {self.option('images')}")
        place = self.images[0]
        archives = sorted(place.glob("*.tar")) if place.is_dir() else [place]
        if archives:
            names = [entry.name for archive in archives for entry in read_entries(archive)]
            around = {name.partition("/")[0] for name in names}
            return [name.partition("/")[2] for name in names] if len(around) == 1 and "/" in names[0] else names
        found = sorted(str(file.relative_to(place).as_posix()) for file in place.rglob("*") if is_image_name(file.name))
        check_names(found, str(place))
        return found

    def _ready(self) -> list[Embeddings]:
        for name in ("contract", "flip"):
            if getattr(self, name) is not None:
                raise ValueError(f"{self.option(name)} is for models; ready embeddings are taken as they are")
        paths = [each for each in self.embeddings if isinstance(each, Path)]
        if paths and len(self.names) not in (1, len(paths)):
            raise ValueError(
                f"{self.option('embeddings')} needs {self.option('names')}: one list of names for all arrays, or one "
                "for each in order"
            )
        lists = iter(self.names if len(self.names) == len(paths) else [*self.names] * len(paths))
        return [load_embeddings(each, next(lists)) if isinstance(each, Path) else each for each in self.embeddings]

    def _embedded(self, titles: Sequence[str], sources: Sequence[NamedImages | None]) -> list[list[Embeddings]]:
        made: list[list[Embeddings]] = [[] for _ in titles]
        for given in self.model:
            for model in [given] if isinstance(given, Embedder) else self.opened(given):
                chosen = model if self.flip is None else model.with_flip(self.flip)
                for title, source, own in zip(titles, sources, made, strict=True):
                    if source is None:
                        raise ValueError(f"{self.option('images')}: none for {title}")
                    with self.measuring(f"embedding {title} by {model.name}", "images") as progress:
                        own.append(
                            embed_images(
                                chosen,
                                source,
                                resize=self.resize,
                                resize_option=self.option("resize"),
                                allow_unreadable=self.allow_missing,
                                batch_size=self.batch_size,
                                progress=progress,
                            )
                        )
        return made

    def opened(self, path: Path) -> Sequence[Embedder]:
        if self.open_model is not None:
            return self.open_model(path)
        return [load_model(path, self.contract, device=self.device)]
