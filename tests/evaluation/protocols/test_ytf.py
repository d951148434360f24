import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC

from hypersphere.evaluation import Embeddings, Estimate
from hypersphere.evaluation.protocols.ytf.protocol import classify_by_histogram, intersection_kernel, read_ytf
from tests.evaluation.protocols.loops import accepted_at, best_threshold, unit
from tests.evaluation.protocols.official import write_ytf


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Embeddings]:
    path = tmp_path_factory.mktemp("ytf") / "splits.txt"
    return path, write_ytf(path)


def matrices(path: Path, embeddings: Embeddings) -> tuple[list[list[float]], list[bool], list[int]]:
    """The scores of all frames with all frames of every pair, its truth and its split."""
    frames: dict[str, list[np.ndarray]] = {}
    for name, row in zip(embeddings.names, embeddings.values, strict=True):
        frames.setdefault(name.rpartition("/")[0], []).append(unit(row))
    found = []
    for line in path.read_text().splitlines()[1:]:
        split, _, left, right, same = (field.strip() for field in line.split(","))
        found.append(([float(x @ y) for x in frames[left] for y in frames[right]], same == "1", int(split)))
    scores, truth, splits = zip(*found, strict=True)
    return list(scores), list(truth), list(splits)


def test_estimates_are_those_of_plain_loops(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    result = read_ytf(path).evaluate(embeddings)
    scores, same, splits = matrices(path, embeddings)
    means = [sum(own) / len(own) for own in scores]
    np.testing.assert_allclose(result.items["scores"], means, atol=1e-6)
    accuracies = []
    for split in range(1, 11):
        others = [k for k, own in enumerate(splits) if own != split]
        threshold = best_threshold([means[k] for k in others], [same[k] for k in others])
        here = [k for k, own in enumerate(splits) if own == split]
        accuracies.append(sum((means[k] >= threshold) == same[k] for k in here) / len(here))
    assert result.details["all"]["fold_accuracies"] == accuracies
    assert result.metrics["accuracy"].value == pytest.approx(np.mean(accuracies))
    assert 0.5 < np.mean(accuracies) < 0.99
    genuine = [mean for mean, truth in zip(means, same, strict=True) if truth]
    impostors = [mean for mean, truth in zip(means, same, strict=True) if not truth]
    assert result.metrics["tar@far=1e-1"].value == float(accepted_at(genuine, impostors, 0.1))
    assert result.counts == {
        "pairs": 120,
        "repeated_pairs": 0,
        "pairs_left_out": 0,
        "videos": 100,
        "missing_videos": 0,
        "unreadable_images": 0,
        "frames": 400,
    }


def test_histograms_are_classified_as_libsvm_does(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    result = read_ytf(path).evaluate(embeddings, cost=2.0)
    scores, same, splits = matrices(path, embeddings)
    histograms = []
    for own in scores:
        counts = [0.0] * 100
        for score in own:
            counts[min(int((score + 1) / 0.02), 99)] += 1 / len(own)
        histograms.append(counts)
    kernel = np.array([[sum(map(min, a, b)) for b in histograms] for a in histograms])
    accuracies = []
    for split in range(1, 11):
        tested, taught = np.array(splits) == split, np.array(splits) != split
        machine = SVC(C=2.0, kernel="precomputed", tol=1e-6).fit(kernel[np.ix_(taught, taught)], np.array(same)[taught])
        accuracies.append((machine.predict(kernel[np.ix_(tested, taught)]) == np.array(same)[tested]).mean())
    assert result.details["hik_svm"]["fold_accuracies"] == accuracies
    estimate = result.metrics["accuracy_hik_svm"]
    assert isinstance(estimate, Estimate)
    assert estimate.low <= np.mean(accuracies) <= estimate.high
    only = read_ytf(path).evaluate(embeddings, classifiers=["mean"])
    assert "accuracy_hik_svm" not in only.metrics


def test_components_come_of_the_frames_of_the_other_splits(standin: tuple[Path, Embeddings]) -> None:
    """NormFace sec. 5.1: PCA on the training subset. Every split is scored in what the others' frames span."""
    path, embeddings = standin
    components, lines = 5, [line.split(", ") for line in path.read_text().splitlines()[1:]]
    frames: dict[str, list[np.ndarray]] = {}
    for name, row in zip(embeddings.names, embeddings.values.astype(np.float64), strict=True):
        frames.setdefault(name.rpartition("/")[0], []).append(row)
    splits, same = np.array([int(line[0]) for line in lines]), np.array([line[4] == "1" for line in lines])
    own, accuracies, by_histogram = np.zeros(len(lines)), [], []
    for split in range(1, 11):
        known = {video for line in lines if int(line[0]) != split for video in line[2:4]}
        rows = np.array([row for video in frames if video in known for row in frames[video]])
        _, directions = np.linalg.eigh(np.cov(rows.T))
        matrices = []
        for line in lines:
            left, right = (
                [unit((row - rows.mean(0)) @ directions[:, -components:]) for row in frames[video]]
                for video in line[2:4]
            )
            matrices.append(np.array(left) @ np.array(right).T)
        scores, tested = np.array([matrix.mean() for matrix in matrices]), splits == split
        own[tested] = scores[tested]
        threshold = best_threshold(scores[~tested].tolist(), same[~tested].tolist())
        accuracies.append(((scores >= threshold) == same)[tested].mean())
        counts = np.array([np.histogram(matrix, 100, (-1, 1))[0] / matrix.size for matrix in matrices])
        kernel = np.minimum(counts[:, None], counts).sum(2)
        machine = SVC(kernel="precomputed").fit(kernel[np.ix_(~tested, ~tested)], same[~tested])
        by_histogram.append((machine.predict(kernel[np.ix_(tested, ~tested)]) == same[tested]).mean())
    result = read_ytf(path).evaluate(embeddings, pca=components)
    np.testing.assert_allclose(result.items["scores"], own, atol=1e-5)
    assert result.details["all"]["fold_accuracies"] == accuracies
    assert result.details["hik_svm"]["fold_accuracies"] == by_histogram
    assert result.options["pca"] == components
    assert any("principal components" in rule for rule in result.rules)
    assert "pca" not in read_ytf(path).evaluate(embeddings, classifiers=["mean"]).options
    with pytest.raises(ValueError, match=r"pca=25: the [0-9]+ frames of the other splits, of width 24, give 24"):
        read_ytf(path).evaluate(embeddings, pca=25)
    with pytest.raises(ValueError, match="pca=0"):
        read_ytf(path).evaluate(embeddings, pca=0)


def test_the_kernel_is_that_of_plain_loops() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(20), 12)
    wanted = [[sum(min(a, b) for a, b in zip(x, y, strict=True)) for y in rows[:7]] for x in rows]
    np.testing.assert_allclose(intersection_kernel(rows, rows[:7]), wanted, rtol=1e-14)


@pytest.mark.parametrize("cost", [2.0, 8.0, 30.0])
def test_decisions_are_those_of_the_dual_solved_otherwise(cost: float) -> None:
    """min a' Q a / 2 - sum a, 0 <= a <= cost, y' a = 0, by a general solver; b from the samples on the margin."""
    rng = np.random.default_rng(1)
    same, split = np.arange(48) % 2 == 0, np.arange(48) // 24
    samples = rng.normal(np.where(same, 0.12, 0.0)[:, None], 0.25, (48, 15)).clip(-1, 1)
    rows = np.array([np.histogram(sample, 12, (-1, 1))[0] / 15 for sample in samples])
    sign, kernel, expected = np.where(same, 1.0, -1.0), intersection_kernel(rows, rows), np.zeros(48, dtype=bool)
    for fold in (0, 1):
        taught, tested = np.flatnonzero(split != fold), np.flatnonzero(split == fold)
        matrix = kernel[np.ix_(taught, taught)] * np.outer(sign[taught], sign[taught])
        found = minimize(
            lambda a, matrix=matrix: a @ matrix @ a / 2 - a.sum(),
            np.zeros(24),
            jac=lambda a, matrix=matrix: matrix @ a - 1,
            bounds=[(0, cost)] * 24,
            constraints={"type": "eq", "fun": lambda a, taught=taught: sign[taught] @ a},
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-14},
        )
        free = (found.x > 1e-6 * cost) & (found.x < cost * (1 - 1e-6))
        weights = found.x * sign[taught]
        bias = (sign[taught] - kernel[np.ix_(taught, taught)] @ weights)[free].mean()
        expected[tested] = (kernel[np.ix_(tested, taught)] @ weights + bias >= 0) == same[tested]
    assert (classify_by_histogram(rows[None], same, split, cost) == expected).all()
    assert 24 < expected.sum() < 48


