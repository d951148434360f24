"""Verification packs (`lfw.bin`): pairs of images and whether they are one person, as InsightFace evaluates them."""

from __future__ import annotations

import codecs
import io
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, Staged
from hypersphere.data.formats.folder import stored_images
from hypersphere.data.images import suffix_of
from hypersphere.data.source import EncodedSource, ImageSource


class PackSource(EncodedSource):
    """The images of a verification pack; images 2i and 2i + 1 are pair i. They have no identities: every label is -1.

    The file is a pickle, of Python 2 or 3. It is read by an unpickler that knows lists, tuples, bytes, text, numbers
    and numpy's arrays of bytes and booleans, and refuses everything else by name: no code of the file's is ever run.

    Args:
        path: the `.bin`.

    Attributes:
        same: (pairs,) bool, whether the two images show one person.

    Example:
        >>> pack = PackSource("lfw.bin")
        >>> len(pack), pack.same.tolist()
        (8, [True, True, False, False])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ValueError(f"{self.path} is missing, or not a file")
        content = read_pickle(self.path)
        if not isinstance(content, (tuple, list)) or len(content) != 2:
            raise ValueError(f"{self.path}: expected (images, same), found {_kind(content)}")
        images, same = (_items(part, self.path) for part in content)
        if len(images) != 2 * len(same) or not len(images):
            raise ValueError(f"{self.path}: {len(images)} images for {len(same)} pairs; expected two each")
        self._images = [_image(item, self.path, k) for k, item in enumerate(images)]
        truths = (_truth(item, self.path, k) for k, item in enumerate(same))
        self.same: npt.NDArray[np.bool_] = np.fromiter(truths, dtype=np.bool_, count=len(same))
        super().__init__(np.full(len(self._images), -1, dtype=np.int64), [])

    def describe(self, index: int) -> str:
        """File, image and pair."""
        return f"{self.path}: image {index} (pair {index // 2})"

    def encoded(self, index: int) -> bytes:
        """The image, as stored."""
        return bytes(self._images[index])


def write_pack(
    source: ImageSource,
    path: str | Path,
    *,
    pairs: npt.ArrayLike | None = None,
    same: Sequence[bool] | npt.NDArray[np.bool_] | None = None,
    quality: int | None = None,
    progress: Reporter | None = None,
) -> None:
    """Write a verification pack that InsightFace's evaluators read; all or nothing. Stored bytes are copied.

    Args:
        source: the images.
        path: the new `.bin`.
        pairs: (P, 2) indices of the images; by default images 0 and 1, 2 and 3, ...
        same: whether each pair shows one person; by default whether the labels are equal, or the pack's own.
        quality: of images that are not stored as bytes: None for PNG, 1 to 100 for JPEG.
        progress: called as `progress(done, total)`.
    """
    rows = np.arange(len(source)).reshape(-1, 2) if pairs is None and len(source) % 2 == 0 else np.asarray(pairs)
    if rows.ndim != 2 or rows.shape[1:] != (2,) or not len(rows) or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"pairs must be (P, 2) indices; without them the {len(source)} images must be an even number")
    if rows.min() < 0 or rows.max() >= len(source):
        raise ValueError(f"pairs reach from {rows.min()} to {rows.max()}; the source has {len(source)} images")
    truth = _truths(source, rows, same if same is not None or pairs is not None else getattr(source, "same", None))
    images = []
    for data, index in zip(stored_images(source, quality, progress, rows.reshape(-1)), rows.reshape(-1), strict=True):
        suffix_of(data, source.describe(int(index)))
        images.append(data)
    with Staged() as stage:
        stage.open(Path(path)).write(pickle.dumps((images, truth), protocol=4))


def _truths(source: ImageSource, rows: npt.NDArray[Any], same: Any) -> list[bool]:
    if same is not None:
        if len(same) != len(rows):
            raise ValueError(f"same has {len(same)} entries for {len(rows)} pairs")
        return [bool(one) for one in same]
    labels = np.asarray(source.labels)[rows]
    if labels.min() < 0:
        raise ValueError("same is needed for images without identity")
    return [bool(one) for one in labels[:, 0] == labels[:, 1]]


def read_pickle(path: Path) -> Any:
    """The plain content of a pickle; ValueError with the file's name for anything else."""
    data = path.read_bytes()
    try:
        return _PlainUnpickler(data).load()
    except _RefusedError as error:
        raise ValueError(f"{path}: refused: {error}") from error
    except Exception as error:  # a damaged pickle raises anything at all
        what = str(error) or type(error).__name__
        raise ValueError(f"{path}: not a readable pickle, or truncated ({what})") from error


class _RefusedError(Exception):
    pass


