"""Protocols that take long say how far they are, from the beginning to the end."""

from pathlib import Path
from typing import Any

import pytest

from hypersphere.evaluation.protocols import IjbOptions, read_blufr, read_ijb, read_megaface, read_reid, read_ytf
from tests.evaluation.protocols import official


def blufr(folder: Path, report: Any) -> int:
    embeddings = official.write_blufr(folder / "config.mat", people=40, each=4)
    read_blufr(folder / "config.mat").evaluate(embeddings, progress=report)
    return 10


def ytf(folder: Path, report: Any) -> int:
    embeddings = official.write_ytf(folder / "splits.txt")
    read_ytf(folder / "splits.txt").evaluate(embeddings, progress=report)
    return 120 + 120


def ijb(folder: Path, report: Any) -> int:
    embeddings = official.write_ijb(folder)
    read_ijb(folder).evaluate(embeddings, options=IjbOptions(search="both"), progress=report)
    return 24 * 72 + 2 * 72 + 72


def ijb_search(folder: Path, report: Any) -> int:
    embeddings = official.write_ijb(folder)
    read_ijb(folder).evaluate(embeddings, tasks=["1:N"], progress=report)
    return 2 * 72


def megaface(folder: Path, report: Any) -> int:
    near, far = official.write_megaface(folder)
    protocol = read_megaface(folder / "facescrub_features_list.json", folder / "megaface_features_list.json_400_1")
    protocol.evaluate(near, far, progress=report)
    return 400


def reid(folder: Path, report: Any) -> int:
    embeddings = official.write_market(folder)
    read_reid(folder).evaluate(embeddings, progress=report)
    return 24


@pytest.mark.parametrize("protocol", [blufr, ytf, ijb, ijb_search, megaface, reid], ids=lambda each: each.__name__)
def test_work_is_reported_to_its_end(tmp_path: Path, protocol: Any) -> None:
    steps: list[tuple[int, int]] = []
    total = protocol(tmp_path, lambda done, whole: steps.append((done, whole)))
    assert {whole for _, whole in steps} == {total}
    done = [each for each, _ in steps]
    assert done == sorted(set(done))
    assert done[-1] == total
