"""Make the starter model of the package from the run that trained it: docs/starter.md has the commands.

The weights are rounded to half precision; that file is then measured on LFW and on the people that training held out.
Two kinds of photos give a calibration each: portraits of adults (`calibration.json`, `thresholds.json`) are those of
every second person of LFW, checked on the others; family albums (`albums.calibration.json`) those of the people held
out who come from Families in the Wild. Without a run the weights stay as they are, and the rest is made anew.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import torch

import hypersphere as hs
from hypersphere.core import Progress
from hypersphere.data import ImageSource, Subset, image_names, images_digest, names_of, open_source
from hypersphere.data.named import NameIndex
from hypersphere.evaluation import Verification, verify_pairs
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.models import CARD_FILE, THRESHOLDS_FILE, ModelCard, ThresholdTable, save_folder, save_thresholds
from hypersphere.pocket import verification_pairs
from hypersphere.recognition import SHIPPED, Calibration, CalibrationSet, calibrate, save_calibration
from hypersphere.training.recipe import Recipe, load_recipe
from hypersphere.training.training_data import held_out_source

ROOT = Path(__file__).parents[1]
FAMILIES = "fiw-"
"""How the names of people from Families in the Wild begin."""
OUT = ROOT / "src" / "hypersphere" / "starter"
ABOUT = (
    'The starter model of hypersphere, `hs.load_model("starter")`: a MobileFaceNet of 1.85 million weights that gives '
    "128 numbers for a face aligned to 112 x 112. It is small and quick to try, and far from the best there is."
)
DATA = (
    "31,233 aligned faces of 5,241 people, a research collection of samples of Families in the Wild, PubFig and CelebA "
    "(each for research only); people who occur in LFW were removed by name and by similarity. Labels were not used: "
    "the network imitates the embeddings of SFace (OpenCV Zoo, Apache-2.0). 500 more people with 2,760 images were "
    "held out."
)
LICENCE = (
    "**Research use only.** The code of hypersphere is MIT, but these weights were derived from images that were given "
    "for research alone, and they inherit that. The teacher is SFace as distributed in OpenCV Zoo, under Apache-2.0. "
    "For anything else train a model on images whose terms allow it."
)
NOT_FOR = (
    "Deciding anything about a person: access, identity checks, policing, surveillance, hiring, tracking people "
    "without their consent. It was made to try the library, to teach and to compare with."
)
LIMITS = (
    "It confuses babies and small children with each other, and people with sunglasses: of the seven highest false "
    "matches among the people held out that were looked at, five show small children and one sunglasses.",
    "No table of error rates by groups of people: no attributes (age, sex, skin) were at hand, and none were guessed. "
    "Expect them to differ between groups.",
    "No liveness: a photograph of a photograph passes.",
    "Faces must be aligned by five points to InsightFace's 112 x 112 target; crops of another kind score lower.",
    "Training and calibration show mostly public figures and families in posed photographs. Other cameras, ages and "
    "poses shift the similarities: set thresholds on images like your own.",
    "Thresholds belong to a kind of photos: those of portraits (adults, in the press) accept far too many pairs of "
    "children and relatives, for whom those of family albums are. Labels have mistakes. Pairs share people: read the "
    "intervals, not the counts.",
    "It imitates another model, mistakes included.",
)


def held_out(recipe: Recipe, faces: str) -> Subset:
    """The images of the people whom training did not see."""
    source = held_out_source(dataclasses.replace(recipe.data, source=faces))
    assert isinstance(source, Subset)
    return source


def embedded(model: hs.Embedder, source: ImageSource, title: str) -> torch.Tensor:
    """Unit vectors of all images."""
    with Progress(f"embedding {title}", "images") as progress:
        return model(source, batch_size=8, progress=progress)  # the quickest on a CPU


def verified_lfw(unit: torch.Tensor, source: ImageSource, pairs: Path) -> Verification:
    """Ten-fold accuracy on LFW's pairs with an interval over people."""
    listed = read_pairs(pairs)
    index = NameIndex(image_names(source))
    left, right = (torch.from_numpy(index.find(side)) for side in (listed.left, listed.right))
    scores = (unit[left] * unit[right]).sum(1).numpy()
    assert listed.subjects is not None
    everyone = np.unique(np.concatenate(listed.subjects), return_inverse=True)[1]
    subjects = everyone[: len(left)], everyone[len(left) :]
    return verify_pairs(scores, listed.same, listed.folds, subjects=subjects)


