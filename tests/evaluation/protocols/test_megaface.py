import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.evaluation import Embeddings, NotMeasurable
from hypersphere.evaluation.protocols.megaface import search as megaface_search
from hypersphere.evaluation.protocols.megaface.protocol import Megaface, read_megaface
from tests.evaluation.protocols.loops import accepted_at, unit
from tests.evaluation.protocols.official import write_megaface

Standin = tuple[Path, Embeddings, Embeddings]
FARS = [1e-2, 1e-3]


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    folder = tmp_path_factory.mktemp("megaface")
    return folder, *write_megaface(folder)


def read(folder: Path, noise: bool = True) -> Megaface:
    return read_megaface(
        folder / "facescrub_features_list.json",
        folder / "megaface_features_list.json_400_1",
        probe_noise=folder / "facescrub_noises.txt" if noise else None,
        distractor_noise=folder / "megaface_noises.txt" if noise else None,
    )


def estimates(standin: Standin, cleaning: str, limit: int = 400) -> tuple[dict[int, float], dict[float, float]]:
    """Probe by probe, mate by mate, distractor by distractor."""
    folder, near, far = standin
    table = json.loads((folder / "facescrub_features_list.json").read_text())
    bad = set((folder / "facescrub_noises.txt").read_text().split()) if cleaning != "none" else set()
    worse = set((folder / "megaface_noises.txt").read_text().split()) if cleaning != "none" else set()
    probes: list[tuple[str, np.ndarray]] = []
    for person, path in zip(table["id"], table["path"], strict=True):
        vector = unit(near.of([path])[0])
        if path.split("/")[1] in bad:
            if cleaning == "remove":
                continue
            clean = [p for p, i in zip(table["path"], table["id"], strict=True) if i == person]
            clean = [p for p in clean if p.split("/")[1] not in bad]
            vector = unit(sum(unit(near.of([p])[0]) for p in clean))  # type: ignore[arg-type]
        probes.append((person, vector))
    others = [
        unit(row) if name not in worse else None
        for name, row in zip(far.names[:limit], far.values[:limit], strict=True)
    ]
    if cleaning == "remove":
        others = [row for row in others if row is not None]
    places, genuine, impostors = [], [], []
    for i, (person, probe) in enumerate(probes):
        scores = [-2.0 if row is None else float(probe @ row) for row in others]
        impostors += scores
        for j, (other, mate) in enumerate(probes):
            if i != j and person == other:
                genuine.append(float(probe @ mate))
                places.append(1 + sum(score >= genuine[-1] for score in scores))
    ranks = {rank: sum(place <= rank for place in places) / len(places) for rank in (1, 5, 10)}
    return ranks, {rate: float(accepted_at(genuine, impostors, rate)) for rate in FARS}