class _PlainUnpickler(pickle._Unpickler):
    """The pure Python unpickler: unlike the C one its memo is a dict, which a number in the file cannot blow up.

    No name in the file ever leads to a foreign object: the few that a pack needs are answered by stand-ins. Bytes that
    are copied (text to bytes, byte arrays) may in all be as many as the file has: one text that is encoded again and
    again would fill the memory. Sets and dictionaries, whose keys can take for ever to hash, are refused.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        self._left = len(data)

    def copied(self, data: bytes) -> bytes:
        """The same bytes, counted."""
        self._left -= len(data)
        if self._left < 0:
            raise _RefusedError("the file copies more bytes than it has")
        return data

    def load_bytearray8(self) -> None:
        """A byte array of the size that the file has, whatever it states: pickle's own takes that much memory first."""
        unpickler: Any = self
        size = int.from_bytes(unpickler.read(8), "little")
        data = unpickler.read(min(size, self._left + 1))
        if len(data) != size:
            raise EOFError("a byte array longer than the file")
        unpickler.append(bytearray(self.copied(data)))

    def refuse_keys(self) -> None:
        """Sets and dictionaries."""
        raise _RefusedError("the file holds a set or a dictionary; a pack holds lists, bytes and booleans only")

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    for _code in (pickle.DICT, pickle.EMPTY_DICT, pickle.EMPTY_SET, pickle.FROZENSET):
        dispatch[_code[0]] = refuse_keys

    def find_class(self, module: str, name: str) -> Any:
        known = _STAND_INS.get((_NUMPY.get(module, module), name))
        if known is None:
            raise _RefusedError(f"the file asks for {module}.{name}; a pack holds lists, bytes and booleans only")
        return _StandIn((lambda *given: self.copied(_bytes(*given))) if known is _bytes else known)

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError("the file asks for a persistent object")

    def get_extension(self, code: int) -> Any:
        raise _RefusedError(f"the file asks for extension {code}")


class _StandIn:
    """What the file may call in place of what it names; it cannot be given a state."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("the file changes a function")


_DTYPES = {
    "b1": np.bool_,
    "?": np.bool_,
    "u1": np.uint8,
    "i1": np.int8,
    "i4": np.int32,
    "i8": np.int64,
    "u8": np.uint64,
}


class _Type:
    """Stands in for a numpy dtype: booleans and integers only."""

    def __init__(self, code: str | bytes, *_: Any) -> None:
        text = code.decode() if isinstance(code, bytes) else code
        if not isinstance(text, str) or text not in _DTYPES:
            raise _RefusedError(f"an array of type {_shown(text)}; a pack holds bytes and booleans only")
        self.dtype = np.dtype(_DTYPES[text])

    def __setstate__(self, state: Any) -> None:
        if state[1] in (">", b">") and self.dtype.itemsize > 1:
            raise _RefusedError("an array of big-endian numbers")


class _Array:
    """Stands in for a numpy array until its state comes."""

    def __init__(self) -> None:
        self.array: npt.NDArray[Any] = np.empty(0, dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        self.array = _array(data, kind, shape, "F" if fortran else "C")


def _array(data: Any, kind: Any, shape: Any, order: Any = "C") -> npt.NDArray[Any]:
    if not isinstance(kind, _Type) or not isinstance(data, (bytes, bytearray)):
        raise _RefusedError("an array that is not made of bytes")
    return np.frombuffer(data, dtype=kind.dtype).reshape(shape, order="F" if order in ("F", b"F") else "C")


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> _Array:
    made = _Array()
    made.array = _array(data, kind, shape, order)
    return made


def _scalar(kind: Any, data: Any) -> Any:
    return _array(data, kind, (1,))[0].item()


def _empty_array(*_: Any) -> _Array:
    return _Array()


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    """Bytes as Python 3 writes them into a pickle for Python 2: text to be encoded as Latin-1."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise _RefusedError("bytes in another form than Latin-1 text")
    return codecs.encode(text, "latin1")


_NUMPY = {"numpy._core.multiarray": "numpy.core.multiarray", "numpy._core.numeric": "numpy.core.numeric"}
_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _bytes,
    ("__builtin__", "bytes"): _bytes,
}


def _kind(item: Any) -> str:
    return f"{type(item).__name__} of {len(item)}" if isinstance(item, (list, tuple)) else type(item).__name__


def _items(part: Any, path: Path) -> Any:
    if isinstance(part, _Array):
        return part.array
    if not isinstance(part, (list, tuple)):
        raise ValueError(f"{path}: expected a list, found {_kind(part)}")
    return part


def _image(item: Any, path: Path, number: int) -> Any:
    """The buffer of an image, not copied."""
    if isinstance(item, _Array):
        item = item.array
    plain = isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.itemsize == 1
    if not plain and not isinstance(item, (bytes, bytearray)):
        raise ValueError(f"{path}: image {number}: expected the bytes of an encoded image, found {_kind(item)}")
    return item


def _truth(item: Any, path: Path, number: int) -> bool:
    if isinstance(item, (bool, int, np.bool_, np.integer)) and item in (0, 1):
        return bool(item)
    raise ValueError(f"{path}: pair {number}: expected true or false, found {_shown(item)}")


def _shown(item: Any) -> str:
    """A short item of the file as it stands there, otherwise its kind."""
    short = isinstance(item, (str, bytes)) or (isinstance(item, int) and abs(item) < 2**63)
    return repr(item[:40] if isinstance(item, (str, bytes)) else item) if short else _kind(item)
