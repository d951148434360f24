from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from hypersphere.evaluation import Embeddings, Estimate, NotMeasurable
from hypersphere.evaluation.protocols.blufr.protocol import read_blufr
from tests.evaluation.protocols.loops import accepted_at, open_set, unit
from tests.evaluation.protocols.official import write_blufr


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Embeddings]:
    path = tmp_path_factory.mktemp("blufr") / "blufr_lfw_config.mat"
    return path, write_blufr(path)


def test_estimates_are_those_of_plain_loops(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    result = read_blufr(path).evaluate(embeddings)
    table = loadmat(path)
    rows = [unit(row) for row in embeddings.values]
    labels = table["labels"].ravel().astype(int).tolist()
    verified, identified = [], []
    for trial in range(10):
        test, gallery, probes = (
            [int(k) - 1 for k in table[key][trial, 0].ravel()] for key in ("testIndex", "galIndex", "probIndex")
        )
        genuine, impostors = [], []  # type: ignore[var-annotated]
        for place, i in enumerate(test):
            for j in test[:place]:
                (genuine if labels[i] == labels[j] else impostors).append(float(rows[i] @ rows[j]))
        verified.append(float(accepted_at(genuine, impostors, 1e-3)))
        people = [labels[k] for k in probes], [labels[k] for k in gallery]
        identified.append(
            float(open_set([rows[k] for k in probes], people[0], [rows[k] for k in gallery], people[1], 0.01))
        )
    assert result.details["vr@far=1e-3"]["trials"].tolist() == verified
    assert result.details["dir@far=1e-2"]["trials"].tolist() == identified
    assert 0.05 < np.mean(verified) < 0.95
    assert 0.05 < np.mean(identified) < 0.95
    for name, values in (("vr", verified), ("dir", identified)):
        rate = "1e-3" if name == "vr" else "1e-2"
        mean = sum(values) / 10
        spread = (sum((value - mean) ** 2 for value in values) / 9) ** 0.5
        estimate, lowered = result.metrics[f"{name}@far={rate}"], result.metrics[f"{name}_less_sd@far={rate}"]
        assert isinstance(estimate, Estimate)
        assert isinstance(lowered, Estimate)
        assert estimate.value == pytest.approx(mean, abs=1e-12)
        assert lowered.value == pytest.approx(mean - spread, abs=1e-12)
        assert estimate.low < mean < estimate.high
    assert result.counts["trials"] == 10


def test_pca_is_fitted_on_the_training_images(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    protocol = read_blufr(path)
    result = protocol.evaluate(embeddings, pca=6)
    trial = protocol.trials[0]
    train, test = embeddings.values[trial.train].astype(np.float64), embeddings.values[trial.test]
    centre = train.mean(axis=0)
    lengths, directions = np.linalg.eigh(np.cov(train.T))
    rows = (test - centre) @ directions[:, np.argsort(lengths)[::-1][:6]]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = protocol.labels[trial.test]
    scores, same = rows @ rows.T, labels == labels[:, None]
    later = np.triu(np.ones_like(same), 1)
    wanted = accepted_at(scores[later & same].tolist(), scores[later & ~same].tolist(), 1e-3)
    assert result.details["vr@far=1e-3"]["trials"][0] == float(wanted)
    assert result.options["pca"] == 6
    with pytest.raises(ValueError, match="pca=25 must be at most 24"):
        protocol.evaluate(embeddings, pca=25)


def test_too_few_impostors_are_not_measured(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    result = read_blufr(path).evaluate(embeddings, fars=[1e-6], open_set_fars=[1e-3])
    assert isinstance(result.metrics["vr@far=1e-6"], NotMeasurable)
    assert result.metrics["dir@far=1e-3"] == result.metrics["dir_less_sd@far=1e-3"] == NotMeasurable(320, 3000)


def test_missing_images_are_refused_or_counted(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    fewer = Embeddings(embeddings.names[3:], embeddings.values[3:])
    with pytest.raises(ValueError, match=r"config.mat, imageList\{1\}: 'Pocket_Person_00/Pocket.* 3 of 480 images"):
        read_blufr(path).evaluate(fewer)
    assert read_blufr(path).evaluate(fewer, allow_missing=True).counts["missing_images"] == 3


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("galIndex", lambda cells: cells[:9], "galIndex has 9 trials; the protocol has 10"),
        ("testIndex", lambda cells: _with(cells, 2, [[481]]), r"testIndex\{3\} holds 481; imageList has 1 to 480"),
        ("galIndex", lambda cells: _with(cells, 0, [[7], [7]]), r"galIndex\{1\} holds 7 twice"),
        ("galIndex", lambda cells: _with(cells, 4, np.zeros((0, 1))), r"galIndex\{5\} is empty"),
        ("probIndex", lambda cells: _with(cells, 1, cells[1, 0][:-1]), "trial 2: testIndex must be galIndex and prob"),
        ("labels", lambda labels: labels[:-1], "labels has 479 entries; imageList has 480"),
        ("labels", None, "labels is missing"),
        ("imageList", lambda names: _with(names, 5, names[4, 0]), r"imageList\{6\} is .* which imageList\{5\} is"),
    ],
)
def test_wrong_files_are_refused(
    standin: tuple[Path, Embeddings], tmp_path: Path, key: str, change: object, message: str
) -> None:
    table = {name: value for name, value in loadmat(standin[0]).items() if name[0] != "_"}
    if change is None:
        del table[key]
    else:
        table[key] = change(table[key])
    savemat(tmp_path / "wrong.mat", table)
    with pytest.raises(ValueError, match=message):
        read_blufr(tmp_path / "wrong.mat")


def _with(cells: np.ndarray, place: int, entry: object) -> np.ndarray:
    changed = cells.copy()
    changed[place, 0] = np.asarray(entry)
    return changed


def test_what_is_no_matlab_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_blufr(tmp_path / "none.mat")
    (tmp_path / "text.mat").write_text("imageList")
    with pytest.raises(ValueError, match="not a MATLAB file"):
        read_blufr(tmp_path / "text.mat")