def verified_held_out(unit: torch.Tensor, source: Subset, recipe: Recipe) -> Verification:
    """Ten-fold accuracy on the pairs that training was scored on."""
    left, right, same = verification_pairs(source, recipe.data.validation.count, seed=recipe.data.seed)
    scores = (unit[torch.from_numpy(left)] * unit[torch.from_numpy(right)]).sum(1).numpy()
    return verify_pairs(scores, same, 10, subjects=(source.labels[left], source.labels[right]))


def rates_at(unit: torch.Tensor, labels: np.ndarray, thresholds: list[float]) -> list[tuple[float, float]]:
    """The false-match and the false-non-match rate of all pairs of some people at each threshold."""
    person = torch.from_numpy(np.asarray(labels))
    accepted, totals = np.zeros((2, len(thresholds)), np.int64), np.zeros(2, np.int64)
    for start in range(0, len(unit), 256):
        cosines = unit[start : start + 256] @ unit.T
        later = torch.arange(start, min(start + 256, len(unit)))[:, None] < torch.arange(len(unit))
        same = person[start : start + 256, None] == person
        for kind, chosen in enumerate((later & ~same, later & same)):
            totals[kind] += int(chosen.sum())
            accepted[kind] += [int((cosines[chosen] >= threshold).sum()) for threshold in thresholds]
    false, true = accepted / totals[:, None]
    return [(float(fmr), 1 - float(tar)) for fmr, tar in zip(false, true, strict=True)]


def write_weights(run: Path, out: Path) -> None:
    """The folder of the model, in half precision, of what a run trained."""
    trained = hs.load_model(run)
    contract = dataclasses.replace(trained.contract, flip="sum", alignment="insightface-112", digest="")
    network = trained.network
    assert isinstance(network, torch.nn.Module)
    save_folder(out, network, contract, trained.backbone, "", half=True, replace=True)


def people_of(source: ImageSource, chosen: np.ndarray) -> Subset:
    """The images of some of the people, by truths for the images."""
    return Subset(source, np.flatnonzero(chosen))


def calibrated(model: hs.Embedder, unit: torch.Tensor, source: ImageSource, people: str, apart: str) -> Calibration:
    """The calibration on a set of people.

    Args:
        model: which is calibrated.
        unit: embeddings of the set.
        source: the set.
        people: whose images they are, in words.
        apart: which people they are not, in words.
    """
    about = CalibrationSet(
        people=people, digest=images_digest(source), images=len(source), disjoint_from=("the people trained on", apart)
    )
    with Progress("searching galleries", "galleries") as progress:
        return calibrate(unit.numpy(), source.labels, model.contract, about, progress=progress)


def threshold_results(kind: str, table: ThresholdTable, others: list[tuple[float, float]]) -> dict[str, str]:
    """The card's rows of the thresholds, with both error rates of other people at each."""
    rows = {}
    for row, (fmr, fnmr) in zip(table.thresholds, others, strict=True):
        note = " (indicative: fewer than 30 false matches)" if row.indicative else ""
        rows[f"{kind}, false-match rate {row.fmr:.0e}{note}"] = (
            f"threshold {row.threshold:.3f}; false-match rate [{row.fmr_low:.1e}, {row.fmr_high:.1e}] over people; "
            f"false-non-match rate {row.fnmr:.1%} [{row.fnmr_low:.1%}, {row.fnmr_high:.1%}]; "
            f"the other half of LFW's people: {fmr:.1e} and {fnmr:.1%}"
        )
    return rows


