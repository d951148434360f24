"""Lists of protocols with damage: they are read, or refused with a ValueError that names a file."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hypersphere.core.read_lines import check_names, numbered_lines
from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.embeddings import names_text, read_names
from hypersphere.evaluation.protocols import read_classify, read_ijb, read_megaface, read_pairs, read_ytf
from hypersphere.evaluation.protocols.official_files import read_integers
from tests.evaluation.protocols import official, standins
from tests.mutate import mutations

HUGE = "9223372036854775807"


def _classify(folder: Path) -> tuple[Path, Callable[[], object]]:
    (folder / "train.txt").write_text("".join(f"train/{k}.jpg {k % 5}\n" for k in range(40)))
    (folder / "test.txt").write_text("".join(f"test/{k}.jpg {k % 5}\n" for k in range(20)))
    return folder / "train.txt", lambda: read_classify(folder / "test.txt", folder / "train.txt")


def _names(folder: Path) -> tuple[Path, Callable[[], object]]:
    (folder / "names.txt").write_text("".join(f"Ada {k}/{k}.jpg {k}\n" for k in range(30)))
    return folder / "names.txt", lambda: read_names(folder / "names.txt")


def _lfw(folder: Path) -> tuple[Path, Callable[[], object]]:
    return standins.write_lfw_list(folder / "pairs.txt"), lambda: read_pairs(folder / "pairs.txt")


def _calfw(folder: Path) -> tuple[Path, Callable[[], object]]:
    return standins.write_calfw_list(folder / "pairs.txt"), lambda: read_pairs(folder / "pairs.txt")


def _plain(folder: Path) -> tuple[Path, Callable[[], object]]:
    (folder / "pairs.txt").write_text("".join(f"a{k}.jpg b{k}.jpg {k % 2} {k // 6}\n" for k in range(30)))
    return folder / "pairs.txt", lambda: read_pairs(folder / "pairs.txt")


def _ytf(folder: Path) -> tuple[Path, Callable[[], object]]:
    official.write_ytf(folder / "splits.txt", pairs=2)
    return folder / "splits.txt", lambda: read_ytf(folder / "splits.txt")


def _ijb(name: str) -> Callable[[Path], tuple[Path, Callable[[], object]]]:
    def written(folder: Path) -> tuple[Path, Callable[[], object]]:
        official.write_ijb(folder, subjects=8)
        return folder / name, lambda: read_ijb(folder)

    return written


def _megaface(folder: Path) -> tuple[Path, Callable[[], object]]:
    official.write_megaface(folder)
    path = folder / "facescrub_features_list.json"
    return path, lambda: read_megaface(path, folder / "megaface_features_list.json_400_1")


LISTS = {
    "classify": _classify,
    "names": _names,
    "lfw": _lfw,
    "calfw": _calfw,
    "plain": _plain,
    "ytf": _ytf,
    "ijb-media": _ijb("ijbc_face_tid_mid.txt"),
    "ijb-detector": _ijb("ijbc_name_5pts_score.txt"),
    "ijb-pairs": _ijb("ijbc_template_pair_label.txt"),
    "ijb-probes": _ijb("ijbc_1N_probe_mixed.csv"),
    "megaface": _megaface,
}


@pytest.mark.parametrize("kind", LISTS)
def test_mutated_lists_are_read_or_refused_by_name(tmp_path: Path, kind: str) -> None:
    path, read = LISTS[kind](tmp_path)
    read()
    refused = 0
    for data in mutations(path.read_bytes()[-3000:] if kind == "names" else path.read_bytes(), 150, seed=7):
        path.write_bytes(data)
        try:
            read()
        except ValueError as error:
            refused += 1
            if str(tmp_path) not in str(error):
                raise AssertionError(f"no file in: {error}") from error
    assert refused > 20


def test_a_class_beyond_every_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("a.jpg 0\n")
    for number, message in ((HUGE, "out of range"), ("2147483647", "has 2 samples"), ("9" * 400, "400 digits")):
        (tmp_path / "train.txt").write_text(f"b.jpg 0\nc.jpg {number}\n")
        with pytest.raises(ValueError, match=rf"train\.txt, line 2: .*{message}"):
            read_classify(tmp_path / "test.txt", tmp_path / "train.txt")
    (tmp_path / "train.txt").write_text("b.jpg 0\nc.jpg 1\n")
    (tmp_path / "test.txt").write_text("a.jpg 0\nb.jpg 2147483647\n")
    with pytest.raises(ValueError, match=r"test\.txt, line 2: class 2147483647, but .* has 2 samples"):
        read_classify(tmp_path / "test.txt", tmp_path / "train.txt")


def test_a_template_of_any_number_takes_no_memory(tmp_path: Path) -> None:
    embeddings = official.write_ijb(tmp_path / "plain")
    wanted = read_ijb(tmp_path / "plain").evaluate(embeddings)
    (tmp_path / "large").mkdir()
    for path in (tmp_path / "plain").iterdir():
        text = path.read_text()
        if path.name.endswith(("face_tid_mid.txt", "template_pair_label.txt")):
            columns = (1,) if "mid" in path.name else (0, 1)
            lines = [line.split() for line in text.splitlines()]
            moved = [[str(int(w) + 2_000_000_000) if k in columns else w for k, w in enumerate(line)] for line in lines]
            (tmp_path / "large" / path.name).write_text("".join(f"{' '.join(line)}\n" for line in moved))
        elif path.name.endswith("5pts_score.txt"):
            (tmp_path / "large" / path.name).write_text(text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read_ijb(tmp_path / "large").evaluate(embeddings)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    same = [name for name in found.metrics if name in wanted.metrics]
    assert same
    assert all(found.metrics[name] == wanted.metrics[name] for name in same)


def test_numbers_apart_by_other_blanks_are_not_taken_for_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("1 2\r3 4\n5 6 \n", "1\t2 3 4\n5 6 \n", f"1 2 -{int(HUGE) + 1}\n", f"1 2 {HUGE}\n"):
        path.write_text(text, newline="")
        with pytest.raises(ValueError, match=r"a\.txt, line 1: "):
            read_integers(path, ("one", "two", "three"))
    path.write_text("1 2 3\r\n4 5 6\r\n", newline="")
    assert read_integers(path, ("one", "two", "three")).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_lines_with_a_return_within_or_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\r\n b \n\xc3\xa9")
    assert list(numbered_lines(path)) == [(1, "a"), (3, "b"), (4, "\u00e9")]
    path.write_bytes(b"a\nb\rc\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: a carriage return"):
        list(numbered_lines(path))
    path.write_bytes(b"\xef\xbb\xbfa\n\xff\n")
    with pytest.raises(ValueError, match=r"a\.txt: byte 5 is not UTF-8 text \(line 2\)"):
        list(numbered_lines(path))


def test_names_that_a_list_cannot_hold_are_refused(tmp_path: Path) -> None:
    for name in ("a\rb.jpg", "a\nb.jpg", "a\0.jpg", "a\udcff.jpg"):
        with pytest.raises(ValueError, match="cannot be written to a list"):
            Embeddings(["x.jpg", name], np.eye(2))
        with pytest.raises(ValueError, match="faces: .* cannot be written"):
            check_names(["x.jpg", name], "faces")


def test_a_list_of_names_is_read_back(tmp_path: Path) -> None:
    names = ["a.jpg", "photo 7", "b -3", "c \u00e9.png", "7"]
    (tmp_path / "names.txt").write_text(names_text(names), encoding="utf-8")
    assert list(read_names(tmp_path / "names.txt")) == names
    for name in ("a\tb", " a", "a "):
        with pytest.raises(ValueError, match="cannot be written to a list"):
            names_text([name])
