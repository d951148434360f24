"""Named models: what the catalogue says, what a licence allows, and which model is taken where none is named."""

import dataclasses
import hashlib
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from hypersphere.models import (
    check_conformance,
    choose_model,
    configured_use,
    find_entry,
    golden_of,
    load_model,
    model_device,
    named_models,
)
from hypersphere.models.catalogue import CATALOGUE_FOLDER, read_catalogue
from hypersphere.models.contract import Contract
from hypersphere.recognition import load_calibration
from tests.models.networks import linear_onnx

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text()
FILES = ROOT.parent / "shared" / "data" / "models"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYPERSPHERE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def own_model(folder: Path, **changes: object) -> str:
    """A table of `models.toml` about a small network beside it."""
    linear_onnx(folder / "net.onnx")
    stated = {
        "kind": "recognizer",
        "about": "a matrix",
        "licence": "CC0",
        "use": "any",
        "data": "random numbers",
        "source": "these tests",
        "path": "net.onnx",
        **changes,
    }
    lines = [f'{key} = "{value}"' for key, value in stated.items()]
    return "\n".join(["[own]", *lines, "[own.contract]", "input_size = [8, 8]", "mean = [0]", "std = [1]", ""])


def test_what_the_package_knows() -> None:
    entries = named_models()
    assert list(entries) == ["intel-0095", "sface", "starter", "yunet", "mtcnn"]
    assert {name for name, entry in entries.items() if entry.use == "any"} == {"intel-0095", "sface", "yunet", "mtcnn"}
    assert all(file.url.startswith("https://") for entry in entries.values() for file in entry.files)
    intel = entries["intel-0095"]
    assert intel.contract is not None
    assert intel.contract.digest == intel.files[1].sha256[:16], "the digest of a contract is that of the weights"
    stated = intel.stated_contract()
    assert stated is not None
    assert (stated.licence, stated.source) == ("Apache-2.0", intel.source)
    assert "Apache-2.0" in intel.card()
    assert 'load_model("intel-0095")' in intel.card()


def test_the_page_has_the_numbers_of_the_catalogue() -> None:
    rows = {
        line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in PAGE.splitlines() if line.startswith("| ")
    }
    entries = named_models()
    for place, name in enumerate(("intel-0095", "sface", "starter")):
        measured = entries[name].measured
        assert rows["LFW, 6,000 pairs"][place].strip("| ") == "{:.2f} % [{:.2f}, {:.2f}]".format(*measured.lfw)
        named = ("FNMR at FMR 1e-3, 500 people held out", "at 1e-4", "at 1e-5")
        for title, (fmr, *rates) in zip(named, measured.fnmr, strict=True):
            assert f"{fmr:.0e}".replace("e-0", "e-") in title
            assert rows[title][place].strip("| ") == "{:.1f} % [{:.1f}, {:.1f}]".format(*rates)
        speed = rows["processor time for an image, one thread"][place].strip("| ")
        assert speed == f"{measured.milliseconds:.1f} ms"
        assert rows["licence of the weights"][place].strip("| *").split(":")[0] == entries[name].licence.split(":")[0]


@pytest.mark.parametrize("name", ["intel-0095", "sface"])
def test_calibrations_of_the_package_are_of_its_contracts(name: str) -> None:
    calibration = load_calibration(name)
    contract = named_models()[name].contract
    assert contract is not None
    calibration.check_contract(contract)
    assert (calibration.table.impostors, calibration.table.genuine) == (642_411, 3000)
    golden = golden_of(name)
    assert golden is not None
    assert (golden.unit.shape, len(golden.landmarks)) == ((6, contract.dim), 6)
    np.testing.assert_allclose(np.linalg.norm(golden.unit, axis=1), 1, atol=1e-4)


@pytest.mark.realdata
@pytest.mark.skipif(not FILES.is_dir(), reason="no ../shared/data/models")
@pytest.mark.parametrize("name", ["intel-0095", "sface"])
def test_the_publishers_files_by_hand(own_home: Path, name: str) -> None:
    entry = named_models()[name]
    entry.folder.mkdir(parents=True)
    for file in entry.files:
        shutil.copy(FILES / file.name, entry.folder)
    model = load_model(name)
    golden = golden_of(name)
    assert golden is not None
    assert check_conformance(model, golden).passed
    assert choose_model("any").name == name
    swapped = dataclasses.replace(model.contract, colour="bgr" if model.contract.colour == "rgb" else "rgb")
    assert check_conformance(dataclasses.replace(model, contract=swapped), golden).mistake == "colour"


def test_names_give_way_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_entry("sface") is not None
    assert find_entry("./sface") is None
    (tmp_path / "sface").mkdir()
    assert find_entry("sface") is None
    assert model_device("intel-0095", None) == "cpu", "its files are computed on the CPU, as any of OpenVINO's"


