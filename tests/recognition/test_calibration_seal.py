"""Calibrations that were changed: refused by the seal, and by the ranges where the seal was made anew."""

import dataclasses
import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypersphere.cli import main
from hypersphere.core import seal_of, sealed_text
from hypersphere.models import load_thresholds, save_thresholds
from hypersphere.recognition import Calibration, calibration_path, load_calibration, save_calibration
from tests.damage import flipped
from tests.recognition.made_up_people import calibrated

Place = tuple[str | int, ...]
NUMBERS: tuple[Any, ...] = (-1.0, 0.0, 1.0, -2, 2, 10**9, -1e308, 1e308, 5e-324, 0.5, 1e-6)
OTHERS: tuple[Any, ...] = (None, True, False, "", "0.5", [], {}, [0.5], {"value": 0.5})


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every value of a table; of long lists the first, the last and two between."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield (*here, key)
            yield from places(entry, (*here, key))
    if isinstance(value, list):
        for place in sorted({0, len(value) // 3, len(value) // 2, len(value) - 1} & {*range(len(value))}):
            yield (*here, place)
            yield from places(value[place], (*here, place))


def changes(value: Any) -> Iterator[Any]:
    """What may stand in the place of a value; `places` counts a change that leaves it out besides."""
    yield from NUMBERS
    yield from OTHERS
    if isinstance(value, float | int) and not isinstance(value, bool):
        yield from (value + 0.25, value - 0.25, -value, value * 2, value * 10, value / 10, value + 1, int(value))
    if isinstance(value, list) and len(value) > 1:
        yield from (value[::-1], value[1:], value[:-1], [*value, value[-1]], value[1:] + value[:1])
    if isinstance(value, str):
        yield from (value + "x", value[:-1])


def mutants(table: dict[str, Any]) -> Iterator[tuple[Place, str, Callable[[], dict[str, Any]]]]:
    """The table with one value changed, left out, or exchanged with its neighbour."""

    def changed(place: Place, act: Callable[[Any, Any], None]) -> Callable[[], dict[str, Any]]:
        def make() -> dict[str, Any]:
            copy: dict[str, Any] = json.loads(json.dumps(table))
            parent: Any = copy
            for key in place[:-1]:
                parent = parent[key]
            act(parent, place[-1])
            return copy

        return make

    def put(value: Any) -> Callable[[Any, Any], None]:
        def act(parent: Any, key: Any) -> None:
            parent[key] = value

        return act

    def leave_out(parent: Any, key: Any) -> None:
        del parent[key]

    def exchange(parent: Any, key: Any) -> None:
        keys = list(parent) if isinstance(parent, dict) else [*range(len(parent))]
        other = keys[(keys.index(key) + 1) % len(keys)]
        parent[key], parent[other] = parent[other], parent[key]

    for place in places(table):
        value: Any = table
        for key in place:
            value = value[key]
        for instead in changes(value):
            yield place, f"{value!r:.40} -> {instead!r:.40}", changed(place, put(instead))
        yield place, "left out", changed(place, leave_out)
        yield place, "exchanged", changed(place, exchange)


def table_of(calibration: Calibration) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(sealed_text(dataclasses.asdict(calibration)))
    del table["seal"]
    return table


def outcome(path: Path, table: dict[str, Any]) -> Calibration | None:
    """What is read, None where it is refused; any other error, and a warning, is one of the test."""
    path.write_text(json.dumps(table))
    try:
        return load_calibration(path)
    except ValueError as error:
        if str(path) not in str(error):
            raise
        return None


def drawn(count: int | None) -> list[tuple[Place, str, Callable[[], dict[str, Any]]]]:
    every = list(mutants(table_of(calibrated())))
    return every if count is None else random.Random(count).sample(every, count)


@pytest.mark.parametrize("count", [100, pytest.param(None, marks=pytest.mark.slow)])
def test_a_changed_value_is_refused_by_the_seal(tmp_path: Path, count: int | None) -> None:
    sound = table_of(calibrated())
    seal = seal_of(sound)
    for place, what, make in drawn(count):
        table = make()
        read = outcome(tmp_path / "c.json", {**table, "seal": seal})
        assert read is None or json.dumps(table, sort_keys=True) == json.dumps(sound, sort_keys=True), (place, what)


@pytest.mark.parametrize("count", [100, pytest.param(None, marks=pytest.mark.slow)])
def test_with_a_new_seal_the_ranges_still_hold(tmp_path: Path, count: int | None) -> None:
    """A threshold of pairs moves by a bin of the curve at most, whatever single value is changed."""
    sound = {row.fmr: row.threshold for row in calibrated().table.thresholds}
    for place, what, make in drawn(count):
        table = make()
        read = outcome(tmp_path / "c.json", {**table, "seal": seal_of(table)})
        if read is None:
            continue
        words = place, what
        rows = read.table.thresholds
        thresholds = [*(row.threshold for row in rows), *(row.threshold for row in read.searches)]
        assert all(-1.00001 <= threshold <= 1.00001 for threshold in thresholds), words
        assert all(0 <= row.fmr_low <= row.fmr_high <= 1 for row in rows), words
        assert all(0 <= row.fnmr_low <= row.fnmr <= row.fnmr_high <= 1 for row in rows), words
        assert [row.threshold for row in rows] == sorted(row.threshold for row in rows), words
        assert [row.fmr for row in rows] == sorted((row.fmr for row in rows), reverse=True), words
        for row in rows:
            nearest = min(sound, key=lambda fmr: abs(fmr - row.fmr))
            assert abs(row.threshold - sound[nearest]) <= 0.0101, words
        ratios = [read.llr.at(score / 10) for score in range(-10, 11)]
        assert ratios == sorted(ratios), words
        bounds = [read.curve.fmr_at(score / 100) for score in range(-100, 101)]
        assert bounds == sorted(bounds, reverse=True), words


def test_every_flipped_bit_of_a_stretch(tmp_path: Path) -> None:
    made, path = calibrated(), tmp_path / "calibration.json"
    save_calibration(made, path)
    data, chance = path.read_bytes(), random.Random(0)
    for place in sorted(chance.sample(range(len(data)), 150)):
        path.write_bytes(flipped(data, place, chance.randrange(8)))
        try:
            read = load_calibration(path)
        except ValueError as error:
            if str(path) not in str(error):
                raise
        else:
            assert read == made, place
    for length in sorted(chance.sample(range(len(data) - 2), 50)):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="calibration.json"):
            load_calibration(path)


@pytest.mark.parametrize("sealed", ["as it was", "anew", "not at all"])
def test_a_threshold_of_minus_one_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sealed: str
) -> None:
    """Before, `verify` answered "match" with the exit status 0."""
    table = json.loads(calibration_path("starter").read_bytes())
    for row in table["table"]["thresholds"]:
        row["threshold"] = -1.0
    seal = table.pop("seal")
    seals = {"as it was": {"seal": seal}, "anew": {"seal": seal_of(table)}, "not at all": {}}
    (tmp_path / "c.json").write_text(json.dumps({**table, **seals[sealed]}))
    (tmp_path / "a.png").write_bytes(b"never read")
    photo = str(tmp_path / "a.png")
    assert main(["verify", photo, photo, "--calibration", str(tmp_path / "c.json"), "--device", "cpu"]) == 2
    said = capsys.readouterr()
    assert "match" not in said.out
    words = "this is not the calibration that was sealed" if sealed == "as it was" else "but the curve counts"
    assert words in said.err


