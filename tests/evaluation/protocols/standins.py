"""Small stand-ins of pair sets in their official layouts, with pocket faces on the pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hypersphere.data import encode
from hypersphere.evaluation import Embeddings
from hypersphere.pocket import PocketFaces

FOLDS, EACH, PEOPLE, IMAGES = 10, 3, 20, 4


def person(number: int) -> str:
    return f"Person_{chr(65 + number)}"


def lfw_name(number: int, image: int) -> str:
    return f"{person(number)}/{person(number)}_{image:04d}.jpg"


def write_lfw_list(path: Path) -> Path:
    """`pairs.txt`: in every fold two people of its own, as in LFW no person is in two folds."""
    lines = [f"{FOLDS}\t{EACH}"]
    for fold in range(FOLDS):
        one, two = person(2 * fold), person(2 * fold + 1)
        lines += [f"{one}\t1\t2", f"{one}\t3\t4", f"{two}\t1\t4"]
        lines += [f"{one}\t1\t{two}\t1", f"{one}\t2\t{two}\t3", f"{two}\t2\t{one}\t4"]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_faces(root: Path, size: int = 16, quality: int | None = None) -> Path:
    """The images of the list, `Name/Name_0001.jpg`."""
    faces = PocketFaces(num_identities=PEOPLE, images_per_identity=IMAGES, size=size, difficulty=0.3)
    for label in range(PEOPLE):
        (root / person(label)).mkdir(parents=True)
        for image, index in enumerate(np.flatnonzero(faces.labels == label)[:IMAGES], start=1):
            (root / lfw_name(label, image)).write_bytes(encode(faces.read(int(index)), quality or 95))
    return root


def write_calfw_list(path: Path, folds: bool = True) -> Path:
    """`pairs_CALFW.txt`: two lines for each pair, those of one person first with their fold; flat names."""
    lines = []
    for fold in range(FOLDS):
        for one, two in ((1, 2), (3, 4)):
            name = person(2 * fold)
            lines += [f"{name}_{k:04d}.jpg {fold + 1 if folds else 1}" for k in (one, two)]
    for fold in range(FOLDS):
        for k in (1, 2):
            lines += [f"{person(2 * fold)}_{k:04d}.jpg 0", f"{person(2 * fold + 1)}_{k:04d}.jpg 0"]
    path.write_text("\n".join(lines))
    return path


def write_cfp(root: Path) -> Path:
    """CFP's `Protocol` folder: people with two frontal and two profile images, 10 splits of 2 + 2 pairs each."""
    frontal, profile = [], []
    for label in range(PEOPLE):
        frontal += [f"../Data/Images/{label + 1:03d}/frontal/{k:02d}.jpg" for k in (1, 2)]
        profile += [f"../Data/Images/{label + 1:03d}/profile/{k:02d}.jpg" for k in (1, 2)]
    for kind, images in (("F", frontal), ("P", profile)):
        path = root / "Protocol" / f"Pair_list_{kind}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{k} {image} \n" for k, image in enumerate(images, start=1)))
    for split in range(FOLDS):
        one, two = 4 * split + 1, 4 * split + 3
        for kind in ("FF", "FP"):
            folder = root / "Protocol" / "Split" / kind / f"{split + 1:02d}"
            folder.mkdir(parents=True)
            partner = 1 if kind == "FF" else 0
            (folder / "same.txt").write_text(f"{one},{one + partner}\n{two},{two + partner}\n")
            (folder / "diff.txt").write_text(f"{one},{two}\n{one + 1},{two + 1}\n")
    return root / "Protocol" / "Split"


def made_up(names: Sequence[str], noise: float = 0.8, dim: int = 6, seed: int = 0) -> Embeddings:
    """Embeddings that follow the person in the name, with noise and an offset."""
    rng = np.random.default_rng(seed)
    people = [name.partition("/")[0] if "/" in name else name.rsplit("_", 1)[0] for name in names]
    centres = {who: rng.normal(size=dim) for who in sorted(set(people))}
    values = np.stack([centres[who] for who in people]) + noise * rng.normal(size=(len(names), dim)) + 0.5
    return Embeddings(names, values, {"model": f"made up, seed {seed}"})