def test_a_model_of_the_users_own(own_home: Path) -> None:
    (own_home / "models.toml").write_text(own_model(own_home))
    model = load_model("own")
    assert (model.name, model.contract.licence, model.contract.dim) == ("own", "CC0", 4)
    assert "random numbers" in model.card
    with pytest.raises(ValueError, match="own carries its own contract"):
        load_model("own", "insightface")
    (own_home / "net.onnx").unlink()
    with pytest.raises(ValueError, match=r"own: .*net\.onnx is missing"):
        load_model("own")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "recognizer"', 'kind = "robot"', "models.toml: own: kind='robot' is unknown"),
        ('use = "any"', 'use = "fun"', "own: use='fun' is unknown"),
        ("licence", "license", "own: license is unknown; did you mean 'licence'"),
        ('about = "a matrix"', "", "own: about is missing"),
        ("input_size", "inputsize", "own: contract: inputsize is unknown"),
        ("[own]", "[own]\nfiles = [1]", "own.files must be a list of tables"),
        (
            "[own]",
            '[own]\nfiles = [{name = "../a", url = "https://a", sha256 = "0", bytes = 1}]',
            "name='../a' must be",
        ),
        ("[own]", '[own]\nfiles = [{name = "a", url = "file:///a", sha256 = "0", bytes = 1}]', "must begin with https"),
        ("[own]", '[own]\nfiles = [{name = "a", url = "https://a", sha256 = "0", bytes = 1}]', "64 hexadecimal digits"),
    ],
)
def test_bad_tables_are_named(own_home: Path, old: str, new: str, message: str) -> None:
    (own_home / "models.toml").write_text(own_model(own_home).replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        named_models()


def test_models_of_other_packages(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = own_model(own_home).replace("[own", "[theirs") + own_model(own_home).replace("[own", "[sface")
    (own_home / "theirs.toml").write_text(text)
    points = [
        EntryPoint("broken", "tests.nowhere:models", "hypersphere.models"),
        EntryPoint("theirs", "tests.models.test_models_catalogue:their_file", "hypersphere.models"),
    ]
    monkeypatch.setattr("hypersphere.models.catalogue.entry_points", lambda group: points)
    with pytest.warns(RuntimeWarning, match="the models of tests.nowhere:models cannot be listed"):
        entries = named_models()
    assert entries["theirs"].licence == "CC0"
    assert entries["sface"].licence == "Apache-2.0", "a package gives no other meaning to a name of ours"


def their_file() -> Path:
    from hypersphere.models import home

    return home() / "theirs.toml"


def test_the_use_that_a_licence_allows(own_home: Path) -> None:
    starter = named_models()["starter"]
    starter.check_use("research")
    with pytest.raises(ValueError, match=r"starter is not for any use: research use only.* intel-0095 or sface"):
        starter.check_use("any")
    assert choose_model().name == "starter", "nothing else is at hand, and nothing is fetched"
    assert choose_model("research").name == "starter"
    with pytest.raises(ValueError, match=r"no model at hand may be put to any use: `hypersphere models intel-0095"):
        choose_model("any")
    (own_home / "models.toml").write_text(own_model(own_home))
    assert choose_model().name == "own", "one for any use comes first"
    assert choose_model("any").name == "own"
    assert choose_model("research").name == "starter", "of all, the one with the lower measured error"
    (own_home / "config.toml").write_text('use = "research"\n')
    assert (configured_use(), choose_model().name) == ("research", "starter")
    (own_home / "config.toml").write_text('uses = "research"\n')
    with pytest.raises(ValueError, match=r"config.toml: uses is unknown; did you mean 'use'"):
        configured_use()


def test_a_file_of_a_name_that_is_another(own_home: Path) -> None:
    entry = named_models()["sface"]
    entry.folder.mkdir(parents=True)
    (entry.folder / entry.files[0].name).write_bytes(b"another")
    digest = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(ValueError, match=f"has SHA-256 {digest}, but sface has 0ba9fbfa.*: it is another file"):
        load_model("sface")
    with pytest.raises(ValueError, match="yunet is a detector: give it to load_detector, or as --detector"):
        load_model("yunet")


def test_a_contract_that_contradicts_the_file(own_home: Path) -> None:
    (own_home / "models.toml").write_text(own_model(own_home) + 'digest = "0123456789abcdef"\n')
    with pytest.raises(ValueError, match="the weights have digest .* but the contract says 0123456789abcdef"):
        load_model("own")
    entry = read_catalogue(CATALOGUE_FOLDER / "models.toml")["intel-0095"]
    assert isinstance(entry.contract, Contract)
    assert dataclasses.replace(entry.contract, input_size=(128, 128)) == entry.contract
