"""Verification packs: as Python 2 and 3 pickle them, and as somebody hostile would."""

import builtins
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from hypersphere.data import ArraySource, FolderSource, PackSource, write_pack
from tests.data.samples import Failing, arrays, make_folder, picture, same_images, saved

FACES = [saved(picture(k)) for k in range(4)]
SAME = [True, False]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def python_2(protocol: int) -> bytes:
    """What Python 2's pickle writes for (list of str, list of bool), opcode by opcode."""
    if protocol == 2:
        images = b"".join(
            b"T" + struct.pack("<i", len(face)) + face + b"q" + bytes([k + 3]) for k, face in enumerate(FACES)
        )
        return b"\x80\x02]q\x01(" + images + b"e]q\x02(\x88\x89e\x86q\x00."
    escaped = [face.decode("latin1").encode("unicode_escape").replace(b"'", b"\\'") for face in FACES]
    images = b"".join(b"S'" + face + b"'\np" + str(k + 3).encode() + b"\na" for k, face in enumerate(escaped))
    return b"((lp1\n" + images + b"(lp2\nI01\naI00\natp0\n."


@pytest.mark.parametrize("protocol", [0, 2])
def test_packs_of_python_2(tmp_path: Path, protocol: int) -> None:
    pack = PackSource(write(tmp_path / "lfw.bin", python_2(protocol)))
    assert [pack.encoded(k) for k in range(4)] == FACES
    assert pack.same.tolist() == SAME


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "content",
    [
        (FACES, SAME),
        [tuple(FACES), [1, 0]],
        (FACES, [np.bool_(True), np.bool_(False)]),
        (FACES, np.array(SAME)),
        ([np.frombuffer(face, dtype=np.uint8) for face in FACES], SAME),
        ([np.frombuffer(face, dtype=np.uint8).copy() for face in FACES], np.array(SAME)),
        (FACES, np.array([1, 0], dtype=np.int64)),
    ],
    ids=["plain", "tuples", "numpy bool", "numpy bools", "arrays", "own arrays", "numbers"],
)
def test_packs_of_python_3(tmp_path: Path, content: Any, protocol: int) -> None:
    pack = PackSource(write(tmp_path / "lfw.bin", pickle.dumps(content, protocol)))
    assert [pack.encoded(k) for k in range(4)] == FACES
    assert pack.same.dtype == np.bool_
    assert pack.same.tolist() == SAME


