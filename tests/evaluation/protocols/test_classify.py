import math
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.protocols import Classify, read_classify
from tests.evaluation.protocols.loops import unit
from tests.evaluation.protocols.official import DIM, pocket_vectors

CLASSES, EACH = 12, 9


@pytest.fixture
def standin(tmp_path: Path) -> tuple[Path, Path, Embeddings, np.ndarray]:
    """ImageNet-LT's two lists; class k has 200 / (k + 1) training images; prototypes are means of three images."""
    vectors = pocket_vectors(CLASSES, EACH + 3)[0]
    names = [f"val/n{c:02d}_{k}.JPEG" for c in range(CLASSES) for k in range(EACH)]
    test, train = tmp_path / "ImageNet_LT_test.txt", tmp_path / "ImageNet_LT_train.txt"
    test.write_text("".join(f"{name} {place // EACH}\n" for place, name in enumerate(names)))
    train.write_text("".join(f"train/{c}_{k}.JPEG {c}\n" for c in range(CLASSES) for k in range(200 // (c + 1))))
    return test, train, Embeddings(names, vectors[:, :EACH].reshape(-1, DIM)), vectors[:, EACH:].mean(axis=1)


def test_estimates_are_those_of_plain_loops(standin: tuple[Path, Path, Embeddings, np.ndarray]) -> None:
    test, train, embeddings, prototypes = standin
    result = read_classify(test, train).evaluate(embeddings, prototypes)
    right, margins = [], []
    for place, row in enumerate(embeddings.values):
        cosines = [float(unit(row) @ unit(centre)) for centre in prototypes]
        own = place // EACH
        margins.append(cosines[own] - max(value for k, value in enumerate(cosines) if k != own))
        right.append(margins[-1] > 0)
    angles = [math.acos(unit(a) @ unit(b)) for i, a in enumerate(prototypes) for b in prototypes[:i]]
    metrics = result.metrics
    assert metrics["accuracy"].value == sum(right) / len(right)
    assert 0.1 < sum(right) / len(right) < 0.95
    assert metrics["class_margin"].value == pytest.approx(math.degrees(min(angles)), rel=1e-5)
    assert metrics["sample_margin"].value == pytest.approx(np.mean(margins), abs=1e-6)
    assert metrics["sample_margin_minimum"].value == pytest.approx(min(margins), abs=1e-6)
    assert metrics["sample_margin_share_positive"].value == sum(right) / len(right)
    shots = [200 // (c + 1) for c in range(CLASSES)]
    each = [sum(right[c * EACH : (c + 1) * EACH]) / EACH for c in range(CLASSES)]
    groups = {
        "many": [acc for acc, count in zip(each, shots, strict=True) if count > 100],
        "medium": [acc for acc, count in zip(each, shots, strict=True) if 20 <= count <= 100],
        "few": [acc for acc, count in zip(each, shots, strict=True) if count < 20],
        "all": each,
    }
    for name, values in groups.items():
        assert metrics[f"accuracy_{name}"].value == pytest.approx(sum(values) / len(values), abs=1e-12)


def test_the_inner_product_decides_if_asked(standin: tuple[Path, Path, Embeddings, np.ndarray]) -> None:
    test, _, embeddings, prototypes = standin
    scaled = prototypes * np.linspace(0.1, 3, CLASSES)[:, None]
    protocol = read_classify(test)
    cosine = protocol.evaluate(embeddings, scaled)
    product = protocol.evaluate(embeddings, scaled, similarity="inner_product")
    wanted = [int(np.argmax([row.astype(np.float64) @ centre for centre in scaled])) for row in embeddings.values]
    right = sum(k == place // EACH for place, k in enumerate(wanted))
    assert product.metrics["accuracy"].value == right / len(wanted)
    assert cosine.metrics["accuracy"] == protocol.evaluate(embeddings, prototypes).metrics["accuracy"]
    assert cosine.metrics["accuracy"] != product.metrics["accuracy"]
    assert "accuracy_many" not in cosine.metrics


def test_missing_samples_are_refused_or_counted(standin: tuple[Path, Path, Embeddings, np.ndarray]) -> None:
    test, _, embeddings, prototypes = standin
    fewer = Embeddings(embeddings.names[2:], embeddings.values[2:])
    with pytest.raises(ValueError, match="2 of 108 images have none"):
        read_classify(test).evaluate(fewer, prototypes)
    assert read_classify(test).evaluate(fewer, prototypes, allow_missing=True).counts["missing_images"] == 2


def test_wrong_arguments_are_refused(standin: tuple[Path, Path, Embeddings, np.ndarray]) -> None:
    test, train, embeddings, prototypes = standin
    protocol = read_classify(test, train)
    with pytest.raises(ValueError, match="is of class 11; there are prototypes of 11"):
        protocol.evaluate(embeddings, prototypes[:-1])
    with pytest.raises(ValueError, match="class_counts has 12 entries; there are prototypes of 13 classes"):
        protocol.evaluate(embeddings, np.ones((13, DIM)))
    with pytest.raises(ValueError, match="prototypes has dimension 23; it must be 24"):
        protocol.evaluate(embeddings, prototypes[:, 1:])
    prototypes = prototypes.copy()
    prototypes[2, 3] = np.nan
    with pytest.raises(ValueError, match="prototypes row 2 is not finite"):
        protocol.evaluate(embeddings, prototypes)
    with pytest.raises(ValueError, match="labels must be at least one class"):
        Classify(Path("x"), ("a",), np.array([-1]))


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (2, "alone", "line 2: expected name and class"),
        (2, "a.jpg x", "line 2: the class 'x' is not an integer"),
        (2, "a.jpg -1", "line 2: the class -1 is out of range; expected a whole number from 0"),
        (2, "val/n00_0.JPEG 3", "line 2: 'val/n00_0.JPEG' was on line 1 already"),
        (2, "a.jpg 12", "line 2: 'a.jpg' is of class 12, which .*ImageNet_LT_train.txt does not have"),
    ],
)
def test_wrong_lines_are_refused(
    standin: tuple[Path, Path, Embeddings, np.ndarray], line: int, text: str, message: str
) -> None:
    test, train, _, _ = standin
    lines = test.read_text().splitlines()
    lines[line - 1] = text
    test.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_classify(test, train)
    test.write_text("\n")
    with pytest.raises(ValueError, match="no samples"):
        read_classify(test)
