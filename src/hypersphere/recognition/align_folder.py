"""Align the photos of a folder, tar or list into a folder of crops: in parts that survive a kill, by processes."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hypersphere.core import (
    Failure,
    Parts,
    Reporter,
    build,
    check_integer,
    check_names,
    file_digest,
    hold_folder,
    parse_json,
    write_atomically,
)
from hypersphere.data import EncodedSource, Image, ImageSource, UnreadableImage, encode, is_image_name, open_every_image
from hypersphere.models.align import DegenerateLandmarks, align_face
from hypersphere.recognition.align_page import align_page
from hypersphere.recognition.align_report import AlignedPhoto, AlignReport, AlignTask
from hypersphere.recognition.face import Face
from hypersphere.recognition.photo import PhotoTooLarge, read_photo

PART = 32
"""Photos of a part: what a killed process does again at most."""
_STATE = ".align"
_PIXELS_AT_ONCE = 2**24
_LONGEST = 2**28


def align_photos(task: AlignTask, *, processes: int = 1, progress: Reporter | None = None) -> AlignReport:
    """Find and align the faces of photos, and write `crops`, `faces.csv` and a page `align.html` into a folder.

    Finished parts are noted in the folder, so that the same call goes on where one was killed; a call with another
    task is refused. A note that is damaged by then, or whose crops are not as they were written, is noticed by its
    digests, and its photos are aligned again with a warning. Crops do not depend on the number of processes.

    Args:
        task: what to align.
        processes: that work at once, each with one thread; they are started anew, so that a program which calls this
            with more than one needs `if __name__ == "__main__":`.
        progress: called as `progress(done, total)` with photos.
    """
    check_integer("processes", processes, 1)
    work = _Work(task)
    out = Path(task.out)
    _check_apart(out, Path(task.photos))
    with hold_folder(out):
        (out / _STATE).mkdir(exist_ok=True)
        work.parts.begin()
        done = 0

        def count(number: int) -> None:
            nonlocal done
            done += len(work.indices(number))
            if progress is not None:
                progress(done, len(work.names))

        work.parts.discard_damaged(work.check_crops, count)
        missing = work.parts.missing()
        for number in _finished(work, missing, min(processes, len(missing))):
            count(number)
        report = AlignReport(task, [each for number in range(work.count) for each in work.parts.load(number).photos])
        write_atomically(out / "faces.csv", _table(report).encode("utf-8", "surrogateescape"))
        align_page(report, work.source, work.names).save(out / "align.html")
    return report


@dataclass(frozen=True, kw_only=True)
class _Note:
    """What became of the photos of a part, and the digests of their crops by name."""

    photos: tuple[AlignedPhoto, ...]
    crops: dict[str, str]


class _Work:
    """A task with its photos open; the detector is loaded when a part is computed."""

    def __init__(self, task: AlignTask, threads: int | None = None) -> None:
        self.task = task
        self.source, self.names = open_every_image(task.photos, task.format)
        check_names(self.names, task.photos)
        self.outputs = _output_names(self.names)
        self.detector = task.load_detector(threads)
        out = Path(task.out)
        self.parts = Parts(out / _STATE, self.plan(), self.count, self._decoded, limit=_LONGEST, begun=out)

    @property
    def count(self) -> int:
        """How many parts there are."""
        return -(-len(self.names) // PART)

    def indices(self, number: int) -> range:
        return range(number * PART, min((number + 1) * PART, len(self.names)))

    def plan(self) -> dict[str, Any]:
        """What makes the crops what they are: a folder begun by another plan is not gone on with."""
        names = hashlib.sha256("\n".join(self.names).encode("utf-8", "surrogateescape")).hexdigest()
        options = {name: value for name, value in asdict(self.task).items() if name not in ("photos", "out")}
        return {"photos": Path(self.task.photos).name, "count": len(self.names), "names": names, **options}

    def align_part(self, number: int) -> None:
        """Write the crops of a part, then its note: a part that has one is whole."""
        done = [each for batch in self._batches(self.indices(number)) for each in self._align(batch)]
        order = {name: place for place, name in enumerate(self.names)}
        done.sort(key=lambda each: order[each.photo])
        crops = {crop: file_digest(Path(self.task.out) / crop) for each in done for crop in each.crops}
        self.parts.save(number, json.dumps({"photos": [asdict(each) for each in done], "crops": crops}).encode())

    def _decoded(self, number: int, content: bytes) -> _Note:
        table = parse_json(content, "its note")
        note = build(_Note, table if isinstance(table, dict) else {})
        if [each.photo for each in note.photos] != [self.names[index] for index in self.indices(number)]:
            raise ValueError(f"its {len(note.photos)} photos are not those of part {number}")
        if [crop for each in note.photos for crop in each.crops] != [*note.crops]:
            raise ValueError(f"its crops are not those of its {len(note.photos)} photos")
        return note

    def check_crops(self, note: _Note) -> None:
        """Raise ValueError unless the crops of a note lie in the folder as they were written."""
        for name, digest in note.crops.items():
            path = Path(self.task.out) / name
            if not path.is_file() or file_digest(path) != digest:
                raise ValueError(f"{path}: missing, or not the crop that was written")

    def _batches(self, indices: range) -> Iterator[list[tuple[int, Image | UnreadableImage]]]:
        """Photos that are looked at together; the cause in the place of one that cannot be read."""
        batch: list[tuple[int, Image | UnreadableImage]] = []
        pixels = 0
        for index in indices:
            try:
                image: Image | UnreadableImage = _read_photo(self.source, index)
            except UnreadableImage as error:
                image = error
            size = image.shape[0] * image.shape[1] if not isinstance(image, UnreadableImage) else 0
            if batch and pixels + size > _PIXELS_AT_ONCE:
                yield batch
                batch, pixels = [], 0
            batch.append((index, image))
            pixels += size
        yield batch

    def _align(self, batch: Sequence[tuple[int, Image | UnreadableImage]]) -> Iterator[AlignedPhoto]:
        photos = [(index, image) for index, image in batch if not isinstance(image, UnreadableImage)]
        for index, error in batch:
            if isinstance(error, UnreadableImage):
                kind = "too large" if isinstance(error, PhotoTooLarge) else "unreadable"
                cause = str(error).removeprefix(f"{self.source.describe(index)}: ")
                yield AlignedPhoto(photo=self.names[index], failure=kind, cause=cause)
        for (index, image), faces in zip(photos, self.detector([image for _, image in photos]), strict=True):
            yield self._align_photo(index, image, faces)

    def _align_photo(self, index: int, image: Image, faces: list[Face]) -> AlignedPhoto:
        task, name = self.task, self.names[index]
        if task.faces == "largest":
            faces = sorted(faces, key=lambda face: -face.area)
        found = _described(faces)
        if not faces:
            return AlignedPhoto(photo=name, failure="no face", cause="no face was found")
        if task.faces == "one" and len(faces) > 1:
            return AlignedPhoto(photo=name, failure="several faces", cause=f"{len(faces)} faces were found", **found)
        kept: list[Face] = []
        crops: list[str] = []
        causes: list[str] = []
        for face in faces if task.faces == "all" else faces[:1]:
            try:
                crop = align_face(image, face.landmarks, task.target)
            except DegenerateLandmarks as error:
                causes.append(str(error))
                continue
            kept.append(face)
            which = f".face{len(kept)}" if task.faces == "all" else ""
            file = f"{self.outputs[index]}{which}{'.png' if task.quality is None else '.jpg'}"
            write_atomically(Path(task.out) / file, encode(crop, task.quality))
            crops.append(file)
        found = _described([*kept, *(face for face in faces if face not in kept)])
        failure = "" if crops else "landmarks"
        return AlignedPhoto(photo=name, failure=failure, cause="; ".join(causes), crops=tuple(crops), **found)


def _read_photo(source: ImageSource, index: int) -> Image:
    if isinstance(source, EncodedSource):
        return read_photo(source.encoded(index), describe=source.describe(index))
    image = source.read(index)
    return image if image.shape[2] == 3 else image.repeat(3, axis=2)


def _described(faces: Sequence[Face]) -> dict[str, Any]:
    return {
        "boxes": tuple(tuple(round(each, 2) for each in face.box) for face in faces),
        "scores": tuple(round(face.score, 4) for face in faces),
        "landmarks": tuple(
            tuple(tuple(round(float(each), 2) for each in point) for point in face.landmarks) for face in faces
        ),
    }


def _output_names(names: Sequence[str]) -> list[str]:
    """The crops' names without their suffix: the photos' own, with their suffix only where two differ in that alone."""
    stems = [name.rpartition(".")[0] if is_image_name(name) else name for name in names]
    times = Counter(stems)
    return [name if times[stem] > 1 else stem for name, stem in zip(names, stems, strict=True)]


def _check_apart(out: Path, photos: Path) -> None:
    if photos.is_dir() and out.resolve().is_relative_to(photos.resolve()):
        raise ValueError(f"{out} lies in {photos}: crops would be taken for photos; choose a folder outside of it")


def _finished(work: _Work, missing: Sequence[int], processes: int) -> Iterator[int]:
    """Compute parts; their numbers as they are done."""
    if processes <= 1:
        for number in missing:
            work.align_part(number)
            yield number
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(work.task,)) as pool:
        try:
            for each in as_completed([pool.submit(_align_part, number) for number in missing]):
                yield each.result()
        except BrokenProcessPool:
            raise Failure(
                "a process that aligns photos was killed, perhaps for want of memory; the same command goes on from "
                "what is done: give it fewer --processes"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _Process:
    """The work of this process, where it is one of several."""

    work: _Work | None = None


def _begin(task: AlignTask) -> None:
    torch.set_num_threads(1)
    _Process.work = _Work(task, threads=1)


def _align_part(number: int) -> int:
    assert _Process.work is not None
    _Process.work.align_part(number)
    return number


def _table(report: AlignReport) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    points = [
        f"{axis}_{name}" for name in ("left_eye", "right_eye", "nose", "left_mouth", "right_mouth") for axis in "xy"
    ]
    writer.writerow(["photo", "crop", "score", "x0", "y0", "x1", "y1", *points])
    for each in report.photos:
        for crop, box, score, landmarks in zip(each.crops, each.boxes, each.scores, each.landmarks, strict=False):
            writer.writerow([each.photo, crop, score, *box, *(value for point in landmarks for value in point)])
    return stream.getvalue()
