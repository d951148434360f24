"""The contract: presets, files, and what contradicts it."""

import json
from pathlib import Path

import pytest

from hypersphere.core import digest
from hypersphere.models import PRESETS, Contract, read_contract
from hypersphere.models.contract import contract_beside


def test_presets() -> None:
    insightface, sface = read_contract("insightface"), read_contract("opencv-sface")
    assert (insightface.colour, insightface.mean, insightface.std) == ("rgb", (127.5,), (127.5,))
    assert (sface.colour, sface.mean, sface.std) == ("rgb", (0.0,), (1.0,))
    others = {
        "arcface-torch": ((112, 112), "rgb", 127.5, "sum"),
        "adaface": ((112, 112), "bgr", 127.5, "sum"),
        "cvlface": ((112, 112), "rgb", 127.5, "sum"),
        "opensphere": ((112, 112), "rgb", 127.5, "mean"),
        "sphereface-pytorch": ((112, 96), "bgr", 128.0, "none"),
    }
    for name, (size, colour, std, flip) in others.items():
        found = read_contract(name)
        assert (found.input_size, found.colour, found.mean, found.std) == (size, colour, (127.5,), (std,))
        assert found.flip == flip
    assert set(PRESETS) == {"insightface", "opencv-sface", "open-model-zoo", *others}
    intel = read_contract("open-model-zoo")
    assert (intel.input_size, intel.colour, intel.inside) == ((128, 128), "bgr", ("input",))
    assert all(each.input_size == (112, 112) and each.flip == "none" for each in (insightface, sface))


def test_files_in_json_and_toml_say_the_same(tmp_path: Path) -> None:
    contract = Contract(input_size=(112, 96), colour="bgr", mean=(1.0, 2.0, 3.0), std=(4.0,), flip="concat", dim=5)
    assert contract.width == 10
    (tmp_path / "a.json").write_text(json.dumps(contract.table()))
    (tmp_path / "x.contract.toml").write_text(
        'input_size = [112, 96]\ncolour = "bgr"\nmean = [1, 2, 3]\nstd = [4]\nflip = "concat"\ndim = 5\n'
    )
    assert read_contract(tmp_path / "a.json") == contract
    assert contract_beside(tmp_path / "x.onnx") == contract
    assert contract_beside(tmp_path / "y.onnx") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"input_size": [112, 112], "color": "rgb"}', "c.json: color is unknown; did you mean 'colour'"),
        ('{"colour": "rgb"}', "c.json: input_size is missing"),
        ('{"input_size": [112, 112], "colour": "yuv"}', "colour='yuv' is unknown"),
        ('{"input_size": [112, 112], "flip": "both"}', "flip='both' is unknown"),
        ('{"input_size": [112, 112], "std": [0]}', "std=0 must be positive"),
        ('{"input_size": [112, 112], "mean": [1, 2]}', "mean has 2 numbers; rgb images need 1 or 3"),
        (
            '{"input_size": [9, 9], "points": [[1, 2], [3, 4]]}',
            "points has 2: .* needs three or more",
        ),
        (
            '{"input_size": [9, 9], "points": [[1, 2], [3, 4], [9, 5]]}',
            r"\(9, 5\) is outside of the crop of 9x9 pixels",
        ),
        ('{"input_size": [9, 9], "points": [[1, 1], [3, 3], [5, 5]]}', "points: landmarks are on a line"),
        ('{"input_size": [9, 9], "points": [[1, 1, 1], [3, 4], [5, 5]]}', "each is x and y, two numbers"),
        (
            '{"input_size": [112, 112], "points": [[1, 1], [3, 4], [5, 5]], "alignment": "insightface-112"}',
            "points are not those of alignment='insightface-112'",
        ),
        (
            '{"input_size": [9, 9], "inside": ["input"]}',
            r"scales pixels itself, but mean=\(127.5,\) and std=\(127.5,\)",
        ),
        ('{"input_size": [9, 9], "inside": ["pixels"]}', "inside='pixels' is unknown"),
        ('{"input_size": [112, 0]}', "input_size=0 must be an integer of at least 1"),
        ('{"input_size": [112,\n', "c.json, line 2: not JSON"),
        ("[]", "c.json: the contract must be a table"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_contract(tmp_path / "c.json")


def test_what_is_no_contract() -> None:
    with pytest.raises(ValueError, match=r"'insightfase' is neither a preset nor .* did you mean 'insightface'"):
        read_contract("insightfase")
    with pytest.raises(ValueError, match="nowhere.json: there is no such file"):
        read_contract("nowhere.json")


def test_provenance_is_kept_and_changes_no_contract(tmp_path: Path) -> None:
    plain = Contract(input_size=(9, 9), mean=(0.0,), std=(1.0,))
    assert "licence" not in plain.table()
    stated = Contract(
        input_size=(9, 9),
        mean=(0.0,),
        std=(1.0,),
        licence="Apache-2.0",
        data="unknown",
        source="https://example.org/net.onnx",
        inside=("input", "output"),
    )
    (tmp_path / "a.json").write_text(json.dumps(stated.table()))
    again = read_contract(tmp_path / "a.json")
    assert again.table() == stated.table()
    assert (again.licence, again.inside) == ("Apache-2.0", ("input", "output"))
    assert stated == plain
    assert digest(stated) == digest(plain), "what says nothing of embeddings leaves galleries and calibrations valid"


def test_an_alignment_target_of_points(tmp_path: Path) -> None:
    points = ((1.0, 2.0), (6.0, 2.0), (3.5, 4.0), (3.5, 7.0))
    contract = Contract(input_size=(9, 8), points=points)
    (tmp_path / "a.json").write_text(json.dumps(contract.table()))
    again = read_contract(tmp_path / "a.json")
    assert again == contract
    assert again.target is not None
    assert (again.target.points, again.target.size) == (points, (9, 8))
    assert digest(contract) != digest(Contract(input_size=(9, 8)))
    assert Contract(input_size=(9, 8), alignment="pocket").target is None
