"""What our crops are worth to a recogniser: pairs of a list by ready crops, and by the crops that we make of photos.

    python benchmarks/recognition.py chain PHOTOS --crops TAR --pairs FILE [--model M] [--contract C] [--others N]

Takes the pairs that have a photo of PHOTOS, and embeds that photo's ready crop, or the crop that we make of it (of
several faces that in the middle, as LFW has it). The threshold is the best of N other pairs, of ready crops.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from recognition_detection import read_photos

import hypersphere as hs
from hypersphere.evaluation import guaranteed_proportion, mcnemar
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.recognition import align_face, load_detector


def run_chain(options: argparse.Namespace) -> None:
    """Compare ready crops with ours, pair by pair."""
    model = hs.load_model(options.model, options.contract)
    photos, pairs = read_photos(options.photos), read_pairs(options.pairs)
    ours = our_crops(photos, model.contract.alignment)
    with_photo = has_photo(pairs, ours)
    others = np.random.default_rng(0).permutation(np.flatnonzero(~with_photo))[: options.others]
    pairs = pairs.some(np.isin(np.arange(len(pairs)), others) | with_photo)
    with_photo = has_photo(pairs, ours)
    ready = hs.data.NamedImages(options.crops, pairs.names)
    embedded = model(ready).numpy()
    made = dict(zip(ours, model(np.stack(list(ours.values()))).numpy(), strict=True))
    rows = {name: embedded[place] for place, name in enumerate(ready.files)}
    cosines = [float(rows[name] @ made[name]) for name in made if name in rows]
    scores = [
        np.array([table[left] @ table[right] for left, right in zip(pairs.left, pairs.right, strict=True)])
        for table in (rows, rows | made)
    ]
    threshold = best_threshold(scores[0][~with_photo], pairs.same[~with_photo])
    right = [(each[with_photo] >= threshold) == pairs.same[with_photo] for each in scores]
    print(f"{options.model}: {with_photo.sum()} pairs with {len(cosines)} of {len(photos)} photos; {threshold=:.4f}")
    for name, each in zip(("ready crops", "our crops"), right, strict=True):
        print(f"  {name:12} {guaranteed_proportion(int(each.sum()), len(each)):.2%}")
    difference = mcnemar(*right)
    print(f"  {'difference':12} {difference.estimate:.2%} (McNemar, p = {difference.p_value:.2f})")
    print(
        f"  cosine of the two crops of a photo: mean {np.mean(cosines):.3f}, 5th percentile "
        f"{np.percentile(cosines, 5):.3f}, least {min(cosines):.3f}"
    )


def has_photo(pairs: Any, photos: dict[str, Any]) -> Any:
    """Which pairs have one of the photos."""
    return np.array([left in photos or right in photos for left, right in zip(pairs.left, pairs.right, strict=True)])


def our_crops(photos: dict[str, Any], target: str) -> dict[str, Any]:
    """The aligned face in the middle of each photo."""
    detector, crops = load_detector("mtcnn"), {}
    for (name, photo), faces in zip(photos.items(), detector(list(photos.values())), strict=True):
        middle = np.array(photo.shape[1::-1]) / 2
        if faces:
            face = min(faces, key=lambda each: np.linalg.norm(each.landmarks.mean(0) - middle))
            crops[name] = align_face(photo, face.landmarks, target)
    return crops


def best_threshold(scores: Any, same: Any) -> float:
    """The score that decides most pairs rightly."""
    order = np.argsort(scores)
    right = np.cumsum(~same[order]) + same.sum() - np.cumsum(same[order])  # with everything up to here rejected
    return float(np.nextafter(scores[order][np.argmax(right)], np.inf))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the crops of the photos that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--crops", required=True)
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--model", default="starter")
    parser.add_argument("--contract")
    parser.add_argument("--others", type=int, default=1000)
    run_chain(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