def test_without_scikit_learn_the_extra_is_named(
    standin: tuple[Path, Embeddings], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, embeddings = standin
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(ModuleNotFoundError, match=r"hik_svm.*needs scikit-learn.*\[svm\]"):
        read_ytf(path).evaluate(embeddings)
    assert "accuracy" in read_ytf(path).evaluate(embeddings, classifiers=["mean"]).metrics


def test_missing_videos_are_refused_or_counted(standin: tuple[Path, Embeddings]) -> None:
    path, embeddings = standin
    kept = [k for k, name in enumerate(embeddings.names) if not name.startswith("Pocket_Person_00/1/")]
    fewer = Embeddings([embeddings.names[k] for k in kept], embeddings.values[kept])
    with pytest.raises(
        ValueError, match=r"splits.txt, line 2: there is no frame of 'Pocket_Person_00/1', and 1 pairs lack one"
    ):
        read_ytf(path).evaluate(fewer)
    result = read_ytf(path).evaluate(fewer, allow_missing=True, classifiers=["mean"])
    assert result.counts["pairs_left_out"] == result.counts["missing_videos"] == 1
    with pytest.raises(ValueError, match="no pair has frames of both videos"):
        read_ytf(path).evaluate(Embeddings(["else.jpg"], np.ones((1, 4))), allow_missing=True)


def test_its_frames_are_found_among_other_images(standin: tuple[Path, Embeddings]) -> None:
    names = ["Pocket_Person_00/0/0.7.jpg", "Pocket_Person_00/9/9.7.jpg", "0.7.jpg"]
    assert read_ytf(standin[0]).names_among(names) == ("Pocket_Person_00/0/0.7.jpg",)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (2, "1, 1, A/0, A/1", "line 2: 4 fields"),
        (3, "1, 2, A/0, A/1, x", "line 3: is same 'x' is not an integer"),
        (3, "1, 2, A/0, A/1, 0", "line 3: is same is 0, but the people are 'A' and 'A'"),
        (3, "1, 2, A/0, B/1, 1", "line 3: is same is 1, but the people are 'A' and 'B'"),
        (3, "1, 2, A, B/1, 0", "must be videos like"),
        (4, "11, 2, A/0, A/1, 1", "line 4: the split 11 is out of range; expected a whole number from 1 to 10"),
        (20, "1, 2, A/0, A/1, 1", "line 20: split 1 after split 2; the list must rise"),
    ],
)
def test_wrong_lines_are_refused(
    standin: tuple[Path, Embeddings], tmp_path: Path, line: int, text: str, message: str
) -> None:
    lines = standin[0].read_text().splitlines()
    lines[line - 1] = text
    (tmp_path / "splits.txt").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_ytf(tmp_path / "splits.txt")


def test_repeated_pairs_are_counted(standin: tuple[Path, Embeddings], tmp_path: Path) -> None:
    lines = standin[0].read_text().splitlines()
    lines[2] = "1, 2, Pocket_Person_00/1, Pocket_Person_00/0, 1"
    (tmp_path / "splits.txt").write_text("\n".join(lines))
    result = read_ytf(tmp_path / "splits.txt").evaluate(standin[1], classifiers=["mean"])
    assert (result.counts["pairs"], result.counts["repeated_pairs"]) == (120, 1)


def test_fewer_splits_than_stated_are_refused(standin: tuple[Path, Embeddings], tmp_path: Path) -> None:
    lines = standin[0].read_text().splitlines()
    (tmp_path / "splits.txt").write_text("\n".join(lines[:-12]))
    with pytest.raises(ValueError, match="9 splits; the protocol has 10"):
        read_ytf(tmp_path / "splits.txt")
    (tmp_path / "splits.txt").write_text("header\n")
    with pytest.raises(ValueError, match="no pairs"):
        read_ytf(tmp_path / "splits.txt")
