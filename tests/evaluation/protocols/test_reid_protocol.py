from pathlib import Path

import pytest

from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.protocols import read_reid, reid_among
from tests.evaluation.protocols.loops import unit
from tests.evaluation.protocols.official import write_market

Standin = tuple[Path, Embeddings]


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    folder = tmp_path_factory.mktemp("market")
    return folder, write_market(folder)


def estimates(embeddings: Embeddings, area: str) -> tuple[float, dict[int, float]]:
    """Query by query, entry by entry."""
    parsed = []
    for name, row in zip(embeddings.names, embeddings.values, strict=True):
        split, file = name.split("/")
        parsed.append((split, int(file.split("_")[0]), int(file.split("_c")[1][0]), unit(row)))
    gallery = [entry[1:] for entry in parsed if entry[0] == "bounding_box_test"]
    precisions, firsts = [], []
    for split, person, camera, vector in parsed:
        if split != "query":
            continue
        left = [entry for entry in gallery if entry[0] != -1 and (entry[0] != person or entry[1] != camera)]
        ordered = sorted(left, key=lambda entry, vector=vector: -float(vector @ entry[2]))  # type: ignore[misc]
        hits, total, first, before = 0, 0.0, 0, 1.0
        for place, entry in enumerate(ordered, start=1):
            if entry[0] == person:
                hits += 1
                first = first or place
                precision = hits / place
                total += precision if area == "step" else (before + precision) / 2
            before = hits / place
        precisions.append(total / hits)
        firsts.append(first)
    ranks = {rank: sum(place <= rank for place in firsts) / len(firsts) for rank in (1, 5, 10)}
    return sum(precisions) / len(precisions), ranks


@pytest.mark.parametrize("area", ["step", "trapezoid"])
def test_estimates_are_those_of_plain_loops(standin: Standin, area: str) -> None:
    folder, embeddings = standin
    result = read_reid(folder).evaluate(embeddings, area=area)
    mean, ranks = estimates(embeddings, area)
    assert result.metrics["map"].value == pytest.approx(mean, abs=1e-12)
    assert 0.1 < mean < 0.95
    for rank, value in ranks.items():
        assert result.metrics[f"rank-{rank}"].value == value
    assert result.cmc["queries"][[0, 4, 9]].tolist() == list(ranks.values())
    assert result.counts == {
        "queries": 24,
        "queries_without_mate": 0,
        "gallery": 60,
        "junk": 6,
        "distractors": 6,
        "missing_images": 0,
        "unreadable_images": 0,
    }


def test_names_alone_are_enough(standin: Standin) -> None:
    folder, embeddings = standin
    among = reid_among(sorted(embeddings.names), folder)
    assert set(among.names) == set(read_reid(folder).names)
    assert among.evaluate(embeddings).metrics == read_reid(folder).evaluate(embeddings).metrics


def test_missing_images_are_refused_or_counted(standin: Standin) -> None:
    folder, embeddings = standin
    kept = [k for k, name in enumerate(embeddings.names) if not name.startswith("query/0003")]
    fewer = Embeddings([embeddings.names[k] for k in kept], embeddings.values[kept])
    with pytest.raises(ValueError, match="'query/0003_c1.* has no embedding, and 2 of 84 images have none"):
        read_reid(folder).evaluate(fewer)
    assert read_reid(folder).evaluate(fewer, allow_missing=True).counts["missing_images"] == 2
    queries = [k for k, name in enumerate(embeddings.names) if name.startswith("query/")]
    only = Embeddings([embeddings.names[k] for k in queries], embeddings.values[queries])
    with pytest.raises(ValueError, match="no gallery image has an embedding"):
        read_reid(folder).evaluate(only, allow_missing=True)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["query/0001_c1s1_000001_00.jpg"], "no images in bounding_box_test"),
        (["query/-1_c1s1_000001_00.jpg", "bounding_box_test/0001_c1s1_000001_00.jpg"], "cannot be a query"),
        (["query/0000_c1s1_000001_00.jpg", "bounding_box_test/0001_c1s1_000001_00.jpg"], "cannot be a query"),
        (["query/0001_c1s1_000001_00.jpg", "bounding_box_test/ada.jpg"], "'ada.jpg' is not named like"),
    ],
)
def test_wrong_names_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reid_among(names)


def test_a_folder_without_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="query is missing; expected the folders query and bounding_box_test"):
        read_reid(tmp_path)
