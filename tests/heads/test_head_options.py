"""What editors and type checkers know of `create_head` is what the losses take."""

import inspect
from typing import Any, get_overloads

import pytest

import hypersphere as hs
from hypersphere.heads import head_options
from hypersphere.losses import OBJECTIVES

SIZES = ("dim", "num_classes")


def table_of(overload: Any) -> str:
    """The name of the table of options of an overload: `ArcFaceOptions`."""
    annotation: str = inspect.signature(overload).parameters["options"].annotation
    return annotation.removeprefix("Unpack[head_options.").removesuffix("]")


def annotations(table: str) -> dict[str, str]:
    """The options that a table adds to those of every head."""
    found = getattr(head_options, table).__annotations__
    shared = {} if table == "HeadOptions" else head_options.HeadOptions.__annotations__
    return {name: kind.__forward_arg__ for name, kind in found.items() if name not in shared}


OVERLOADS = {
    inspect.signature(one).parameters["name"].annotation: table_of(one) for one in get_overloads(hs.create_head)
}


def test_every_loss_has_its_overload_and_any_other_name_the_keywords_of_every_head() -> None:
    assert list(OVERLOADS) == [f"Literal[{name!r}]" for name in OBJECTIVES.names()] + ["str"]
    assert OVERLOADS["str"] == "HeadOptions"


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_the_options_of_a_loss_are_typed_as_it_takes_them(name: str) -> None:
    parameters = inspect.signature(OBJECTIVES[name]).parameters
    options = {key: each.annotation for key, each in parameters.items() if key not in SIZES}
    table = OVERLOADS[f"Literal[{name!r}]"]
    assert (annotations(table) if table != "HeadOptions" else {}) == options


def test_the_keywords_of_every_head_are_those_of_create_head() -> None:
    parameters = inspect.signature(hs.create_head).parameters
    known = {key: each.annotation for key, each in parameters.items() if key not in ("name", *SIZES, "options")}
    assert annotations("HeadOptions") == {key: kind.removeprefix("head_options.") for key, kind in known.items()}


def test_mypy_knows_margin() -> None:
    """`warn_unused_ignores` is on: these lines are errors to mypy, or it would complain of the comments."""
    with pytest.raises(ValueError, match="arcface has no option 'margn'; did you mean 'margin'"):
        hs.create_head("arcface", dim=2, num_classes=3, margn=0.5)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="softmax has no option 'margin'"):
        hs.create_head("softmax", dim=2, num_classes=3, margin=0.5)  # type: ignore[call-overload]
