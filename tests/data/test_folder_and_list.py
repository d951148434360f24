"""Image folders and list files."""

import os
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, FolderSource, ListSource, Subset, check_readable, write_folder, write_list
from tests.data.samples import PEOPLE, Failing, arrays, make_folder, picture, same_images, saved


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", people=("b", "a b", "a"))
    (root / "a" / "deep" / "er").mkdir(parents=True)
    (root / "a" / "deep" / "er" / "x.PNG").write_bytes(saved(picture(9), "PNG"))
    (root / "a" / "notes.txt").write_text("not an image")
    (root / ".git").mkdir()
    (root / "overview.png").write_bytes(b"x")
    source = FolderSource(root)
    assert source.names == ["a", "a b", "b"]
    assert source.files == ["a/0.jpg", "a/1.jpg", "a/deep/er/x.PNG", "a b/0.jpg", "a b/1.jpg", "b/0.jpg", "b/1.jpg"]
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert source.labels.dtype == np.int64
    assert source.describe(2) == str(root / "a" / "deep" / "er" / "x.PNG")
    np.testing.assert_array_equal(source.read(2), picture(9))


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is missing"):
        FolderSource(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no folders; expected one folder of images per identity"):
        FolderSource(tmp_path)
    root = make_folder(tmp_path / "set")
    (root / "Empty").mkdir()
    (root / "Void").mkdir()
    with pytest.raises(ValueError, match="set: 2 identities have no image: Empty, Void"):
        FolderSource(root)
    (root / "Empty").rmdir()
    (root / "Void").rmdir()
    (root / "Ada" / "loop").symlink_to(root / "Ada")
    with pytest.raises(ValueError, match="loop is a link to a folder that contains it"):
        FolderSource(root)


def test_splits(tmp_path: Path) -> None:
    make_folder(tmp_path / "train")
    make_folder(tmp_path / "test", each=1)
    assert len(FolderSource(tmp_path, split="test")) == 3
    with pytest.raises(ValueError, match="holds the splits test, train; say which with the option split"):
        FolderSource(tmp_path)


def test_a_folder_is_written_with_the_same_bytes(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    steps: list[tuple[int, int]] = []
    write_folder(source, tmp_path / "new" / "copy", progress=lambda done, total: steps.append((done, total)))
    copy = FolderSource(tmp_path / "new" / "copy")
    assert copy.names == list(PEOPLE)
    assert [copy.encoded(k) for k in range(6)] == [source.encoded(k) for k in range(6)]
    assert copy.files[0] == "Ada/0000.jpg"
    assert steps == [(k, 6) for k in range(1, 7)]


def test_a_folder_written_from_memory_keeps_pixels_and_order(tmp_path: Path) -> None:
    source = arrays(each=1, people=12)
    write_folder(source, tmp_path / "copy")
    copy = FolderSource(tmp_path / "copy")
    assert copy.names[:3] == ["00", "01", "02"]
    assert same_images(source, copy)
    write_folder(source, tmp_path / "lossy", quality=90)
    assert FolderSource(tmp_path / "lossy").files[0].endswith(".jpg")


def test_a_folder_is_written_all_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        write_folder(Failing(), tmp_path / "copy")
    nameless = ArraySource(np.zeros((2, 4, 4, 3), dtype=np.uint8), [0, -1])
    with pytest.raises(ValueError, match="array: image 1 has no identity; an image folder cannot hold it"):
        write_folder(nameless, tmp_path / "copy")
    for names, message in [
        (["../up", "b"], "leaves its root"),
        ([".x", "b"], "hidden folder"),
        (["a/b", "a_b"], "two identities would share the folder 'a_b'"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_folder(ArraySource(np.zeros((2, 4, 4, 3), dtype=np.uint8), [0, 1], names), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def lines(path: Path, *text: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in text))
    return path


def test_a_list_with_labels(tmp_path: Path) -> None:
    make_folder(tmp_path, people=("a", "b c"))
    path = lines(tmp_path / "list.txt", "a/0.jpg 1", "", "b c/0.jpg  0", "./a/1.jpg\t1", "'b c/1.jpg' 0\r")
    source = ListSource(path)
    assert source.files == ["a/0.jpg", "b c/0.jpg", "a/1.jpg", "b c/1.jpg"]
    assert source.labels.tolist() == [1, 0, 1, 0]
    assert source.names == ["b c", "a"]
    assert source.read(1).shape == (12, 10, 3)
    assert source.describe(0) == str(tmp_path / "a/0.jpg")


def test_a_list_without_labels_takes_the_folder(tmp_path: Path) -> None:
    make_folder(tmp_path / "images" / "deep")
    path = lines(tmp_path / "list.txt", "deep/Cy/0.jpg", "deep/Ada/1.jpg", '"deep/Cy/1.jpg"')
    source = ListSource(path, root=tmp_path / "images")
    assert source.names == ["deep/Ada", "deep/Cy"]
    assert source.labels.tolist() == [1, 0, 1]


def test_names_are_numbers_where_folders_and_labels_differ(tmp_path: Path) -> None:
    make_folder(tmp_path)
    assert ListSource(lines(tmp_path / "x.txt", "Ada/0.jpg 0", "Ada/1.jpg 1", "Cy/0.jpg -1")).names == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (["Ada/0.jpg 0", "/etc/passwd 1"], r"line 2: '/etc/passwd' is an absolute path"),
        (["../x.jpg 0"], r"line 1: '\.\./x\.jpg' leaves its root"),
        (["Ada/0.jpg 0", "link.jpg 1"], r"line 2: 'link\.jpg' leads outside of"),
        (
            ["Ada/0.jpg 0", "Ada/9.jpg 0", "", "No/1.jpg 1"],
            r"2 of 3 files are missing .*'Ada/9.jpg' \(line 2\), 'No/1.jpg' \(line 4\)",
        ),
        (["Ada/0.jpg 0", "Cy/0.jpg 1", "./Ada/0.jpg 0"], r"line 3: 'Ada/0\.jpg' was on line 1 already"),
        (["Ada/0.jpg 0", "Cy/0.jpg"], r"line 2: some lines have a label and some have none"),
        (["Ada/0.jpg 0", "Cy/0.jpg 2"], r"gap: of 0\.\.2, 1 have no image \(1\)"),
        (["Ada/0.jpg\tx"], r"line 1: label 'x' is not an integer"),
        (["1\tAda/0.jpg\t0"], r"line 1: 3 fields; expected 'path label' or 'path'"),
        (["'Ada/0.jpg 0"], r"line 1: no closing quotation"),
        (["Ada/0.jpg -3"], r"line 1: label -3 is out of range; expected a whole number from -1"),
        (["bare.jpg"], r"'bare\.jpg' has neither a label nor a folder"),
        ([], r"list\.txt: no images"),
    ],
)
def test_lists_that_are_refused(tmp_path: Path, text: list[str], message: str) -> None:
    root = make_folder(tmp_path / "root")
    (root / "bare.jpg").write_bytes(b"x")
    (tmp_path / "outside.jpg").write_bytes(b"x")
    (root / "link.jpg").symlink_to(tmp_path / "outside.jpg")
    with pytest.raises(ValueError, match=message):
        ListSource(lines(root / "list.txt", *text))


def test_a_binary_file_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"a.jpg\xff\xd8")
    with pytest.raises(ValueError, match=r"list\.txt: byte 5 is not UTF-8 text"):
        ListSource(tmp_path / "list.txt")


def test_gaps_can_be_closed(tmp_path: Path) -> None:
    make_folder(tmp_path)
    path = lines(tmp_path / "list.txt", "Ada/0.jpg 7", "Cy/0.jpg 3", "Cy/1.jpg -1")
    source = ListSource(path, relabel=True)
    assert source.labels.tolist() == [1, 0, -1]
    assert source.names == ["Cy", "Ada"]


def test_a_list_is_written_and_read_back(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", people=("a b", "c", "d"))
    source = FolderSource(root)
    part = Subset(source, [5, 0, 1])
    write_list(part, tmp_path / "list.txt")
    assert (tmp_path / "list.txt").read_text() == "set/d/1.jpg 1\n'set/a b/0.jpg' 0\n'set/a b/1.jpg' 0\n"
    copy = ListSource(tmp_path / "list.txt")
    assert copy.labels.tolist() == part.labels.tolist()
    assert same_images(copy, part)
    write_list(source, tmp_path / "lists" / "all.txt", root=root)
    assert same_images(ListSource(tmp_path / "lists" / "all.txt", root=root), source)


def test_lists_that_cannot_be_written(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    with pytest.raises(ValueError, match=r"0\.jpg does not lie below the list's root .*elsewhere; give root="):
        write_list(source, tmp_path / "elsewhere" / "list.txt")
    with pytest.raises(ValueError, match="is not a file of its own; convert to an image folder first"):
        write_list(arrays(), tmp_path / "list.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_a_monster_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folder(tmp_path / "set")
    os.mkfifo(root / "Ada" / "9.jpg")
    (root / "Bo_Lee" / "9.jpg").write_bytes(bytes(5000))
    monkeypatch.setattr("hypersphere.data.formats.folder.MAX_BYTES", 4999)
    source = FolderSource(root)
    messages = [message for _, message in check_readable(source, limit_share=1.0).unreadable]
    assert messages == [
        f"{root}/Ada/9.jpg: not a regular file",
        f"{root}/Bo_Lee/9.jpg: 5,000 bytes, more than the 4,999 of an image",
    ]