def calibrations_of(
    model: hs.Embedder,
    held_out: tuple[torch.Tensor, ImageSource],
    lfw: tuple[torch.Tensor, ImageSource],
) -> dict[str, Calibration]:
    """The calibrations that come with the model, by the kind of photos: embeddings and images of those they rest on.

    Args:
        model: which is calibrated.
        held_out: of the people whom training did not see.
        lfw: of LFW's people, of whom every second calibrates.
    """
    unit, source = held_out
    folders = names_of(source)
    from_albums = np.array([folders[label].startswith(FAMILIES) for label in source.labels.tolist()])
    albums = people_of(source, from_albums)
    press_unit, press = lfw
    half = press.labels % 2 == 0
    portraits = people_of(press, half)
    count, relatives = len(np.unique(portraits.labels)), len(np.unique(albums.labels))
    return {
        "portraits": calibrated(
            model,
            press_unit[torch.from_numpy(half)],
            portraits,
            f"portraits of adults: {count:,} people of LFW, every second by name",
            "the other people of LFW",
        ),
        "albums": calibrated(
            model,
            unit[torch.from_numpy(from_albums)],
            albums,
            f"family albums: {relatives:,} people held out of Families in the Wild, with children and relatives",
            "the people of LFW",
        ),
    }


def make(run: Path | None, faces: str, lfw: Path, pairs: Path, out: Path = OUT) -> None:
    """Write the folder of the starter and print what was measured."""
    if run is not None:
        write_weights(run, out)
    recipe = load_recipe("real/starter" if run is None else run / "recipe.toml")
    model = hs.load_model(out)
    source = held_out(recipe, faces)
    unit = embedded(model, source, "people held out")
    own = verified_held_out(unit, source, recipe)
    press = open_source(lfw)
    press_unit = embedded(model, press, "LFW")
    lfw_result = verified_lfw(press_unit, press, pairs)
    calibrations = calibrations_of(model, (unit, source), (press_unit, press))
    rest = press.labels % 2 == 1
    results = {
        f"LFW, {len(read_pairs(pairs).same):,} pairs, ten folds": f"{lfw_result.accuracy:.2%}",
        f"{source.num_classes:,} people held out, {recipe.data.validation.count:,} pairs, ten folds": (
            f"{own.accuracy:.2%}"
        ),
        f"{source.num_classes:,} people held out, equal error rate": f"{own.roc.eer():.2%}",
    }
    for kind, calibration in calibrations.items():
        table = calibration.table
        on_others = rates_at(press_unit[rest], press.labels[rest], [row.threshold for row in table.thresholds])
        results |= threshold_results(kind, table, on_others)
        save_calibration(calibration, out / SHIPPED[kind])
    save_thresholds(calibrations["portraits"].table, out / THRESHOLDS_FILE)
    card = ModelCard(
        title="hypersphere starter",
        about=ABOUT,
        recipe=(ROOT / "recipes" / "real" / "starter.toml").read_text(),
        data=DATA,
        results=results,
        licence=LICENCE,
        not_for=NOT_FOR,
        limits=LIMITS,
    )
    (out / CARD_FILE).write_text(card.text())
    size = (out / "model.safetensors").stat().st_size
    print(json.dumps({"digest": model.contract.digest, "bytes": size, "results": results}, indent=1))


def main(arguments: list[str]) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "run", type=Path, nargs="?", help="the folder of `hypersphere train real/starter` (the weights of OUT stay)"
    )
    parser.add_argument("--faces", required=True, help="the images that it was trained on")
    parser.add_argument("--lfw", type=Path, required=True, help="LFW's aligned images")
    parser.add_argument("--pairs", type=Path, required=True, help="LFW's pairs.txt")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder of the starter (that of the package)")
    options = parser.parse_args(arguments)
    make(options.run, options.faces, options.lfw, options.pairs, options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
