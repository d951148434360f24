"""IJB-B and IJB-C: 1:1 verification and 1:N identification of templates, with every choice declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import Reporter, check_choice, part_of
from hypersphere.evaluation.arrays import Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.verification import FARS
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.ijb.files import (
    GALLERIES,
    Media,
    TemplatePairs,
    TemplateSet,
    read_media,
    read_template_pairs,
    read_template_set,
)
from hypersphere.evaluation.protocols.ijb.search import People, Templates, search_merged, search_official
from hypersphere.evaluation.protocols.ijb.template_pairs import verify_templates
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.legacy import TAR_RULES
from hypersphere.evaluation.protocols.official_files import (
    counted,
    find_images,
    kept_names,
    line_of,
    missing_images,
)
from hypersphere.evaluation.protocols.templates import Pooling, left_to_do, pool_templates
from hypersphere.evaluation.results.measurement import LeftOut, Measurement
from hypersphere.evaluation.results.provenance import file_digests
from hypersphere.evaluation.results.result import RULE_SENTENCES, Result

TASKS = ("1:1", "1:N")
SEARCHES = ("official", "merged", "both")
FPIRS = (1e-1, 1e-2, 1e-3)

RULES = (
    "A template is the sum of its media, a medium the mean of its images, in the order and with the weights that the "
    "options state; templates are compared by cosine.",
    "1:1 intervals of TAR, by whichever rule, draw the first template of genuine pairs, thresholds held; those of the "
    "area and the equal error rate take pairs as independent.",
    "The worst pairs are the impostors most alike and the mates least alike, of 1:1 and of 1:N (official: best entries "
    "of probes without a mate; merged: all entries of others); of a template the first image is shown.",
    "1:N official: each gallery by itself; FPIR of the best entry of probes without a mate, TPIR of mates at rank 1; "
    "mean over galleries. Intervals draw the probes' people.",
    "1:N merged (`merged_...`): both galleries as one; the threshold is the ceil(FPIR probes)-th largest score with "
    "another person, and a mate counts at any rank. It is not comparable with the official one.",
)


@dataclass(frozen=True, kw_only=True)
class IjbOptions:
    """Every choice that peers make differently.

    Args:
        pooling: from images to templates.
        tar_rule: how a TAR is read off the curve: `at_most`, or as others do, `nearest` or `interpolated`.
        search: the definition of 1:N: `official`, `merged`, or `both`.
    """

    pooling: Pooling = dataclasses.field(default_factory=Pooling)
    tar_rule: str = "at_most"
    search: str = "official"

    def __post_init__(self) -> None:
        check_choice("tar_rule", self.tar_rule, TAR_RULES)
        check_choice("search", self.search, SEARCHES)


PRESETS: dict[str, IjbOptions] = {
    "hypersphere": IjbOptions(),
    "arcface_torch": IjbOptions(pooling=Pooling(flip="sum"), tar_rule="nearest", search="merged"),
    "adaface": IjbOptions(pooling=Pooling(flip="sum", detector_score=False), tar_rule="nearest", search="merged"),
    "opensphere": IjbOptions(
        pooling=Pooling(flip="mean", detector_score=False), tar_rule="interpolated", search="merged"
    ),
}
"""Conventions by name. Those of others need embeddings that hold image and mirror image side by side."""


@dataclass(frozen=True)
class Ijb:
    """IJB-B or IJB-C.

    Args:
        path: the folder of the meta files.
        media: which images show which template.
        pairs: of 1:1, where the list is there.
        galleries: of 1:N by name, where the lists are there.
        probes: of 1:N.
        files: the meta files that were read, by name, each with its digest.
    """

    path: Path
    media: Media
    pairs: TemplatePairs | None
    galleries: dict[str, TemplateSet]
    probes: TemplateSet | None
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The images it needs."""
        return self.media.names

    def place(self, image: int) -> str:
        """The list and the line that name the k-th image."""
        return line_of(self.media.path, image)

    @property
    def tasks(self) -> tuple[str, ...]:
        """What the files that are there allow."""
        return tuple(task for task, there in zip(TASKS, (self.pairs, self.probes), strict=True) if there is not None)

    def evaluate(
        self,
        embeddings: Embeddings,
        *,
        options: IjbOptions | str = "hypersphere",
        tasks: Sequence[str] | None = None,
        fars: Sequence[float] = FARS,
        fpirs: Sequence[float] = FPIRS,
        allow_missing: bool = False,
        progress: Reporter | None = None,
    ) -> Result:
        """TAR at FARs of 1:1, ranks and TPIR at FPIRs of 1:N.

        Args:
            embeddings: of the images, not normalised unless the pooling says so.
            options: the choices, or the name of a preset.
            tasks: `1:1`, `1:N`, or both; what the files allow by default.
            fars: of 1:1.
            fpirs: of 1:N.
            allow_missing: leave out images that have no embedding, and what has no image left, and count them.
            progress: called as `progress(done, total)` in pairs and in searches of a probe.
        """
        if isinstance(options, str):
            options = PRESETS[check_choice("options", options, PRESETS)]
        wanted = self.tasks if tasks is None else tuple(tasks)
        for task in wanted:
            check_choice("tasks", task, self.tasks)
        pooling = options.pooling
        without_media = self._without_media(wanted, allow_missing)
        rows = find_images(embeddings, self.names, self.place, allow_missing)
        ids, units = pool_templates(
            embeddings,
            rows,
            self.media.templates,
            self.media.media,
            self.media.detector,
            left_to_do(pooling, embeddings),
        )
        named = np.unique(self.media.templates)
        left_out = {
            **missing_images(self.names, rows, [embeddings]),
            "templates_without_image": [str(template) for template in np.setdiff1d(named, ids)],
            "templates_without_media": [str(template) for template in without_media],
        }
        here = np.flatnonzero(rows >= 0)[::-1]
        shown = {int(self.media.templates[image]): self.names[image] for image in here.tolist()}
        templates = Templates(ids, units, shown)
        whole = Measurement(counts={"images": len(self.names), "templates": len(named), **counted(left_out)})
        compared = len(self.pairs.same) if "1:1" in wanted and self.pairs is not None else 0
        searched = len(self.probes.templates) if "1:N" in wanted and self.probes is not None else 0
        work = compared + searched * _searches(options.search, len(self.galleries))
        if "1:1" in wanted and self.pairs is not None:
            part_done = part_of(progress, 0, work)
            whole.join(verify_templates(self.pairs, templates, options.tar_rule, fars, part_done))
        if "1:N" in wanted and self.probes is not None:
            probes, counts = self._probes(self.probes, templates, allow_missing)
            whole.counts |= counts
            galleries = {name: templates.among(gallery) for name, gallery in self.galleries.items()}
            done = compared
            if options.search in ("official", "both"):
                whole.join(search_official(galleries, probes, fpirs, shown, part_of(progress, done, work)))
                done += searched * len(galleries)
            if options.search in ("merged", "both"):
                whole.join(search_merged(galleries, probes, fpirs, shown, part_of(progress, done, work)))
        return Result.of(
            "ijb",
            whole,
            embeddings,
            options={
                "similarity": "cosine",
                "tasks": list(wanted),
                **dataclasses.asdict(options),
                "allow_missing": allow_missing,
            },
            rules=(*RULE_SENTENCES, *RULES),
            decided=[*kept_names(self.names, rows >= 0), *self.files.values()],
            files=self.files,
            left_out=left_out,
        )

    def _without_media(self, tasks: Sequence[str], allow_missing: bool) -> Ints:
        """The templates that the lists of these tasks name and no image shows; they must be allowed."""
        lists: list[TemplatePairs | TemplateSet] = []
        if self.pairs is not None and "1:1" in tasks:
            lists.append(self.pairs)
        if self.probes is not None and "1:N" in tasks:
            lists += [self.probes, *self.galleries.values()]
        for listed in lists:
            if len(listed.without_media) and not allow_missing:
                first = f"{len(listed.without_media):,} templates have no media, first {listed.without_media[0]}"
                raise ValueError(f"{listed.path}: {first}; allow_missing leaves them out and counts them")
        return np.unique(np.concatenate([listed.without_media for listed in lists]))

    def _probes(self, listed: TemplateSet, templates: Templates, allow_missing: bool) -> tuple[People, dict[str, int]]:
        """The probes that have images, and a mate with images in a gallery; and how many have not."""
        enrolled = []
        for gallery in self.galleries.values():
            enrolled.append(templates.among(gallery).subjects)
            if len(enrolled[-1]) == 0:
                raise ValueError(f"{gallery.path}: no template has an image left")
        probes = templates.among(listed)
        mateless = ~np.isin(probes.subjects, np.concatenate(enrolled))
        if mateless.any() and not allow_missing:
            raise ValueError(f"{listed.path}: {int(mateless.sum()):,} probes have no mate left in any gallery")
        if mateless.all():
            raise ValueError(f"{listed.path}: no probe has a mate left in any gallery")
        kept = probes.some(~mateless)
        return kept, {
            "probes": len(listed.templates),
            "probes_without_mate": LeftOut(mateless.sum()),
            "probes_left_out": LeftOut(len(listed.templates) - len(kept.subjects)),
        }


