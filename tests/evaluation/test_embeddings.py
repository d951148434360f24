"""Embeddings by name: found, or refused with the name, the file and the line."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Embeddings, concatenated, load_embeddings


def save(folder: Path, values: np.ndarray, names: str) -> tuple[Path, Path]:
    np.save(folder / "E.npy", values)
    (folder / "L.txt").write_text(names)
    return folder / "E.npy", folder / "L.txt"


def test_rows_come_by_name_in_the_order_asked_for(tmp_path: Path) -> None:
    files = save(tmp_path, np.arange(6.0).reshape(3, 2), "Ada/1.jpg\n\nBo Lee/1.jpg 7\nCy/1.png\t3\n")
    embeddings = load_embeddings(*files)
    assert embeddings.names == ("Ada/1.jpg", "Bo Lee/1.jpg", "Cy/1.png")
    assert embeddings.dim == 2
    assert embeddings.values.dtype == np.float32
    assert embeddings.of(["Cy/1.jpg", "Ada/1.jpg", "Cy/1.png"]).tolist() == [[4, 5], [0, 1], [4, 5]]
    assert embeddings.find(["Ada/1.jpg", "nobody"]).tolist() == [0, -1]
    assert embeddings.options == {"embeddings": "E.npy", "list": "L.txt"}
    with pytest.raises(ValueError, match=r"no embedding of 'nobody', 'none'$"):
        embeddings.of(["nobody", "Ada/1.jpg", "none", "nobody"])


def test_a_suffix_may_differ_only_where_that_leaves_one_image() -> None:
    embeddings = Embeddings(["a.jpg", "a.png", "b.v2"], np.eye(3))
    assert embeddings.find(["a.png", "a.webp", "a", "b.v2", "b.v3"]).tolist() == [1, -1, -1, 2, -1]


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        (np.ones((2, 3)), "a\n", r"L.txt has 1 names, but .*E.npy has 2 rows"),
        (np.ones((2, 3)), "a\nb\na\n", r"L.txt, line 3: 'a' was on line 1 already"),
        (np.ones((2, 3)), "", r"L.txt: no names"),
        (np.ones(3), "a\nb\nc\n", r"E.npy has shape \(3,\)"),
        (np.ones((2, 3), dtype=np.int64), "a\nb\n", r"E.npy: expected one array of floats"),
        (np.array([[1.0], [np.nan]]), "a\n\nb\n", r"E.npy row 1 is not finite \('b', .*L.txt, line 3\)"),
        (np.array([[None], [1]], dtype=object), "a\nb\n", r"E.npy: not a readable .npy array"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, values: np.ndarray, names: str, message: str) -> None:
    files = save(tmp_path, values, names)
    with pytest.raises(ValueError, match=message):
        load_embeddings(*files)


def test_missing_or_foreign_files(tmp_path: Path) -> None:
    array, names = save(tmp_path, np.ones((1, 2)), "a\n")
    for files in [(tmp_path / "no.npy", names), (array, tmp_path / "no.txt")]:
        with pytest.raises(ValueError, match=r"no\.\w+: there is no such file"):
            load_embeddings(*files)
    (tmp_path / "broken.npy").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"broken\.npy: not a readable \.npy array"):
        load_embeddings(tmp_path / "broken.npy", names)
    names.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"L\.txt: byte 0 is not UTF-8"):
        load_embeddings(array, names)


def test_names_and_rows_must_agree() -> None:
    with pytest.raises(ValueError, match="1 names for 2 embeddings"):
        Embeddings(["a"], np.ones((2, 2)))
    with pytest.raises(ValueError, match="names hold 'a' twice"):
        Embeddings(["a", "b", "a"], np.ones((3, 2)))


def test_patches_side_by_side_keep_the_images_that_all_have() -> None:
    one = Embeddings(["a", "b", "c"], np.eye(3), {"model": "x"})
    two = Embeddings(["c", "a"], np.array([[7.0], [8.0]]), {"model": "y"})
    both = concatenated([one, two])
    assert both.names == ("a", "c")
    assert both.values.tolist() == [[1, 0, 0, 8], [0, 0, 1, 7]]
    assert both.options == {"concatenated": [{"model": "x"}, {"model": "y"}]}
    with pytest.raises(ValueError, match="no image in common"):
        concatenated([one, Embeddings(["d"], np.ones((1, 1)))])
