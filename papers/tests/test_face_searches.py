"""Searches of people never seen: the same numbers as the protocols whose place they take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from hypersphere.evaluation import Embeddings, verify_pairs
from hypersphere.evaluation.protocols.blufr.files import Trial
from hypersphere.evaluation.protocols.blufr.protocol import Blufr
from hypersphere.evaluation.protocols.ijb.files import Media, TemplatePairs, TemplateSet
from hypersphere.evaluation.protocols.ijb.protocol import Ijb, IjbOptions
from hypersphere.evaluation.protocols.megaface.protocol import Megaface
from hypersphere.evaluation.protocols.templates import Pooling
from hypersphere.training import UnseenPairs, load_recipe
from hypersphere_papers.engine.face_searches import (
    People,
    draw_trials,
    measure_distractors,
    measure_raw_pairs,
    measure_templates,
    measure_trials,
)

PEOPLE, IMAGES = 360, 4


def drawn(seed: int, people: int = PEOPLE) -> People:
    """People with four images each, hard to tell apart; every image has its own norm."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(people, 16, generator=generator)
    labels = torch.arange(people).repeat(IMAGES)
    noise = torch.randn(len(labels), 16, generator=generator)
    lengths = 1 + torch.rand(len(labels), 1, generator=generator)
    return People((centres[labels] + 0.6 * noise) * lengths, labels.numpy())


@pytest.fixture(scope="module")
def held() -> People:
    """The people that are searched for."""
    return drawn(0)


def names(people: People) -> list[str]:
    """Of their images."""
    return [f"{label}/{row}.jpg" for row, label in enumerate(people.labels)]


def of(values: npt.NDArray[np.bool_] | npt.NDArray[np.float32]) -> float:
    """The mean."""
    return float(np.asarray(values, dtype=np.float64).mean())


