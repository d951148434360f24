"""Small but complete stand-ins of the protocols, in the official file layouts, made of pocket faces."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation import Embeddings
from hypersphere.pocket import PocketFaces

DIM = 24
Floats = npt.NDArray[np.float32]


@cache
def pocket_vectors(people: int, each: int, difficulty: float = 0.1, first: int = 0) -> tuple[Floats, Floats]:
    """(people, each, DIM) vectors of pocket faces, and of their mirror images: pixels, projected at random."""
    source = PocketFaces(people, each, size=16, difficulty=difficulty, first_identity=first)
    pixels = source.batch(range(people * each)).numpy().astype(np.float32) / 255 - 0.5
    project = np.random.default_rng(0).normal(size=(pixels[0].size, DIM))
    found = []
    for images in (pixels, pixels[..., ::-1]):
        rows = images.reshape(len(images), -1) @ project
        found.append((rows - rows.mean(axis=0)).astype(np.float32).reshape(people, each, DIM))
    return found[0], found[1]


def person(number: int) -> str:
    return f"Pocket_Person_{number:02d}"


def write_blufr(path: Path, people: int = 60, each: int = 8, trials: int = 10) -> Embeddings:
    """`blufr_lfw_config.mat`: in each trial 10 people to train on, 10 in the gallery with one image each."""
    from scipy.io import savemat

    names = [f"{person(p)}_{k + 1:04d}.jpg" for p in range(people) for k in range(each)]
    labels = np.repeat(np.arange(1, people + 1), each)
    rng = np.random.default_rng(1)
    cells: dict[str, list[npt.NDArray[np.int64]]] = {"trainIndex": [], "testIndex": [], "galIndex": [], "probIndex": []}
    for _ in range(trials):
        order = rng.permutation(people) + 1
        places = np.arange(1, len(labels) + 1)
        train, gallery = places[np.isin(labels, order[:10])], places[np.isin(labels, order[10:20])][::each]
        test = np.setdiff1d(places, train)
        for key, part in zip(cells, (train, test, gallery, np.setdiff1d(test, gallery)), strict=True):
            cells[key].append(part[:, None])
    table = {"imageList": cell_array(names), "labels": labels[:, None].astype(np.float64)}
    savemat(path, table | {key: cell_array(parts) for key, parts in cells.items()})
    values = pocket_vectors(people, each)[0].reshape(-1, DIM)
    return Embeddings([f"{name.rpartition('_')[0]}/{name}" for name in names], values)


def cell_array(entries: list[Any]) -> npt.NDArray[np.object_]:
    cells = np.empty((len(entries), 1), dtype=object)
    for place, entry in enumerate(entries):
        cells[place, 0] = entry
    return cells


def write_ytf(path: Path, people: int = 40, videos: int = 3, frames: int = 4, pairs: int = 6) -> Embeddings:
    """`splits.txt`: in each of ten splits `pairs` of one person and as many of two, of people of its own."""
    names = [f"{person(p)}/{v}/{v}.{100 + f}.jpg" for p in range(people) for v in range(videos) for f in range(frames)]
    lines = ["split number, pair number, first name, second name, is same"]
    for split in range(10):
        here = range(split * people // 10, (split + 1) * people // 10)
        same = [(p, 0, p, v) for p in here for v in (1, 2)][:pairs]
        other = [(p, p % 3, q, q % 2) for p in here for q in here if p < q][:pairs]
        for number, (p, v, q, w) in enumerate(same + other, start=1):
            lines.append(f"{split + 1}, {number}, {person(p)}/{v}, {person(q)}/{w}, {int(p == q)}")
    path.write_text("\n".join(lines) + "\n")
    return Embeddings(names, pocket_vectors(people, videos * frames)[0].reshape(-1, DIM))


def write_ijb(folder: Path, subset: str = "ijbc", subjects: int = 24) -> Embeddings:
    """The meta files: a gallery template for each subject, in two galleries, and three probe templates.

    Embeddings hold image and mirror image side by side.
    """
    folder.mkdir(parents=True, exist_ok=True)
    images: list[tuple[str, int, int]] = []
    owner: dict[int, int] = {}
    for s in range(subjects):
        for t, size in enumerate((3, 2, 3, 4)):
            template = 1 + t * subjects + s
            owner[template] = 100 + s
            images += [(f"{len(images) + 1 + k}.jpg", template, 9000 + 10 * template + (k > 0)) for k in range(size)]
    write = _writer(folder, subset)
    write("face_tid_mid.txt", [f"{name} {template} {medium}" for name, template, medium in images])
    scores = np.random.default_rng(2).uniform(0.3, 1, len(images)).round(3)
    points = " ".join(["10.5"] * 10)
    write("name_5pts_score.txt", [f"{image[0]} {points} {score}" for image, score in zip(images, scores, strict=True)])
    gallery = [template for template in owner if template <= subjects]
    probes = [template for template in owner if template > subjects]
    write("template_pair_label.txt", [f"{g} {p} {int(owner[g] == owner[p])}" for g in gallery for p in probes])
    letter = "G" if subset == "ijbc" else "S"
    for name, chosen in (("gallery_?1", gallery[::2]), ("gallery_?2", gallery[1::2]), ("probe_mixed", probes)):
        rows = [f"{t},{owner[t]},img/{image},7" for t in chosen for image, u, _ in images if u == t]
        write(f"1N_{name.replace('?', letter)}.csv", ["TEMPLATE_ID,SUBJECT_ID,FILENAME,SIGHTING_ID", *rows])
    used = [0] * subjects
    rows = []
    plain, mirrored = pocket_vectors(subjects, 12)
    for _, template, _ in images:
        s = owner[template] - 100
        rows.append(np.concatenate([plain[s, used[s]], mirrored[s, used[s]]]))  # type: ignore[arg-type]
        used[s] += 1
    return Embeddings([image[0] for image in images], np.array(rows))


def _writer(folder: Path, subset: str) -> Callable[[str, list[str]], int]:
    return lambda name, lines: (folder / f"{subset}_{name}").write_text("\n".join(lines) + "\n")


def write_megaface(
    folder: Path, people: int = 8, each: int = 6, distractors: int = 400
) -> tuple[Embeddings, Embeddings]:
    """The two lists of the devkit and InsightFace's two lists of noise."""
    folder.mkdir(parents=True, exist_ok=True)
    probes = [f"{person(p)}/{person(p)}_{k}.png" for p in range(people) for k in range(each)]
    others = [f"{k % 7}/{k % 31}@N01/{k}_0.jpg" for k in range(distractors)]
    table = {"id": [person(p) for p in range(people) for _ in range(each)], "path": probes}
    (folder / "facescrub_features_list.json").write_text(json.dumps(table))
    (folder / f"megaface_features_list.json_{distractors}_1").write_text(json.dumps({"path": others}))
    noise = ["# names", f"{person(1)}_2.png", f"{person(3)}_0.png", "Not_Listed_9.png"]
    (folder / "facescrub_noises.txt").write_text("\n".join(noise) + "\n")
    (folder / "megaface_noises.txt").write_text(f"# paths\n{others[5]}\n17\t{others[40]}\n1/2@N09/3_0.jpg\n")
    near = pocket_vectors(people, each)[0].reshape(-1, DIM).copy()
    far = pocket_vectors(distractors, 1, first=1000)[0].reshape(-1, DIM).copy()
    far[5], far[40] = near[0] + 0.1, near[9] + 0.1
    return Embeddings(probes, near), Embeddings(others, far)


def write_market(folder: Path, people: int = 12, each: int = 6) -> Embeddings:
    """`query` and `bounding_box_test`, with junk and distractors; the files are empty, only their names count."""
    vectors = pocket_vectors(people + 2, each)[0]
    names, rows = [], []
    for p in range(people + 2):
        number = {people: "-1", people + 1: "0000"}.get(p, f"{p + 1:04d}")
        for k in range(each):
            kind = "query" if k < 2 and p < people else "bounding_box_test"
            names.append(f"{kind}/{number}_c{1 + k % 3}s1_{p * each + k:06d}_00.jpg")
            rows.append(vectors[p, k])
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return Embeddings(names, np.array(rows))
