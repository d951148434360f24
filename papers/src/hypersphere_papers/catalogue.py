"""The catalogue: every numbered figure and table of the five papers, one entry each, in `catalogue.toml`."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hypersphere.core import build, check_choice, load_toml, nearest

KINDS = ("theory", "illustration", "real")
"""Exact here; a schematic redrawn; runs when the data set is given by path."""
FILE = Path(__file__).with_name("catalogue.toml")


@dataclass(frozen=True, kw_only=True)
class Paper:
    """One paper: its title, and how it is called in short."""

    title: str
    short: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One figure or table.

    Args:
        id: `paper/fig5` or `paper/table2`.
        title: one line of what it shows.
        kind: one of `KINDS`.
        values: the numbers the paper prints that we compare with, by name.
        tolerance: how far ours may be off, for all values without one of their own.
        tolerances: by the name of a value.
        reasons: by the name of a value, why ours is known to differ.
        columns, rows: a table of the paper: its numbers by "row, column"; NaN where it prints none.
        claim: the sentence that is tested, where it is not the numbers.
        needs: the data set of the paper's own experiment.
        file: that the folder given with `--data` has to have, of a `real` item that trains nothing.
        recipe: of `papers/recipes`, which would run it.
        note: what else a reader must know.
        proxy: what stands in for what, where our experiment is not the paper's.
        stands_in: for `all` runs, or for a `part`: those on faces, and small ones.
        rates: how learning rates and starts were chosen, where not by one standard for all that is compared: on people
            who are in no test column, by seeds that are not judged.
    """

    id: str
    title: str
    kind: str
    values: Mapping[str, float] = field(default_factory=dict)
    tolerance: float | None = None
    tolerances: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rows: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    claim: str = ""
    needs: str = ""
    file: str = ""
    recipe: str = ""
    note: str = ""
    proxy: str = ""
    stands_in: Literal["", "all", "part"] = ""
    rates: str = ""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        for name, numbers in self.rows.items():
            if len(numbers) != len(self.columns):
                raise ValueError(f"{self.id}: row {name!r} has {len(numbers)} numbers for {len(self.columns)} columns")
        if any(", " in column for column in self.columns):
            raise ValueError(f"{self.id}: a column must not contain ', ': values are named 'row, column'")
        for name in (*self.tolerances, *self.reasons):
            if name not in self.values:
                raise ValueError(f"{self.id}: {name!r} is no value; {nearest(name, self.values)}")
        if self.kind == "real" and not self.needs:
            raise ValueError(f"{self.id}: a real item must say which data it needs")
        if bool(self.proxy) != bool(self.stands_in):
            raise ValueError(f"{self.id}: proxy (what stands in for what) and stands_in (all or part) go together")
        if self.rates and self.stands_in != "all":
            raise ValueError(f"{self.id}: where rates are unequal the comparison is a proxy: stands_in must be 'all'")

    @property
    def paper(self) -> str:
        """The first part of the id."""
        return self.id.split("/")[0]

    @property
    def data(self) -> str:
        """What it is computed from, in a word or two: `theory`, `faces`, `MNIST`."""
        if self.kind == "real":
            return next((name for name in ("MNIST", "CIFAR-10") if self.needs.startswith(name)), "faces")
        return self.kind

    @property
    def full_title(self) -> str:
        """The title, with what stands in for what."""
        which = {"all": "proxy", "part": "in part a proxy"}.get(self.stands_in, "")
        return f"{self.title} ({which}: {self.proxy})" if which else self.title

    @property
    def number(self) -> str:
        """`Fig. 5` or `Table 2`."""
        last = self.id.split("/")[1]
        return f"Table {last[5:]}" if last.startswith("table") else f"Fig. {last[3:]}"

    @property
    def command(self) -> str:
        """What one types for it."""
        return f"hypersphere reproduce {self.id}{' --data PATH' if self.kind == 'real' else ''}"

    def printed(self, name: str) -> float:
        """The paper's number of a value, or of `row, column`."""
        if name in self.values:
            return self.values[name]
        row, _, column = name.rpartition(", ")
        if row not in self.rows or column not in self.columns:
            known = [*self.values, *(f"{row}, {column}" for row in self.rows for column in self.columns)]
            raise ValueError(f"{self.id} has no value {name!r}; {nearest(name, known)}")
        return self.rows[row][self.columns.index(column)]


@dataclass(frozen=True)
class Catalogue:
    """All entries, in the order of the papers."""

    papers: Mapping[str, Paper]
    entries: Mapping[str, Entry]

    def __getitem__(self, name: str) -> Entry:
        if name in self.papers:
            items = ", ".join(entry.id for entry in self.select(paper=name))
            raise ValueError(f"{name!r} is a paper; name one or several of its items: {items}")
        if name not in self.entries:
            hint = nearest(name, self.entries).split(" Known:")[0] if self.entries else ""
            hint = "" if hint.startswith("Known:") else f"{hint} "
            raise ValueError(f"unknown item {name!r}; {hint}hypersphere reproduce --list shows all")
        return self.entries[name]

    def select(self, *, kind: str | None = None, paper: str | None = None) -> list[Entry]:
        """The entries of a kind, of a paper, of both, or all."""
        if kind is not None:
            check_choice("kind", kind, KINDS)
        if paper is not None:
            check_choice("paper", paper, self.papers)
        return [
            entry
            for entry in self.entries.values()
            if kind in (None, entry.kind) and (paper is None or paper == entry.paper)
        ]


@functools.cache
def load_catalogue(path: Path = FILE) -> Catalogue:
    """Read and check the catalogue."""
    table = load_toml(path)
    papers = {name: build(Paper, value, f"papers.{name}") for name, value in table.pop("papers").items()}
    entries = {name: _entry(name, value) for name, value in table.items()}
    for entry in entries.values():
        check_choice(f"{entry.id}: paper", entry.paper, papers)
    return Catalogue(papers, entries)


def _entry(name: str, value: Mapping[str, Any]) -> Entry:
    """An entry; a cell that the paper leaves empty is "-" in the file, which has finite numbers alone, and NaN here."""
    table = {"id": name, **value}
    rows = {
        row: tuple(math.nan if n == "-" else float(n) for n in cells) for row, cells in table.pop("rows", {}).items()
    }
    return replace(build(Entry, table, name), rows=rows)