def test_numpy_1_packs_of_python_2(tmp_path: Path) -> None:
    """numpy.bool_ as numpy 1 under Python 2 pickles it, with native strings."""
    kind = b"cnumpy\ndtype\n(U\x02b1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    scalars = b"".join(b"cnumpy.core.multiarray\nscalar\n(" + kind + b"U\x01" + bytes([one]) + b"tR" for one in SAME)
    images = b"".join(b"T" + struct.pack("<i", len(face)) + face for face in FACES)
    pack = PackSource(write(tmp_path / "lfw.bin", b"\x80\x02](" + images + b"e](" + scalars + b"e\x86."))
    assert pack.same.tolist() == SAME


def test_a_pack_is_a_source_without_identities(tmp_path: Path) -> None:
    pack = PackSource(write(tmp_path / "lfw.bin", pickle.dumps((FACES, SAME))))
    assert len(pack) == 4
    assert pack.num_classes == 0
    assert pack.labels.tolist() == [-1] * 4
    assert pack.describe(3) == f"{tmp_path / 'lfw.bin'}: image 3 (pair 1)"
    assert pack.batch([0, 1]).shape == (2, 3, 12, 10)


class Call:
    """Pickles as a call of anything."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_code_in_a_pack_is_refused_by_name_and_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = f"touch {trace}"
    calls = [
        (Call(os.system, command), "posix.system"),
        (Call(subprocess.check_output, ["touch", str(trace)]), "subprocess.check_output"),
        (Call(builtins.eval, f"open({str(trace)!r}, 'w')"), "builtins.eval"),
        (Call(open, str(trace), "w"), "(_io|io).open"),
        (Call(getattr, "text", "format"), "builtins.getattr"),
        (Call(np.fromfile, str(tmp_path / "lfw.bin")), "numpy.*fromfile"),
        (Call(bytearray, 10**12), "builtins.bytearray"),
        (Call(np.zeros, 10**12), "numpy.*zeros"),
    ]
    for evil, name in calls:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            for content in (evil, (FACES, [evil, False]), ([evil, *FACES[1:]], SAME)):
                data = pickle.dumps(content, protocol, fix_imports=False)
                with pytest.raises(ValueError, match=rf"lfw\.bin: refused: the file asks for {name};"):
                    PackSource(write(tmp_path / "lfw.bin", data))
    assert not trace.exists()


def test_pieces_of_numpy_that_could_be_abused_are_refused(tmp_path: Path) -> None:
    cases = [
        (pickle.dumps((FACES, np.array([True, None], dtype=object))), "an array of type 'O8'"),
        (pickle.dumps((FACES, np.array([1.0, 0.0]))), "an array of type 'f8'"),
        (pickle.dumps((FACES, np.array([1, 0], dtype=">i4"))), "big-endian"),
        (b"cnumpy.f2py.crackfortran\nmyeval\n.", "numpy.f2py.crackfortran.myeval"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0bf2py.myeval\x93.", "numpy.f2py.myeval"),
        (b"cnumpy.core.multiarray\nscalar\n(NNtb.", "the file changes a function"),
        (pickle.dumps({"images": FACES}), "a set or a dictionary"),
        (pickle.dumps({1, 2}, 4), "a set or a dictionary"),
        (pickle.dumps(frozenset({1, 2}), 4), "a set or a dictionary"),
        (b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x06\x00\x00\x00base64tR.", "another form than Latin-1"),
        (b"c__builtin__\nbytes\n(J\xff\xff\xff\x7ftR.", "another form than Latin-1"),
        (b"Pname\n.", "a persistent object"),
        (b"\x80\x02U\x01xQ.", "a persistent object"),
        (b"\x80\x02\x82\x01.", "extension 1"),
    ]
    for data, message in cases:
        with pytest.raises(ValueError, match=rf"lfw\.bin: refused: .*{message}"):
            PackSource(write(tmp_path / "lfw.bin", data))


def test_a_number_in_the_file_takes_no_memory(tmp_path: Path) -> None:
    """A memo index of 4 billion makes the C unpickler clear 64 GB."""
    data = b"\x80\x02]r\xff\xff\xff\xff]\x86."
    with pytest.raises(ValueError, match=r"0 images for 0 pairs"):
        PackSource(write(tmp_path / "lfw.bin", data))
    for lying in (
        b"B\xff\xff\xff\x7fabc.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
    ):
        with pytest.raises(ValueError, match="not a readable pickle, or truncated"):
            PackSource(write(tmp_path / "lfw.bin", lying))


def test_copies_take_no_more_memory_than_the_file_has_bytes(tmp_path: Path) -> None:
    """One text of a megabyte, encoded two thousand times; a byte array of 3 GiB in a file of twelve bytes."""
    text = b"X" + struct.pack("<I", 2**20) + b"a" * 2**20
    encode = b"c_codecs\nencode\nq\x00" + text + b"q\x01X\x06\x00\x00\x00latin1q\x02"
    bomb = b"\x80\x02](" + encode + b"000" + b"h\x00h\x01h\x02\x86R" * 2000 + b"e]\x86."
    short = b"\x80\x05\x96" + struct.pack("<Q", 3 * 2**30) + b"."
    for number, data in enumerate((bomb, short)):
        write(tmp_path / f"{number}.bin", data)
    program = """
        import resource, sys
        from hypersphere.data import PackSource
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for path in sys.argv[1:]:
            try:
                PackSource(path)
            except ValueError as error:
                print(error)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used)
    """
    paths = [str(tmp_path / f"{number}.bin") for number in range(2)]
    done = subprocess.run([sys.executable, "-c", dedent(program), *paths], capture_output=True, text=True, check=True)
    first, second, kilobytes = done.stdout.splitlines()
    assert first.endswith("0.bin: refused: the file copies more bytes than it has")
    assert "1.bin: not a readable pickle, or truncated (a byte array longer than the file)" in second
    assert int(kilobytes) < 64 * 1024


def test_an_error_without_words_is_called_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lfw\.bin: not a readable pickle, or truncated \(\w+"):
        PackSource(write(tmp_path / "lfw.bin", b"\x80\x02]"))


def test_random_damage_gives_a_pack_or_a_value_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = ([face[:8] for face in FACES], [np.bool_(True), False])
    for protocol in (0, 2, 4):
        whole = np.frombuffer(pickle.dumps(content, protocol), dtype=np.uint8)
        for _ in range(100):
            damaged = whole.copy()
            damaged[rng.integers(0, len(whole), 3)] = rng.integers(0, 256, 3)
            try:
                PackSource(write(tmp_path / "lfw.bin", damaged.tobytes()))
            except ValueError as error:
                assert "lfw.bin: " in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FACES[0], r"expected \(images, same\), found bytes"),
        ((FACES, SAME, 1), r"found tuple of 3"),
        ((FACES, [True]), r"4 images for 1 pairs; expected two each"),
        (([], []), r"0 images for 0 pairs"),
        (([1, 2, 3, 4], SAME), r"image 0: expected the bytes of an encoded image, found int"),
        (([np.zeros((2, 2), np.uint8)] * 4, SAME), r"image 0: expected the bytes"),
        ((FACES, ["yes", "no"]), r"pair 0: expected true or false, found 'yes'"),
        ((FACES, [True, 2]), r"pair 1: expected true or false, found 2"),
        ((5, SAME), r"expected a list, found int"),
    ],
)
def test_pickles_that_are_no_packs(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackSource(write(tmp_path / "lfw.bin", pickle.dumps(content)))


def test_truncated_empty_and_missing_packs(tmp_path: Path) -> None:
    whole = pickle.dumps((FACES, SAME))
    for cut in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError, match=r"lfw\.bin: not a readable pickle, or truncated"):
            PackSource(write(tmp_path / "lfw.bin", whole[:cut]))
    with pytest.raises(ValueError, match=r"no\.bin is missing"):
        PackSource(tmp_path / "no.bin")


def test_written_packs(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    write_pack(source, tmp_path / "x.bin", pairs=[[0, 1], [1, 2], [4, 5]])
    with (tmp_path / "x.bin").open("rb") as file:
        images, same = pickle.load(file, encoding="bytes")
    assert images == [source.encoded(k) for k in (0, 1, 1, 2, 4, 5)]
    assert same == [True, False, True]
    pack = PackSource(tmp_path / "x.bin")
    write_pack(pack, tmp_path / "y.bin")
    assert PackSource(tmp_path / "y.bin").same.tolist() == same
    assert same_images(PackSource(tmp_path / "y.bin"), pack)
    write_pack(arrays(), tmp_path / "z.bin", same=[True, False, True])
    assert same_images(PackSource(tmp_path / "z.bin"), arrays())


def test_packs_that_cannot_be_written(tmp_path: Path) -> None:
    blank = ArraySource(np.zeros((3, 4, 4, 3), dtype=np.uint8))
    for options, message in [
        ({}, "the 3 images must be an even number"),
        ({"pairs": [[0, 3]]}, "pairs reach from 0 to 3; the source has 3 images"),
        ({"pairs": [0, 1]}, r"pairs must be \(P, 2\) indices"),
        ({"pairs": [[0, 1]], "same": [True, False]}, "same has 2 entries for 1 pairs"),
        ({"pairs": [[0, 1]]}, "same is needed for images without identity"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_pack(blank, tmp_path / "x.bin", **options)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Input/output"):
        write_pack(Failing(), tmp_path / "x.bin")
    assert list(tmp_path.iterdir()) == []