@pytest.mark.parametrize("cleaning", ["none", "remove", "centre"])
@pytest.mark.parametrize("block", [1 << 16, 70])
def test_estimates_are_those_of_plain_loops(
    standin: Standin, cleaning: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(megaface_search, "_BLOCK", block)
    monkeypatch.setattr(megaface_search, "_DRAWN", 1)
    folder, near, far = standin
    result = read(folder).evaluate(near, far, cleaning=cleaning, fars=FARS)
    ranks, tars = estimates(standin, cleaning)
    for rank, value in ranks.items():
        estimate = result.metrics[f"rank-{rank}"]
        assert estimate.value == value
        assert estimate.low <= value <= estimate.high
    assert result.cmc["FaceScrub among distractors"][[0, 4, 9]].tolist() == list(ranks.values())
    for name, value in zip(("1e-2", "1e-3"), tars.values(), strict=True):
        assert result.metrics[f"tar@far={name}"].value == value
    assert 0.02 < ranks[1] < 0.9
    assert 0.02 < tars[1e-2] < 0.9


def test_counts_say_what_was_left_out(standin: Standin) -> None:
    folder, near, far = standin
    counts = {name: read(folder).evaluate(near, far, cleaning=name).counts for name in ("none", "remove", "centre")}
    assert [counts[name]["probes_left_out"] for name in counts] == [0, 2, 0]
    assert [counts[name]["distractors"] for name in counts] == [400, 398, 400]
    assert [counts[name]["distractors_left_out"] for name in counts] == [0, 2, 2]
    assert counts["none"]["noise_entries_not_listed"] == 2


def test_one_set_of_embeddings_and_fewer_distractors(standin: Standin) -> None:
    folder, near, far = standin
    both = Embeddings([*near.names, *far.names], np.concatenate([near.values, far.values]))
    result = read(folder, noise=False).evaluate(both, limit=100)
    assert result.counts["distractors"] == 100
    assert result.metrics["tar@far=1e-6"] == NotMeasurable(4800, 3_000_000)
    ranks, _ = estimates(standin, "none", 100)
    assert result.metrics["rank-1"].value == ranks[1]
    with pytest.raises(ValueError, match="limit=401 is above the number of distractors, 400"):
        read(folder).evaluate(both, limit=401)


def test_the_worst_pairs_are_shown(standin: Standin) -> None:
    folder, near, far = standin
    worst = read(folder).evaluate(near, far).worst
    assert {(pair.left, pair.right) for pair in worst["false matches"][:2]} == {
        (near.names[0], far.names[5]),
        (near.names[9], far.names[40]),
    }
    scores = [pair.score for pair in worst["false non-matches"]]
    assert scores == sorted(scores)
    assert worst["false non-matches"][0].left.split("/")[0] == worst["false non-matches"][0].right.split("/")[0]


def test_missing_images_are_refused_or_counted(standin: Standin) -> None:
    folder, near, far = standin
    fewer = Embeddings(near.names[5:], near.values[5:])
    with pytest.raises(ValueError, match=r"scrub_features_list.json, path\[0\]: .* 5 of 48 images have none"):
        read(folder).evaluate(fewer, far)
    with pytest.raises(ValueError, match=r"features_list.json_400_1, path\[0\]: '0/0@N01/0_0.jpg' has no.* 1 of 400"):
        read(folder).evaluate(near, Embeddings(far.names[1:], far.values[1:]))
    assert [read(folder).place(k).rpartition("/")[2] for k in (47, 48)] == [
        "facescrub_features_list.json, path[47]",
        "megaface_features_list.json_400_1, path[0]",
    ]
    counts = read(folder).evaluate(fewer, far, allow_missing=True).counts
    assert (counts["missing_images"], counts["probes_left_out"], counts["people"]) == (5, 6, 7)


def test_wrong_arguments_are_refused(standin: Standin) -> None:
    folder, near, far = standin
    protocol = read(folder, noise=False)
    with pytest.raises(ValueError, match="cleaning='remove' needs both noise lists"):
        protocol.evaluate(near, far, cleaning="remove")
    with pytest.raises(ValueError, match=r"ranks=\[0\] must lie between 1 and 100"):
        protocol.evaluate(near, far, ranks=[0])
    with pytest.raises(ValueError, match="distractors have dimension 5; the probes' is 24"):
        protocol.evaluate(near, Embeddings(far.names, far.values[:, :5]))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"path": ["a/1.png", "a/2.png"]}, "'id' must be a list of 2 people"),
        ({"id": ["a"], "path": ["a/1.png", "a/2.png"]}, "'id' must be a list of 2 people"),
        (
            {"id": ["a", "b", "a"], "path": ["a/1.png", "b/2.png", "a/3.png"]},
            r"path\[1\], 'b/2.png', has no other image",
        ),
        ({"id": ["a", "a"], "path": ["a/1.png", "a/1.png"]}, r"path\[1\], 'a/1.png', is path\[0\] already"),
        ({"id": []}, "'path' must be a list of image names"),
        ({"id": ["a"], "path": [1]}, "'path' must be a list of image names"),
    ],
)
def test_wrong_lists_are_refused(standin: Standin, tmp_path: Path, table: dict[str, Any], message: str) -> None:
    (tmp_path / "probes.json").write_text(json.dumps(table))
    with pytest.raises(ValueError, match=message):
        read_megaface(tmp_path / "probes.json", standin[0] / "megaface_features_list.json_400_1")