def read_ijb(path: str | Path, subset: str = "ijbc", *, allow_missing: bool = False) -> Ijb:
    """Read the meta files of a subset: `ijbc_face_tid_mid.txt` and those of 1:1, 1:N or both.

    Args:
        path: the folder, usually called `meta`.
        subset: how the files' names begin, `ijbb` or `ijbc`.
        allow_missing: whether lists may name templates without media, and probes without a mate in the galleries.
    """
    path = Path(path)
    shown, detected = path / f"{subset}_face_tid_mid.txt", path / f"{subset}_name_5pts_score.txt"
    media = read_media(shown, detected)
    known = np.unique(media.templates)
    listed, probe_list = path / f"{subset}_template_pair_label.txt", path / f"{subset}_1N_probe_mixed.csv"
    pairs = read_template_pairs(listed, known, allow_missing) if listed.exists() else None
    galleries: dict[str, TemplateSet] = {}
    probes = None
    if probe_list.exists():
        probes = read_template_set(probe_list, known, allow_missing)
        files = [[path / f"{subset}_1N_gallery_{name}.csv" for name in names] for names in GALLERIES]
        chosen = 0 if files[0][0].exists() else 1
        galleries = {
            name: read_template_set(file, known, allow_missing)
            for name, file in zip(GALLERIES[chosen], files[chosen], strict=True)
        }
        _check_search(galleries, probes, allow_missing)
    if pairs is None and probes is None:
        raise ValueError(f"{path}: neither {listed.name} nor {probe_list.name} is there")
    read = [shown, detected, listed, probe_list, *(gallery.path for gallery in galleries.values())]
    return Ijb(path, media, pairs, galleries, probes, file_digests(file for file in read if file.exists()))


