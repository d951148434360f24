"""The catalogue of named models: what each one is, what its licence allows, and where its files come from."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hypersphere.core import build, check_choice, check_integer, is_installed, load_toml, nearest
from hypersphere.models.card import ModelCard
from hypersphere.models.contract import Contract, parse_contract_table

STARTER = "starter"
"""The name of the model that comes with the package."""
STARTER_FOLDER = Path(__file__).parents[1] / "starter"
ENTRY_POINTS = "hypersphere.models"
"""An entry point `NAME = "package.module:function"` names a function that returns the path of such a TOML file."""
CATALOGUE_FOLDER = Path(__file__).parents[1] / "catalogue"
USES = ("research", "any")
KINDS = ("recognizer", "detector")


@dataclass(frozen=True, kw_only=True)
class CatalogueFile:
    """A file of a model.

    Args:
        name: what it is called in the cache.
        url: the publisher's own address.
        sha256: of its bytes; what is fetched must have it.
        bytes: how many.
        also: SHA-256 of other releases that may be put there by hand.
    """

    name: str
    url: str
    sha256: str
    bytes: int
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or self.name != Path(self.name).name or self.name.startswith("."):
            raise ValueError(f"name={self.name!r} must be the name of a file, without a folder")
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"url={self.url!r} must begin with https:// or http://")
        for digest in (self.sha256, *self.also):
            if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
                raise ValueError(f"sha256={digest!r} must be 64 hexadecimal digits in lower case")
        check_integer("bytes", self.bytes, 1)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What we measured of a recogniser, as docs/models.md says.

    Args:
        lfw: accuracy on LFW's 6,000 pairs in per cent by the contract, and its 95 % interval.
        fnmr: false-match rate, false-non-match rate there in per cent, and its 95 % interval: a row each.
        portraits_fmr: the false-match rate on public-domain portraits at the threshold that has 3 false matches among
            LFW's 3,000 impostor pairs.
        milliseconds: of processor time for one image on one thread.
    """

    lfw: tuple[float, ...] = ()
    fnmr: tuple[tuple[float, ...], ...] = ()
    portraits_fmr: float = 0.0
    milliseconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A named model.

    Args:
        kind: `recognizer` or `detector`.
        about: a sentence.
        licence: of the weights.
        use: what the licence allows: `any`, or `research` alone.
        data: what it was trained on and what is known of its terms.
        source: the publisher's page.
        files: none of a model that comes with a package; the first one is what is loaded.
        path: of a file that is on this machine, instead of `files`.
        contract: of a recogniser in ONNX or OpenVINO files.
        measured: by us.
        name: of the entry.
    """

    kind: str
    about: str
    licence: str
    use: str
    data: str
    source: str
    files: tuple[CatalogueFile, ...] = ()
    path: str = ""
    contract: Contract | None = None
    measured: Measured = Measured()
    name: str = ""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("use", self.use, USES)
        if self.files and self.path:
            raise ValueError("files and path: give one of them")

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return home() / "models" / self.name

    @property
    def main_file(self) -> Path | None:
        """The file that is loaded, there or not; None of a model that comes with a package."""
        if self.path:
            return Path(self.path)
        return self.folder / self.files[0].name if self.files else None

    @property
    def at_hand(self) -> bool:
        """Whether it can be loaded without a network."""
        if self.path:
            return Path(self.path).exists()
        return all((self.folder / file.name).is_file() for file in self.files)

    def stated_contract(self) -> Contract | None:
        """The contract, with licence, data and source."""
        if self.contract is None:
            return None
        return dataclasses.replace(self.contract, licence=self.licence, data=self.data, source=self.source)

    def card(self) -> str:
        """The model card, of what is known and what was measured."""
        measured = self.measured
        results = {}
        if measured.lfw:
            results["LFW, 6,000 pairs"] = "{:.2f} % [{:.2f}, {:.2f}]".format(*measured.lfw)
        for fmr, *rates in measured.fnmr:
            results[f"FNMR at FMR {fmr:.0e}, 500 people held out"] = "{:.1f} % [{:.1f}, {:.1f}]".format(*rates)
        return ModelCard(
            title=self.name,
            about=f"{self.about}. {self.source}",
            data=f"{self.data}.",
            results=results,
            licence=f"{self.licence}.",
        ).text(self.name)

    def check_use(self, use: str | None) -> None:
        """ValueError where the licence does not allow the stated use."""
        if use is not None:
            check_choice("use", use, USES)
        if use == "any" and self.use != "any":
            others = [model.name for model in named_models().values() if model.use == "any" and model.kind == self.kind]
            raise ValueError(
                f"{self.name} is not for any use: {self.licence}. Choose one that is, {' or '.join(others)}, or state "
                "--use research"
            )


def home() -> Path:
    """The folder of fetched models and of the user's own: `$HYPERSPHERE_HOME`, or `hypersphere` in the user's cache."""
    stated = os.environ.get("HYPERSPHERE_HOME")
    if stated:
        return Path(stated)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hypersphere"


def named_models() -> dict[str, CatalogueEntry]:
    """Return all named models: the package's, those of installed packages, and those of `models.toml` in `home()`.

    A name of the package's can be given another meaning by the user's own file, not by another package.

    Example:
        >>> named_models()["sface"].licence
        'Apache-2.0'
    """
    entries = read_catalogue(CATALOGUE_FOLDER / "models.toml")
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            added = read_catalogue(Path(point.load()()))
        except Exception as error:  # another distribution may be broken in any way, and the library goes on
            warnings.warn(f"the models of {point.value} cannot be listed: {error}", RuntimeWarning, stacklevel=2)
            continue
        entries = {**added, **entries}
    own = home() / "models.toml"
    return {**entries, **read_catalogue(own)} if own.is_file() else entries


def find_entry(name: str | Path) -> CatalogueEntry | None:
    """Return the model of a name; None where a file or folder has this name, or no model has."""
    text = STARTER if Path(name) == STARTER_FOLDER else str(name)
    if "/" in text or os.sep in text or "." in text or Path(text).exists():
        return None
    return named_models().get(text)


def choose_model(use: str | None = None) -> CatalogueEntry:
    """Return the recogniser to use where none is named: the most accurate one at hand whose licence allows the use.

    Nothing is fetched for it. Without a stated use those for any use come first, and the starter is the last resort.

    Args:
        use: `research` or `any`; by default what `config.toml` in `home()` says.
    """
    use = use or configured_use()
    at_hand = [entry for entry in named_models().values() if entry.kind == "recognizer" and entry.at_hand]
    at_hand = [entry for entry in at_hand if entry.main_file is None or _has_runtime(entry.main_file)]
    allowed = [entry for entry in at_hand if entry.use == "any"]
    if use == "research" or (use is None and not allowed):
        allowed = at_hand
    if not allowed:
        raise ValueError(
            "no model at hand may be put to any use: `hypersphere models intel-0095 --fetch` fetches one, or state "
            "--use research"
        )
    return min(allowed, key=_rank)


def configured_use() -> str | None:
    """Return the use that `config.toml` in `home()` states, such as `use = "any"`; None where it states none."""
    path = home() / "config.toml"
    if not path.is_file():
        return None
    table = load_toml(path)
    for key in table:
        if key != "use":
            raise ValueError(f"{path}: {key} is unknown; {nearest(key, ['use'])}")
    use = table.get("use")
    return None if use is None else check_choice(f"{path}: use", use, USES)


def _has_runtime(file: Path) -> bool:
    return file.suffix != ".xml" or is_installed("openvino")


def _rank(entry: CatalogueEntry) -> tuple[float, str]:
    """By the false-non-match rate at the first false-match rate that was measured; unmeasured ones come last."""
    return (entry.measured.fnmr[0][1] if entry.measured.fnmr else 101.0, entry.name)


def read_catalogue(path: Path) -> dict[str, CatalogueEntry]:
    """Return the models of a TOML file, a table each."""
    return {name: _entry(name, table, path) for name, table in load_toml(path).items()}


def _entry(name: str, table: Any, path: Path) -> CatalogueEntry:
    where = f"{path}: {name}"
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{where}: a name has letters, digits, - and _ only")
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} must be a table, [{name}]")
    plain = {key: value for key, value in table.items() if key not in ("files", "contract")}
    files = table.get("files", [])
    if not isinstance(files, Sequence) or not all(isinstance(file, Mapping) for file in files):
        raise ValueError(f"{where}.files must be a list of tables, each with name, url, sha256 and bytes")
    contract = table.get("contract")
    try:
        entry = build(CatalogueEntry, plain)
        return dataclasses.replace(
            entry,
            name=name,
            path=str(path.parent / entry.path) if entry.path else "",
            files=tuple(build(CatalogueFile, file, f"files[{place}]") for place, file in enumerate(files)),
            contract=None if contract is None else parse_contract_table(contract, "contract"),
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
