"""Names stay inside their root; bytes are read from any thread."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hypersphere.data.file_access import ByteFile, Root, is_image_name, safe_name


@pytest.mark.parametrize("name", ["a/b.jpg", "./a//b.jpg", "a/./b.jpg"])
def test_safe_names(name: str) -> None:
    assert safe_name(name, "x") == "a/b.jpg"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/etc/passwd", "absolute"),
        ("C:/x.jpg", "absolute"),
        ("../x.jpg", "leaves its root"),
        ("a/../../x.jpg", "leaves its root"),
        ("a/..", "leaves its root"),
        (".", "leaves its root"),
        ("..\\x.jpg", "backslash"),
        ("", "empty name"),
        ("a\0.jpg", "NUL"),
    ],
)
def test_unsafe_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^list, line 3: .*{message}"):
        safe_name(name, "list, line 3")


def test_image_names() -> None:
    assert is_image_name("a.b/x.JPEG")
    assert not any(is_image_name(name) for name in ("a.jpg/readme", "a/.hidden.jpg", "a/._x.jpg", "Thumbs.db", "jpg"))


def test_links_cannot_lead_out_of_a_root(tmp_path: Path) -> None:
    inside, outside = tmp_path / "root", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.jpg").write_bytes(b"x")
    (inside / "real.jpg").write_bytes(b"x")
    (inside / "near.jpg").symlink_to(inside / "real.jpg")
    (inside / "far.jpg").symlink_to(outside / "secret.jpg")
    (inside / "folder").symlink_to(outside)
    root = Root(inside)
    assert root.check("near.jpg", "it")
    assert not root.check("absent.jpg", "it")
    for name in ("far.jpg", "folder/secret.jpg"):
        with pytest.raises(ValueError, match=f"it: '{name}' leads outside of .*root through a symbolic link"):
            root.check(name, "it")
    with pytest.raises(ValueError, match="is missing"):
        Root(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="not a folder"):
        Root(inside / "real.jpg")


def test_a_root_that_is_itself_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.jpg").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Root(tmp_path / "link").check("a.jpg", "it")


def test_byte_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(200)) * 50)
    file = ByteFile(path)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda k: file.read(200 * k + k, 3), range(50)))
    assert parts == [bytes([k, k + 1, k + 2]) for k in range(50)]
    copy = pickle.loads(pickle.dumps(file))
    assert copy.read(5, 2) == bytes([5, 6])
    for offset, size in [(9_999, 2), (-1, 2), (20_000, 0)]:
        with pytest.raises(
            ValueError, match=rf"x: {size} bytes at offset {offset} lie outside of the file \(10000 bytes\)"
        ):
            file.read(offset, size)
    os.truncate(path, 100)
    with pytest.raises(ValueError, match="ends within the 4 bytes at offset 98"):
        file.read(98, 4)
    for each in (file, copy):
        each.close()
