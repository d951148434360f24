"""What to try when pairs are decided hardly better than by chance: most often the contract is not the model's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter
from hypersphere.data import NamedImages
from hypersphere.evaluation.protocols.pairs.pair_list import PairList
from hypersphere.models import PRESETS, Contract, Embedder
from hypersphere.models.align import ALIGNMENT_TARGETS

_NEAR = 0.1
"""So little above the larger class of pairs is near chance; another contract must gain as much to be named."""
_GOOD = 0.7
_PAIRS = 100
_FEW = 50
_SCALES = (((127.5,), (127.5,)), ((0.0,), (1.0,)), ((0.0,), (255.0,)))


def is_near_chance(accuracy: float, pairs: PairList) -> bool:
    """Whether the share of pairs decided rightly is hardly above that of the more frequent kind; of a few, none is."""
    same = float(pairs.same.mean())
    return len(pairs) >= _FEW and accuracy < max(same, 1 - same) + _NEAR


def fitting_contract(
    model: Embedder, images: NamedImages, pairs: PairList, *, resize: bool, progress: Reporter | None = None
) -> tuple[str, float, float]:
    """Try the presets, orders of colours, scales and alignments on at most 200 images.

    Args:
        model: with the contract in use.
        images: of the pairs.
        pairs: of which some are tried.
        resize: resize images to the model's size instead of refusing them.
        progress: called as `progress(done, total)`.

    Returns:
        what fits, in the words of a contract, or nothing; the best share of pairs by it, and by the one in use.
    """
    left, right, same = _some(pairs, images)
    few = NamedImages(images.path, [*left, *right])
    tried = list(_variants(model))
    shares = []
    for done, (_, variant) in enumerate(tried, start=1):
        try:
            unit = variant(few, resize=resize).numpy()
        except ValueError:  # images of another size than an alignment has
            shares.append(0.0)
        else:
            scores = (unit[few.find(left)] * unit[few.find(right)]).sum(1)
            shares.append(max(float(((scores >= limit) == same).mean()) for limit in scores))
        if progress is not None:
            progress(done, len(tried))
    best = int(np.argmax(shares))
    if shares[best] < max(shares[0] + _NEAR, _GOOD):
        return "", shares[best], shares[0]
    return tried[best][0], shares[best], shares[0]


def _some(pairs: PairList, images: NamedImages) -> tuple[list[str], list[str], npt.NDArray[np.bool_]]:
    """Pairs whose images are there, half of them of one person."""
    there = (images.find(pairs.left) >= 0) & (images.find(pairs.right) >= 0)
    order = np.random.default_rng(0).permutation(len(pairs.same))
    kinds = [order[(there & (pairs.same == kind))[order]][: _PAIRS // 2] for kind in (True, False)]
    places = np.concatenate(kinds).tolist()
    return [pairs.left[k] for k in places], [pairs.right[k] for k in places], np.asarray(pairs.same)[places]


def _variants(model: Embedder) -> Iterator[tuple[str, Embedder]]:
    """The model with its own contract, and with every other one that its network can take."""
    own = model.contract
    yield "", model
    seen = [(own.colour, own.mean, own.std)]
    for name, contract in _contracts(own):
        key = contract.colour, contract.mean, contract.std
        if key not in seen:
            seen.append(key)
            colour, mean, std = key
            yield name, replace(model, contract=replace(own, colour=colour, mean=mean, std=std, inside=()))
    if own.target is not None:
        for crops, target in ALIGNMENT_TARGETS.items():
            if target != own.target:
                yield f"crops of {crops}, warped to those of the model", replace(model, crops=crops)


def _contracts(own: Contract) -> Iterator[tuple[str, Contract]]:
    """By what to write: presets first, then every order of colours with every scale."""
    for name, preset in PRESETS.items():
        if preset.input_size == own.input_size and preset.channels == own.channels:
            yield name, preset
    for colour in ("rgb", "bgr") if own.channels == 3 else ("grey",):
        for mean, std in _SCALES:
            words = f'colour = "{colour}", mean = {list(mean)}, std = {list(std)}'
            yield words, replace(own, colour=colour, mean=mean, std=std, inside=())
