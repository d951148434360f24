"""Pair lists in their official formats, and what is wrong with bad ones: file and line."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import FolderSource, write_pack
from hypersphere.evaluation.protocols import evaluate_pairs, list_protocols, read_pairs
from tests.evaluation.protocols.standins import (
    lfw_name,
    made_up,
    person,
    write_calfw_list,
    write_cfp,
    write_faces,
    write_lfw_list,
)


def test_lfw(tmp_path: Path) -> None:
    pairs = read_pairs(write_lfw_list(tmp_path / "pairs.txt"))
    assert (pairs.title, len(pairs), pairs.same.sum()) == ("pairs", 60, 30)
    assert pairs.folds.tolist() == np.repeat(np.arange(10), 6).tolist()
    assert (pairs.left[0], pairs.right[0]) == (lfw_name(0, 1), lfw_name(0, 2))
    assert (pairs.left[5], pairs.right[5], pairs.same[5]) == (lfw_name(1, 2), lfw_name(0, 4), False)
    assert pairs.where[5] == f"{tmp_path / 'pairs.txt'}, line 7"
    assert pairs.subjects is not None
    assert (pairs.subjects[0][5], pairs.subjects[1][5]) == (person(1), person(0))
    assert len(pairs.names) == 80 == len(set(pairs.names))
    assert list_protocols("pairs") == ["pairs"]


def test_a_development_list_of_one_fold_is_cut_into_ten(tmp_path: Path) -> None:
    lines = write_lfw_list(tmp_path / "p.txt").read_text().splitlines()[1:]
    same, different = ([line for line in lines if len(line.split()) == n] for n in (3, 4))
    (tmp_path / "dev.txt").write_text("\n".join(["30", *same, *different]))
    pairs = read_pairs(tmp_path / "dev.txt")
    assert pairs.folds.tolist() == np.tile(np.repeat(np.arange(10), 3), 2).tolist()


@pytest.mark.parametrize("folds", [True, False])
def test_calfw(tmp_path: Path, folds: bool) -> None:
    pairs = read_pairs(write_calfw_list(tmp_path / "pairs_CALFW.txt", folds))
    assert (len(pairs), pairs.same.sum()) == (40, 20)
    assert pairs.folds.tolist() == np.tile(np.repeat(np.arange(10), 2), 2).tolist()
    assert (pairs.left[20], pairs.right[20]) == (f"{person(0)}_0001.jpg", f"{person(1)}_0001.jpg")
    assert pairs.subjects is not None
    assert pairs.subjects[0][20] == person(0)


def test_cfp(tmp_path: Path) -> None:
    split = write_cfp(tmp_path / "cfp")
    profile, frontal = read_pairs(split / "FP"), read_pairs(split / "FF")
    assert (profile.title, frontal.title) == ("cfp-FP", "cfp-FF")
    assert profile.folds.tolist() == np.repeat(np.arange(10), 4).tolist()
    assert (profile.left[0], profile.right[0]) == ("001/frontal/01.jpg", "001/profile/01.jpg")
    assert (frontal.left[0], frontal.right[0]) == ("001/frontal/01.jpg", "001/frontal/02.jpg")
    assert (profile.left[3], profile.right[3], profile.same[3]) == ("001/frontal/02.jpg", "002/profile/02.jpg", False)
    assert profile.subjects is not None


def test_plain_lists_and_packs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x/1.jpg x/2.jpg 1\nx/1.jpg y/1.jpg 0\ny/1.jpg y/2.jpg 1\ny/2.jpg x/2.jpg 0\n")
    (tmp_path / "b.txt").write_text("1 x/1.jpg x/2.jpg\n0 x/1.jpg y/1.jpg\n1 y/1.jpg y/2.jpg\n0 y/2.jpg x/2.jpg\n")
    (tmp_path / "c.txt").write_text("a b\tc\t1\t7\nd\te\t0\t7\nf\tg\t1\t9\nh\ti\t0\t9\n")
    one, two, three = (read_pairs(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt"))
    assert (one.left, one.right, one.same.tolist()) == (two.left, two.right, two.same.tolist())
    assert one.folds.tolist() == [0, 1, 2, 3]
    assert three.folds.tolist() == [7, 7, 9, 9]
    assert three.left[0] == "a b"
    assert three.subjects is None, "names that do not tell who is on the picture"
    source = FolderSource(write_faces(tmp_path / "faces"))
    write_pack(source, tmp_path / "p.bin", pairs=[[0, 1], [0, 4], [4, 5], [5, 1]])
    pack = read_pairs(tmp_path / "p.bin", "mine")
    assert (pack.title, pack.left, pack.right) == ("mine", ["0", "2", "4", "6"], ["1", "3", "5", "7"])
    assert pack.same.tolist() == [True, False, True, False]
    assert pack.subjects is None


LFW = "2\t1\nA\t1\t2\nA\t1\tB\t1\nC\t1\t2\nC\t1\tD\t1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"bad\.txt: no pairs"),
        (
            LFW[: LFW.index("C\t1\tD")],
            r"line 4: the list ends after 1 folds and 1 pairs, but line 1 states 2 folds",
        ),
        (LFW + "E\t1\t2\n", r"line 6: more lines than the 2 folds of 1 \+ 1 pairs"),
        (LFW.replace("A\t1\t2", "A\t1"), r"line 2: 2 fields; pair 1 of fold 1 must be 'name i j'"),
        ("2\t1\nA\t1\tB\t1\nA\t1\t2\n", r"line 2: 4 fields; pair 1 of fold 1 must be 'name i j'"),
        (LFW.replace("A\t1\t2", "A\t0\t2"), r"line 2: image 0 is out of range; expected a whole number from 1"),
        (LFW.replace("A\t1\t2", "A\tx\t2"), r"line 2: image 'x' is not an integer"),
        (LFW.replace("A\t1\tB\t1", "A\t1\tA\t2"), r"line 3: 'A' twice, among the pairs of two people"),
        (LFW.replace("A\t1\t2", "A\t2\t2"), r"line 2: 'A/A_0002\.jpg' is compared with itself"),
        (LFW.replace("C\t1\tD\t1", "B\t1\tA\t1"), r"line 5: the same pair as at .*bad\.txt, line 3"),
        ("0\t3\n", r"line 1: 0 folds of 3 pairs"),
        ("a.jpg 1\nb.jpg 1\nc.jpg 0\n", r"line 3: an image without a partner"),
        ("a.jpg 1\nb.jpg 0\n", r"line 2: label 0, but the first image of the pair, a line before, has 1"),
        ("a.jpg 1\nb.jpg one\n", r"line 2: 'b\.jpg one'; expected an image and a whole number"),
        ("a b 1\nc d 2\n", r"line 2: '2' must be 1 \(one person\) or 0 \(two people\)"),
        ("a b 1\nc d\n", r"line 2: 2 fields; expected 'image image same'"),
        ("a b 1 x\n", r"line 1: fold 'x' is not an integer"),
        ("a b 1 1\nc d 0 1\n", r"bad\.txt: a single fold"),
        ("a b 1\nc d 1\n", r"bad\.txt: all 2 pairs are of one person"),
        ("a b c d e\n", r"line 1: 5 fields; expected LFW's '10 300'"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / "bad.txt")


@pytest.mark.parametrize("lost", ["same.txt", "diff.txt"])
def test_a_split_of_cfp_is_not_left_out_when_a_file_of_it_is_missing(tmp_path: Path, lost: str) -> None:
    split = write_cfp(tmp_path / "cfp")
    (split / "FP" / "03" / lost).unlink()
    with pytest.raises(ValueError, match=rf"03.{lost}: there is no such file"):
        read_pairs(split / "FP")


def test_bad_cfp(tmp_path: Path) -> None:
    split = write_cfp(tmp_path / "cfp")
    with pytest.raises(ValueError, match=r"expected CFP's folder Protocol/Split/FF"):
        read_pairs(split)
    (split / "FP" / "03" / "diff.txt").write_text("1,2\n1,41\n")
    with pytest.raises(ValueError, match=r"diff\.txt, line 2: image 41 is not among the 40"):
        read_pairs(split / "FP")
    (split / "FP" / "03" / "diff.txt").write_text("1;2\n")
    with pytest.raises(ValueError, match=r"diff\.txt, line 1: expected two numbers"):
        read_pairs(split / "FP")
    (split / "FP" / "03" / "diff.txt").unlink()
    with pytest.raises(ValueError, match=r"03/diff\.txt: there is no such file"):
        read_pairs(split / "FP")
    (split.parent / "Pair_list_F.txt").write_text("1 a.jpg\n1 b.jpg\n")
    with pytest.raises(ValueError, match=r"Pair_list_F\.txt, line 2: image 1 was there already"):
        read_pairs(split / "FF")


def test_pairs_that_official_files_repeat_are_counted_unless_they_contradict(tmp_path: Path) -> None:
    path = write_calfw_list(tmp_path / "pairs_CALFW.txt")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, *lines[-2:]]))
    pairs = read_pairs(path)
    assert len(pairs) == 41
    assert evaluate_pairs([(pairs, made_up(pairs.names))], replicates=20).counts["repeated_pairs"] == 1
    path.write_text("\n".join([*lines, lines[-1].replace(" 0", " 3"), lines[-2].replace(" 0", " 3")]))
    with pytest.raises(ValueError, match=r"line 81: the same pair as at .*line 79"):
        read_pairs(path)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.txt: there is no such file"):
        read_pairs(tmp_path / "nowhere.txt")
    (tmp_path / "x.txt").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read_pairs(tmp_path / "x.txt")
