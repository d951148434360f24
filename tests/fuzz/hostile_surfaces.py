"""Surfaces of input that means harm: images that unpack to much more, pickles that would run something."""

import io
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import torch

from hypersphere.data import PackSource, decode
from hypersphere.data.image_limits import MAX_MEMORY
from hypersphere.training import Checkpoints
from hypersphere.training.checkpoints import load_weights
from tests.data.samples import picture, saved
from tests.fuzz.surface import CallSurface, Surface

_SIDES = (1, 10, 100, 1000, 4000, 8191, 20_000, 65_500)


def _png(rng: random.Random) -> bytes:
    """A PNG of any stated size, whose data are zeros: fewer than it needs, as many, or more."""
    width, height = rng.choice(_SIDES), rng.choice(_SIDES)
    depth, colour = rng.choice(((8, 2), (1, 0), (16, 6), (8, 3), (16, 0)))
    rows = bytes(min(1 << 24, (width * {2: 24, 0: depth, 6: 64, 3: 8}[colour] // 8 + 1) * height))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, rng.choice((0, 1)))
    chunks = [(b"IHDR", header), (b"PLTE", bytes(3)) if colour == 3 else (b"tEXt", b"a\0b")]
    for _ in range(rng.choice((0, 0, 1))):
        chunks.append((rng.choice((b"zTXt", b"iCCP")), b"x\0\0" + zlib.compress(bytes(1 << 22))))
    chunks += [(b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _scans(rng: random.Random) -> bytes:
    """A progressive JPEG with its last scan repeated."""
    side = rng.choice((16, 64, 256, 1000))
    data = saved(picture(rng.randrange(9), side, side), progressive=True)
    start = data.rindex(b"\xff\xda")
    times = rng.choice((10, 100, 1000, 20_000))
    return data[:start] + data[start:-2] * times + b"\xff\xd9"


def _stated(rng: random.Random) -> bytes:
    """A small image of any kind that states another size."""
    kind, place, form = rng.choice(
        (("BMP", 18, "<ii"), ("GIF", 6, "<HH"), ("WEBP", 26, "<HH"), ("JPEG", 0, ">HH"), ("TIFF", 0, "<II"))
    )
    data = bytearray(saved(picture(1), kind))
    if kind == "JPEG":
        place = data.index(b"\xff\xc0") + 5
    if kind == "TIFF":
        directory = struct.unpack_from("<I", data, 4)[0]
        for entry in range(struct.unpack_from("<H", data, directory)[0]):
            here = directory + 2 + 12 * entry
            if struct.unpack_from("<H", data, here)[0] in (256, 257):
                struct.pack_into("<I", data, here + 8, rng.choice(_SIDES))
        return bytes(data)
    struct.pack_into(form, data, place, *(rng.choice(_SIDES) & 0xFFFF for _ in range(2)))
    return bytes(data)


def _flat(rng: random.Random) -> bytes:
    """A large image of one colour, which takes few bytes."""
    from PIL import Image

    side, kind = rng.choice((500, 2000, 4000)), rng.choice(("WEBP", "GIF", "JPEG", "TIFF"))
    mode = "P" if kind == "GIF" else "RGB"  # Pillow would look for 256 colours, pixel by pixel
    return saved(Image.new(mode, (side, side)), kind, **rng.choice(({}, {"quality": 1})))


def call_bomb(rng: random.Random, folder: Path) -> None:
    """Decode a bomb; limits of time and memory are the pool's."""
    make: Callable[[random.Random], bytes] = rng.choice((_png, _scans, _stated, _stated, _flat))
    decode(make(rng), "bomb.img")


_TARGETS = (
    ("os", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("posix", "system"),
    ("subprocess", "getoutput"),
)
_DECOYS = (
    *(
        ("builtins", "getattr"),
        ("torch", "load"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("collections", "OrderedDict"),
    ),
    *(("numpy", "dtype"), ("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("_codecs", "encode")),
    *(("torch", "Size"), ("torch.distributed.checkpoint.metadata", "Metadata"), ("torch", "float32"), ("os", "path")),
)


def hostile_pickle(rng: random.Random, marker: Path) -> bytes:
    """A pickle that would make a file if what it asks for were run, wrapped in more or less sense."""
    module, name = rng.choice(_TARGETS)
    words = f"touch {marker}" if name in ("system", "getoutput") else f"open({str(marker)!r}, 'w').close()"
    program = bytearray(pickle.PROTO + bytes([rng.choice((2, 4, 5))]))
    for _ in range(rng.randrange(4)):
        decoy = rng.choice(_DECOYS)
        program += pickle.GLOBAL + f"{decoy[0]}\n{decoy[1]}\n".encode()
        program += rng.choice((b"", b"0", b"q\x01", b")R", b")R0", b"}b", b")\x81", b"(lR"))
    program += rng.choice((b"", b"(", b"]", b"}", b"(l"))
    form = rng.randrange(4)
    text = struct.pack("<I", len(words)) + words.encode()
    if form == 0:
        program += pickle.GLOBAL + f"{module}\n{name}\n".encode() + b"X" + text + b"\x85R"
    elif form == 1:
        program += b"(X" + text + pickle.INST + f"{module}\n{name}\n".encode()
    elif form == 2:
        for word in (module, name):
            program += b"\x8c" + bytes([len(word)]) + word.encode()
        program += b"\x93X" + text + b"\x85R"
    else:
        program += b"(" + pickle.GLOBAL + f"{module}\n{name}\n".encode() + b"X" + text + b"o"
    program += rng.choice((b".", b"0N.", b"a.", b"\x85.", b"b.", b""))
    if rng.random() < 0.2:
        program[rng.randrange(2, len(program))] = rng.randrange(256)
    return bytes(program)


def call_pickle(rng: random.Random, folder: Path) -> str | None:
    """Hand a hostile pickle to one of the readers of pickles."""
    marker = folder / "ran"
    data = hostile_pickle(rng, marker)
    try:
        rng.choice((_as_pack, _as_weights, _as_zip, _as_checkpoint))(data, folder)
    finally:
        if marker.exists():
            marker.unlink()
            return "the file's code was run"  # noqa: B012
    return None


def _as_pack(data: bytes, folder: Path) -> None:
    (folder / "a.bin").write_bytes(data)
    PackSource(folder / "a.bin")


def _as_weights(data: bytes, folder: Path) -> None:
    (folder / "weights.pt").write_bytes(data)
    load_weights(folder / "weights.pt")


def _zipped(data: bytes) -> bytes:
    made, buffer = io.BytesIO(), io.BytesIO()
    torch.save({"x": torch.zeros(1)}, made)
    with zipfile.ZipFile(made) as sound, zipfile.ZipFile(buffer, "w") as archive:
        for name in sound.namelist():
            archive.writestr(name, data if name.endswith("data.pkl") else sound.read(name))
    return buffer.getvalue()


def _as_zip(data: bytes, folder: Path) -> None:
    _as_weights(_zipped(data), folder)


def _as_checkpoint(data: bytes, folder: Path) -> None:
    from tests.fuzz.run_surfaces import resigned

    kept = Checkpoints(folder / "checkpoints", keep=1)
    path = kept.save(3, {"step": 3})
    side = path.with_suffix(".json")
    sealed = resigned({path.name: path.read_bytes(), side.name: side.read_bytes()}, {path.name: _zipped(data)})
    for name, content in sealed.items():
        path.with_name(name).write_bytes(content or b"")
    kept.load(3)


HOSTILE: list[Surface] = [
    CallSurface("image bombs", 60, call_bomb, "limits of time and memory", words=("bomb.img",), memory=MAX_MEMORY),
    CallSurface(
        "hostile pickles",
        300,
        call_pickle,
        "nothing of the file's is run",
        words=("a.bin", "weights.pt", "step-"),
    ),
]
