"""Configuration from tables: types, unknown keys, overrides, inheritance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from hypersphere.core.config import as_table, build, digest, load_toml, overlay, override, to_toml


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    sizes: tuple[int, int] = (1, 2)
    many: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError(f"rate={self.rate} must not be negative")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    inner: Inner = field(default_factory=Inner)
    steps: int | None = None
    free: Mapping[str, Any] = field(default_factory=dict)
    flag: bool = False
    side: Literal["left", "right"] | None = None
    stage: Literal[1, 2] = 1


def test_a_table_becomes_the_dataclass() -> None:
    table = {
        "name": "x",
        "inner": {"rate": 1, "sizes": [3, 4], "many": [1, 2.5]},
        "steps": 5,
        "free": {"a": [1]},
        "side": "left",
        "stage": 2,
    }
    made = build(Outer, table)
    assert made == Outer(
        name="x", inner=Inner(rate=1.0, sizes=(3, 4), many=(1.0, 2.5)), steps=5, free={"a": [1]}, side="left", stage=2
    )
    assert isinstance(made.inner.rate, float)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "name is missing"),
        ({"name": "x", "iner": {}}, "iner is unknown; did you mean 'inner'"),
        ({"name": "x", "inner": {"raet": 1}}, "inner.raet is unknown; did you mean 'rate'"),
        ({"name": "x", "inner": {"rate": "fast"}}, "inner.rate='fast' must be of type float"),
        ({"name": "x", "inner": {"rate": True}}, "inner.rate=True must be of type float"),
        ({"name": "x", "inner": {"rate": -1}}, "inner: rate=-1.0 must not be negative"),
        ({"name": "x", "inner": {"sizes": [1]}}, r"inner.sizes=\[1\] must have 2 entries"),
        ({"name": "x", "inner": {"sizes": [1, 2.5]}}, r"inner.sizes\[1\]=2.5 must be of type int"),
        ({"name": "x", "inner": {"sizes": 3}}, "inner.sizes=3 must be a list"),
        ({"name": "x", "inner": 3}, "inner=3 must be a table"),
        ({"name": 3}, "name=3 must be of type str"),
        ({"name": "x", "steps": 2.5}, "steps=2.5 must be of type int"),
        ({"name": "x", "flag": 1}, "flag=1 must be of type bool"),
        ({"name": "x", "free": 1}, "free=1 must be a table"),
        ({"name": "x", "side": "lift"}, "side='lift' is unknown; did you mean 'left'"),
        ({"name": "x", "stage": 3}, "stage=3 is unknown; Known: 1, 2"),
        ({"name": "x", "stage": True}, "stage=True is unknown; Known: 1, 2"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(Outer, table)


def test_overrides_are_read_as_toml() -> None:
    table = override({"inner": {"rate": 1}}, ["inner.sizes=[5, 6]", "name=hello world", "flag=true", "inner.rate=2e-3"])
    assert table == {"inner": {"rate": 0.002, "sizes": [5, 6]}, "name": "hello world", "flag": True}
    for wrong in ("rate", "=3", "a..b=1"):
        with pytest.raises(ValueError, match="is no setting: write key.sub=value"):
            override({}, [wrong])


def test_base_is_overlaid(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('name = "base"\n[inner]\nrate = 1.0\nmany = [1.0]\n')
    (tmp_path / "child.toml").write_text('base = "base.toml"\nname = "child"\n[inner]\nmany = [2.0]\n')
    assert load_toml(tmp_path / "child.toml") == {"name": "child", "inner": {"rate": 1.0, "many": [2.0]}}
    (tmp_path / "wrong.toml").write_text("name = \n")
    with pytest.raises(ValueError, match="wrong.toml: not valid TOML"):
        load_toml(tmp_path / "wrong.toml")
    with pytest.raises(ValueError, match="none.toml: there is no such file"):
        load_toml(tmp_path / "none.toml")
    (tmp_path / "number.toml").write_text("base = 3\n")
    with pytest.raises(ValueError, match="base must be the path of another file"):
        load_toml(tmp_path / "number.toml")


def test_what_is_replaced_is_not_merged() -> None:
    below = {"a": {"name": "x", "b": 1, "c": {"d": 2}}, "e": 3}
    above = {"a": {"name": "y", "c": {"f": 4}}}
    merged = {"name": "y", "b": 1, "c": {"d": 2, "f": 4}}
    assert overlay(below, above) == {"a": merged, "e": 3}
    assert overlay(below, above, lambda *_: ["b", "e"]) == {"a": {"name": "y", "c": {"d": 2, "f": 4}}}
    assert override(below, ["a.c.f=4"], lambda low, _: ["d"] if "d" in low else []) == {
        "a": {"name": "x", "b": 1, "c": {"f": 4}},
        "e": 3,
    }


def test_a_file_that_is_its_own_base(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('base = "b.toml"\n')
    (tmp_path / "b.toml").write_text('base = "a.toml"\n')
    with pytest.raises(ValueError, match="is its own base"):
        load_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("key", ["b", "two words", "é", "\N{GRINNING FACE}", 'quo"ted'])
@pytest.mark.parametrize("name", ['quo"ted', "back\\slash\n", "é", "\N{GRINNING FACE}\N{MUSICAL SYMBOL G CLEF}"])
def test_round_trip_through_toml(tmp_path: Path, name: str, key: str) -> None:
    made = Outer(name=name, inner=Inner(many=(1.0, 1e-7)), free={"a": 1, key: {"c": [True, "x"]}})
    (tmp_path / "resolved.toml").write_text(to_toml(as_table(made)), encoding="utf-8")
    again = build(Outer, load_toml(tmp_path / "resolved.toml"))
    assert again == made
    assert digest(again) == digest(made)
    assert digest(Outer(name="y")) != digest(Outer(name="x"))
    assert overlay({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}


def test_a_new_field_leaves_earlier_digests_as_they_are() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Later(Outer):
        added: float = 1.0
        more: Inner = field(default_factory=Inner)

    made = {"name": "x", "inner": Inner(rate=0.5), "free": {"a": 1}}
    assert digest(Later(**made)) == digest(Outer(**made))  # type: ignore[arg-type]
    changes: list[dict[str, Any]] = [
        {"added": 2.0},
        {"more": Inner(rate=0.2)},
        {"inner": Inner(rate=0.2)},
        {"free": {}},
    ]
    assert len({digest(Later(**{**made, **change})) for change in [{}, *changes]}) == 5


def test_a_folder_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a TOML file \(Is a directory\)"):
        load_toml(str(tmp_path))
