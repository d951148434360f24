"""The model that comes with the package: its digest, contract and thresholds, and the numbers that it gives."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.models import Threshold, ThresholdTable, load_thresholds, save_thresholds
from hypersphere.pocket import PocketFaces

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "hypersphere" / "starter"
DIGEST = "5b4ec0e3644f3b78"
FACES = [
    [-0.0811, -0.0551, 0.0679, -0.1379, 0.0995],
    [-0.0086, -0.0918, 0.0534, -0.0815, 0.1172],
    [-0.0896, -0.1217, 0.0992, -0.0701, 0.0207],
    [-0.0381, -0.0341, 0.1819, -0.0755, 0.0887],
]
PICTURE = [-0.0607, 0.0061, 0.0967, 0.0511, 0.2199, 0.1244, 0.0209, -0.0330]


def test_the_starter_is_the_one_documented() -> None:
    model = hs.load_model("starter")
    contract = model.contract
    assert (contract.digest, contract.dim, contract.input_size) == (DIGEST, 128, (112, 112))
    assert (contract.colour, contract.flip, contract.alignment) == ("rgb", "sum", "insightface-112")
    assert model.name == "starter"
    assert (FOLDER / "model.safetensors").stat().st_size <= 4_000_000
    assert "Research use only" in model.card
    page = (ROOT / "docs" / "starter.md").read_text()
    assert DIGEST in page
    assert load_thresholds("starter").digest in page


def test_the_starter_gives_the_vectors_it_gave() -> None:
    model = hs.load_model("starter")
    faces = model(PocketFaces(num_identities=2, images_per_identity=2, size=112))
    row, column = np.mgrid[:112, :112]
    picture = np.stack([2 * column, 2 * row, row * column % 256], axis=-1).astype(np.uint8)
    drawn = model(picture[None])
    for vectors, wanted in ((faces, FACES), (drawn, [PICTURE])):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(vectors)), rtol=0, atol=1e-5)
        found = vectors[:, : len(wanted[0])]
        torch.testing.assert_close(found, torch.tensor(wanted), rtol=0, atol=1e-3)


def test_the_thresholds_are_those_of_the_model_and_of_the_page() -> None:
    table = load_thresholds("starter")
    assert table.model == DIGEST
    assert (table.identities, table.images) == (2141, 3885)
    assert [row.fmr for row in table.thresholds] == pytest.approx([10.0**-k for k in range(1, 7)])
    page = (ROOT / "docs" / "starter.md").read_text()
    for row in table.thresholds:
        assert row.false_matches <= row.fmr * table.impostors
        assert row.indicative == (row.fmr * table.impostors < 30)
        assert re.search(rf"\| {row.threshold:.3f} .*\| {100 * row.fnmr:.1f} \[", page), row
    assert table.at(2e-3).fmr == 1e-3
    assert table.at(1e-6).indicative
    with pytest.raises(ValueError, match=r"fmr=1e-07 is below 1e-06, the smallest rate that 7,540,517 pairs support"):
        table.at(1e-7)


def test_a_table_comes_back_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    row = Threshold(
        fmr=0.1, threshold=0.5, false_matches=1, fmr_low=0, fmr_high=0.2, fnmr=0, fnmr_low=0, fnmr_high=0.1,
        indicative=True,
    )  # fmt: skip
    table = ThresholdTable(
        model="m", people="p", digest="d", identities=2, images=12, genuine=30, impostors=36, method="b",
        thresholds=(row,),
    )  # fmt: skip
    save_thresholds(table, tmp_path / "thresholds.json")
    assert load_thresholds(tmp_path) == table
    (tmp_path / "thresholds.json").write_text('{"model": 3}')
    with pytest.raises(ValueError, match=r"thresholds\.json: model=3"):
        load_thresholds(tmp_path)


@pytest.mark.realdata
@pytest.mark.slow
def test_the_starter_on_lfw() -> None:
    from tools.make_starter import embedded, verified_lfw

    data = Path(os.environ.get("HYPERSPHERE_DATA", "nowhere"))
    if not (data / "lfw112.tar").exists():
        pytest.skip("no LFW where HYPERSPHERE_DATA says")
    source = hs.data.open_source(data / "lfw112.tar")
    result = verified_lfw(embedded(hs.load_model("starter"), source, "LFW"), source, data / "lfw-pairs.txt")
    assert result.accuracy.value == pytest.approx(0.9858, abs=5e-4)