def test_templates_are_judged_as_ijb_judges_them(held: People) -> None:
    found, called, here = measure_templates(held), names(held), Path("none")
    rows = np.arange(len(called))
    media = Media(here, tuple(called), 2 * held.labels + (rows // PEOPLE) % 2, rows, None)
    first = np.arange(0, 2 * PEOPLE, 2)
    left, right = (part.reshape(-1) for part in np.meshgrid(first + 1, first, indexing="ij"))
    pairs = TemplatePairs(here, left, right, left // 2 == right // 2, 0, np.empty(0, dtype=np.int64))

    def listed(templates: npt.NDArray[np.int64]) -> TemplateSet:
        return TemplateSet(here, templates, templates // 2, templates, np.empty(0, dtype=np.int64))

    protocol = Ijb(here, media, pairs, {"G1": listed(first[0::2]), "G2": listed(first[1::2])}, listed(first + 1))
    options = IjbOptions(pooling=Pooling(detector_score=False))
    metrics = protocol.evaluate(Embeddings(called, held.embeddings.numpy()), options=options).metrics
    for ours, theirs in {
        "TAR at FAR 1e-4": "tar@far=1e-4",
        "TAR at FAR 1e-3": "tar@far=1e-3",
        "rank-1": "rank-1",
        "TPIR at FPIR 1e-1": "tpir@fpir=1e-1",
    }.items():
        assert 0.05 < of(found[ours]) < 1
        assert of(found[ours]) == pytest.approx(metrics[theirs].value, abs=1e-9), ours
    assert "TPIR at FPIR 1e-2" not in found, "180 probes without a mate are too few"
    assert found["template ROC"][3] == pytest.approx(of(found["TAR at FAR 1e-3"]))


def test_a_rate_is_measured_in_both_galleries_or_not_at_all() -> None:
    """Of 59 people one gallery has 30 and leaves 29 without a mate, too few for a FPIR of 0.1; the other leaves 30."""
    assert "TPIR at FPIR 1e-1" in measure_templates(drawn(2, 60))
    assert "TPIR at FPIR 1e-1" not in measure_templates(drawn(2, 59))


def test_distractors_are_judged_as_megaface_judges_them(held: People) -> None:
    others = drawn(1, 2000)
    found = measure_distractors(held, others)
    alone = People(others.embeddings[:PEOPLE], np.arange(PEOPLE))
    protocol = Megaface(
        path=Path("probes"),
        distractor_path=Path("distractors"),
        probes=tuple(names(held)),
        people=held.labels,
        distractors=tuple(names(others)),
        noisy_probes=None,
        noisy_distractors=None,
        unlisted_noise=0,
    )
    probes, far = (Embeddings(names(each), each.embeddings.numpy()) for each in (held, others))
    metrics = protocol.evaluate(probes, far, fars=(1e-6, 1e-5), ranks=(1, 10)).metrics
    assert of(found["rank-1 among distractors"]) == pytest.approx(metrics["rank-1"].value, abs=1e-6)
    assert 0 < of(found["TAR at FAR 1e-6 among distractors"]) < of(found["rank-1 among distractors"]) < 1
    for rate in ("1e-6", "1e-5"):
        ours, theirs = found[f"TAR at FAR {rate} among distractors"], metrics[f"tar@far={rate}"]
        assert of(ours) == pytest.approx(theirs.value, abs=1e-6)
    assert found["CMC"][9] == pytest.approx(metrics["rank-10"].value, abs=1e-6)
    assert len(measure_distractors(held, alone)["rank-1 among distractors"]) == PEOPLE


def test_a_trial_is_judged_as_blufr_judges_it(held: People) -> None:
    found = measure_trials(held, 1)
    ((tested, gallery),) = draw_trials(held.labels, 1)
    rows = np.arange(len(held.labels))
    trial = Trial(np.setdiff1d(rows, tested), tested, gallery, np.setdiff1d(tested, gallery))
    protocol = Blufr(Path("config"), tuple(names(held)), held.labels, (trial, trial))
    metrics = protocol.evaluate(Embeddings(names(held), held.embeddings.numpy())).metrics
    for ours, theirs in {"VR at FAR 0.1 %": "vr@far=1e-3", "DIR at FAR 1 %": "dir@far=1e-2"}.items():
        assert 0.1 < of(found[ours]) < 1
        assert of(found[ours]) == pytest.approx(metrics[theirs].value, abs=1e-6), ours


def test_trials_enrol_one_image_of_some_people_only() -> None:
    labels = np.array([0, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6])
    for tested, gallery in draw_trials(labels):
        assert set(gallery) < set(tested)
        assert len(set(labels[gallery])) == len(gallery)
        assert all((labels == person).sum() > 1 for person in labels[gallery])
        assert set(labels[tested]) - set(labels[gallery]), "there is nobody without a mate"


def test_people_with_one_image_are_no_probes_but_are_distractors() -> None:
    people = People(torch.eye(5), np.array([3, 1, 1, 0, 3]))
    ours = people.with_mates()
    assert ours.labels.tolist() == [1, 0, 0, 1]


def test_images_of_nobody_known_are_distractors_and_never_mates(held: People) -> None:
    """Two that are alike to a bit would be the best genuine pair there is, and the best impostors."""
    strangers = drawn(3, 20).embeddings.repeat(2, 1)
    mixed = People(torch.cat([strangers, held.embeddings]), np.concatenate([np.full(len(strangers), -1), held.labels]))
    for measure in (measure_templates, measure_trials):
        plain, found = measure(held), measure(mixed)
        assert plain.keys() == found.keys()
        for name, value in plain.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    others = drawn(1, 40)
    plain, found = measure_distractors(held, others), measure_distractors(mixed, others)
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    more = People(
        torch.cat([others.embeddings, strangers]), np.concatenate([others.labels, np.full(len(strangers), -1)])
    )
    named = People(more.embeddings, np.where(more.labels < 0, 40, more.labels))
    harder = measure_distractors(held, more)
    for name, value in measure_distractors(held, named).items():
        np.testing.assert_array_equal(harder[name], value, err_msg=name)
    assert of(harder["rank-1 among distractors"]) < of(plain["rank-1 among distractors"])


def test_pairs_are_decided_by_lengths_too_where_embeddings_are_not_normalised() -> None:
    rng = np.random.default_rng(0)
    same = np.arange(200) % 2 == 0
    one = rng.normal(size=(200, 8))
    two = np.where(same[:, None], one, rng.normal(size=(200, 8))) * rng.uniform(0.1, 10, (200, 1))
    embeddings = torch.from_numpy(np.concatenate([one, two]))
    left, right = np.arange(200), np.arange(200, 400)
    source = torch.utils.data.TensorDataset(embeddings)
    pairs = UnseenPairs(load_recipe("pocket/faces"), source, left, right, same, title="lfw-pairs")  # type: ignore[arg-type]
    found = measure_raw_pairs(pairs, embeddings)
    assert set(found) == {"lfw inner", "lfw euclidean"}
    assert (found["lfw inner"] == verify_pairs((one * two).sum(1), same).right).all()
    assert (found["lfw euclidean"] == verify_pairs(-np.sqrt(((one - two) ** 2).sum(1)), same).right).all()
