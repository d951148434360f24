"""The table of faults in docs/reliability.md names tests that exist, and its full counts tests that are marked slow."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$",
    (TESTS.parent / "docs" / "reliability.md").read_text(),
    re.MULTILINE,
)
FAULTS = [row for row in ROWS if row[0] != "what goes wrong"]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


@cache
def decorators_of(file: str) -> dict[str, str]:
    """The decorators of each test of a file, as text; with the marks of the whole file."""
    tree = ast.parse((TESTS / file).read_text())
    common = " ".join(ast.unparse(each) for each in tree.body if "pytestmark" in ast.unparse(each)[:10])
    return {
        each.name: common + " ".join(map(ast.unparse, each.decorator_list))
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
    }


def test_every_fault_has_one_row() -> None:
    assert FAULTS
    assert len(FAULTS) == len({row[0] for row in FAULTS})


def test_the_tests_exist() -> None:
    for fault, _, short, full, _ in FAULTS:
        named = NAMED.findall(short)
        assert named, fault
        assert len(named) == short.count("::"), fault
        for file, name in named + NAMED.findall(full):
            assert name in decorators_of(file), f"{fault}: {file}::{name}"


def test_short_forms_run_in_make_test_and_full_counts_in_test_all() -> None:
    for fault, _, short, full, _ in FAULTS:
        for file, name in NAMED.findall(full):
            assert "slow" in decorators_of(file)[name], f"{fault}: {file}::{name}"
        for file, name in NAMED.findall(short):
            marks = decorators_of(file)[name]
            assert "slow" not in marks or "pytest.param" in marks, f"{fault}: {file}::{name}"