def test_a_file_without_a_seal_is_read_with_a_warning(tmp_path: Path) -> None:
    made, path = calibrated(), tmp_path / "calibration.json"
    path.write_text(json.dumps(dataclasses.asdict(made)))
    with pytest.warns(
        RuntimeWarning, match=r"calibration\.json: this calibration has no seal, .* `hypersphere calibra"
    ):
        assert load_calibration(path) == made
    path = tmp_path / "thresholds.json"
    path.write_text(json.dumps(dataclasses.asdict(made.table)))
    with pytest.warns(RuntimeWarning, match=r"thresholds\.json: this table of thresholds has no seal"):
        assert load_thresholds(path) == made.table


def test_the_table_of_thresholds_is_sealed_too(tmp_path: Path) -> None:
    made, path = calibrated().table, tmp_path / "thresholds.json"
    save_thresholds(made, path)
    table = json.loads(path.read_bytes())
    seal = table.pop("seal")
    for place, what, make in random.Random(0).sample([*mutants(table)], 100):
        changed = make()
        path.write_text(json.dumps({**changed, "seal": seal}))
        try:
            read = load_thresholds(path)
        except ValueError as error:
            if str(path) not in str(error):
                raise
        else:
            assert read == made, (place, what)


def test_what_comes_with_the_package_is_sealed() -> None:
    folder = calibration_path("starter").parent
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in folder.glob("*calibration.json"):
            load_calibration(path)
        load_thresholds(folder)
