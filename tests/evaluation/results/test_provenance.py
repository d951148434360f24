"""Every result names the lists it rests on, each with its digest, and what it left out."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.evaluation import Embeddings, concatenated, load_embeddings
from hypersphere.evaluation.protocols import (
    Classify,
    IjbOptions,
    Pooling,
    evaluate_pairs,
    read_blufr,
    read_classify,
    read_ijb,
    read_megaface,
    read_pairs,
    read_reid,
    read_ytf,
)
from hypersphere.evaluation.results.provenance import file_digests, joined_files
from tests.evaluation.protocols import official
from tests.evaluation.protocols.standins import made_up, write_cfp, write_lfw_list


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def loaded(folder: Path, embeddings: Embeddings, name: str = "E") -> Embeddings:
    np.save(folder / f"{name}.npy", embeddings.values)
    (folder / f"{name}.txt").write_text("".join(f"{each}\n" for each in embeddings.names))
    return load_embeddings(folder / f"{name}.npy", folder / f"{name}.txt")


def pairs(folder: Path) -> Any:
    protocol = read_pairs(write_lfw_list(folder / "lfw.txt"))
    return evaluate_pairs([(protocol, loaded(folder, made_up(protocol.names)))], replicates=5)


def blufr(folder: Path) -> Any:
    embeddings = official.write_blufr(folder / "config.mat")
    return read_blufr(folder / "config.mat").evaluate(loaded(folder, embeddings))


def ytf(folder: Path) -> Any:
    embeddings = official.write_ytf(folder / "splits.txt")
    return read_ytf(folder / "splits.txt").evaluate(loaded(folder, embeddings), classifiers=["mean"])


def ijb(folder: Path) -> Any:
    embeddings = official.write_ijb(folder)
    return read_ijb(folder).evaluate(loaded(folder, embeddings))


def megaface(folder: Path) -> Any:
    near, far = official.write_megaface(folder)
    protocol = read_megaface(
        folder / "facescrub_features_list.json",
        folder / "megaface_features_list.json_400_1",
        probe_noise=folder / "facescrub_noises.txt",
        distractor_noise=folder / "megaface_noises.txt",
    )
    return protocol.evaluate(loaded(folder, near), loaded(folder, far, "D"))


def classify(folder: Path) -> Any:
    rows = np.eye(4, dtype=np.float32).repeat(3, axis=0)
    for name in ("test.txt", "train.txt"):
        (folder / name).write_text("".join(f"{name[:2]}{k}.png {k // 3}\n" for k in range(12)))
    embeddings = loaded(folder, Embeddings([f"te{k}.png" for k in range(12)], rows))
    return read_classify(folder / "test.txt", folder / "train.txt").evaluate(embeddings, np.eye(4))


@pytest.mark.parametrize("protocol", [pairs, blufr, ytf, ijb, megaface, classify], ids=lambda each: each.__name__)
def test_every_file_is_named_with_its_digest(tmp_path: Path, protocol: Any) -> None:
    result = protocol(tmp_path)
    assert result.protocol == protocol.__name__
    assert result.files == {path.name: digest_of(path) for path in tmp_path.iterdir()}
    assert len(result.items_digest) == 16
    assert not any(result.left_out.values())


def test_a_folder_of_people_has_the_digest_of_its_names(tmp_path: Path) -> None:
    embeddings = official.write_market(tmp_path / "market")
    result = read_reid(tmp_path / "market").evaluate(loaded(tmp_path, embeddings))
    queries = sorted(name for name in embeddings.names if name.startswith("query"))
    assert result.files["query (names)"] == hashlib.sha256("\n".join(queries).encode()).hexdigest()[:16]
    assert set(result.files) == {"query (names)", "bounding_box_test (names)", "E.npy", "E.txt"}


def test_files_of_several_sets(tmp_path: Path) -> None:
    sets = [read_pairs(write_lfw_list(tmp_path / "lfw.txt")), read_pairs(write_cfp(tmp_path / "cfp") / "FP")]
    result = evaluate_pairs([(each, [made_up(each.names)]) for each in sets], replicates=5)
    assert result.files["lfw: lfw.txt"] == digest_of(tmp_path / "lfw.txt")
    first = tmp_path / "cfp" / "Protocol" / "Split" / "FP" / "01" / "same.txt"
    assert result.files["cfp-FP: Split/FP/01/same.txt"] == digest_of(first)
    assert "cfp-FP: Pair_list_P.txt" in result.files
    assert len(result.files) == 1 + 2 + 20


def test_the_present_images_decide_what_can_be_compared(tmp_path: Path) -> None:
    embeddings = official.write_blufr(tmp_path / "config.mat")
    protocol = read_blufr(tmp_path / "config.mat")
    fewer = Embeddings(embeddings.names[1:], embeddings.values[1:])
    whole, part = protocol.evaluate(embeddings), protocol.evaluate(fewer, allow_missing=True)
    assert whole.items_digest != part.items_digest
    assert part.left_out["missing_images"] == [embeddings.names[0]]
    assert part.counts["missing_images"] == 1


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "list.txt").write_text(name)
    both = [tmp_path / name / "list.txt" for name in ("a", "b")]
    assert file_digests(both) == {"list.txt": digest_of(both[0]), "b/list.txt": digest_of(both[1])}
    assert joined_files([{"x": "1"}, {"x": "2"}, {"x": "1"}, {"x": "3"}]) == {"x": "1", "x (2)": "2", "x (3)": "3"}
    one, two = (Embeddings(["i"], np.ones((1, 2)), {}, {"l": k}, {f"u{k}": "why"}) for k in "12")
    joined = concatenated([one, two])
    assert joined.files == {"l": "1", "l (2)": "2"}
    assert joined.unreadable == {"u1": "why", "u2": "why"}


def test_a_zero_vector_names_its_image(tmp_path: Path) -> None:
    def zeroed(embeddings: Embeddings, row: int = 3) -> Embeddings:
        values = embeddings.values.copy()
        values[row] = 0
        return Embeddings(embeddings.names, values)

    near, far = official.write_megaface(tmp_path / "mf")
    megaface = read_megaface(
        tmp_path / "mf" / "facescrub_features_list.json", tmp_path / "mf" / "megaface_features_list.json_400_1"
    )
    blufr_rows, ytf_rows = official.write_blufr(tmp_path / "c.mat"), official.write_ytf(tmp_path / "s.txt")
    ijb_rows, reid_rows = official.write_ijb(tmp_path / "meta"), official.write_market(tmp_path / "market")
    class_rows = Embeddings([f"{k}.png" for k in range(8)], np.ones((8, 4)))
    classes = Classify(tmp_path, tuple(class_rows.names), np.arange(8) % 4)
    unit = IjbOptions(pooling=Pooling(keep_norm=False))
    ijb = read_ijb(tmp_path / "meta")
    for evaluate, name in (
        (lambda: megaface.evaluate(zeroed(near), far), near.names[3]),
        (lambda: megaface.evaluate(near, zeroed(far)), far.names[3]),
        (lambda: read_blufr(tmp_path / "c.mat").evaluate(zeroed(blufr_rows)), blufr_rows.names[3]),
        (lambda: read_ytf(tmp_path / "s.txt").evaluate(zeroed(ytf_rows)), ytf_rows.names[3]),
        (lambda: read_reid(tmp_path / "market").evaluate(zeroed(reid_rows)), reid_rows.names[3]),
        (lambda: classes.evaluate(zeroed(class_rows), np.eye(4)), "3.png"),
        (lambda: ijb.evaluate(zeroed(ijb_rows), options=unit), "4.jpg"),
    ):
        with pytest.raises(ValueError, match=rf"{re.escape(name)}'? is the zero vector, which has no direction"):
            evaluate()
    both = Embeddings(ijb_rows.names, np.concatenate([np.zeros((3, ijb_rows.dim)), ijb_rows.values[3:]]))
    with pytest.raises(ValueError, match="template 1 is the zero vector"):
        ijb.evaluate(both)
    with pytest.raises(ValueError, match=r"1\.jpg, with the other images of its medium, is the zero vector"):
        ijb.evaluate(both, options=IjbOptions(pooling=Pooling(media="unit")))