def _check_search(galleries: dict[str, TemplateSet], probes: TemplateSet, allow_missing: bool) -> None:
    seen: dict[int, tuple[Path, int]] = {}
    for gallery in galleries.values():
        for subject, line in zip(gallery.subjects.tolist(), gallery.lines.tolist(), strict=True):
            if subject in seen:
                first, where = seen[subject]
                raise ValueError(
                    f"{gallery.path}, line {line}: subject {subject} was enrolled in {first}, line {where}"
                )
            seen[subject] = gallery.path, line
    lost = [place for place, subject in enumerate(probes.subjects.tolist()) if subject not in seen]
    if lost and not allow_missing:
        who = f"subject {probes.subjects[lost[0]]} has no template in any gallery"
        raise ValueError(f"{probes.path}, line {probes.lines[lost[0]]}: {who}; {len(lost)} probes have no mate")


def _searches(search: str, galleries: int) -> int:
    """How often every probe is searched."""
    return galleries * (search != "merged") + (search != "official")


@PROTOCOLS.register("ijb")
def run_ijb(
    source: EmbeddingSource,
    *,
    meta: str | Path,
    subset: str = "ijbc",
    preset: str = "hypersphere",
    tasks: Sequence[str] | None = None,
    fars: Sequence[float] = FARS,
    fpirs: Sequence[float] = FPIRS,
    merge_flip: str | None = None,
    keep_norm: bool | None = None,
    detector_score: bool | None = None,
    media: str | None = None,
    tar_rule: str | None = None,
    search: str | None = None,
) -> Evaluated:
    """IJB-B or IJB-C: `meta` is the folder of the meta files, `subset` how their names begin. The choices of `Pooling`
    (`merge_flip` is its `flip`) and of `IjbOptions` take the place of the preset's. Else as `Ijb.evaluate`.
    """
    choices = PRESETS[check_choice("preset", preset, PRESETS)]
    chosen: dict[str, Any] = {
        "flip": merge_flip,
        "keep_norm": keep_norm,
        "detector_score": detector_score,
        "media": media,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    choices = IjbOptions(
        pooling=dataclasses.replace(choices.pooling, **given),
        tar_rule=tar_rule or choices.tar_rule,
        search=search or choices.search,
    )
    protocol = read_ijb(meta, subset, allow_missing=source.allow_missing)
    wanted = choices.pooling.flip
    if source.model and source.flip is None and wanted != "given":
        source = dataclasses.replace(source, flip="none" if wanted == "first" else wanted)
    if source.embeddings and wanted != "given" and merge_flip is None:
        what = source.embeddings[0] if isinstance(source.embeddings[0], Path) else "the array"
        option = source.option("merge_flip")
        raise ValueError(
            f"preset {preset} merges image and mirror image: say whether {what} holds them side by side "
            f"({option} {wanted}) or merged already ({option} given)"
        )
    embeddings, images = source.gather(protocol.names, subset, where=protocol.place)
    with source.measuring("measuring", "pairs and probes") as progress:
        result = protocol.evaluate(
            embeddings,
            options=choices,
            tasks=tasks,
            fars=fars,
            fpirs=fpirs,
            allow_missing=source.allow_missing,
            progress=progress,
        )
    named = {"subset": subset, "preset": preset, **result.options}
    return Evaluated(dataclasses.replace(result, options=named), f"{subset}, {preset}", {"": images})
