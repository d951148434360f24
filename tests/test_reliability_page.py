"""The table of faults in docs/reliability.md names tests that exist, and its full counts tests that are marked slow."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROWS = re.findall(
    r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$",
    (TESTS.parent / "docs" / "reliability.md").read_text(),
    re.MULTILINE,
)
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


def test_every_fault_is_there() -> None:
    assert [int(row[0]) for row in ROWS] == [*range(3, 30), 31, 32]


def test_the_tests_exist() -> None:
    for number, _, _, short, full, _ in ROWS:
        named = NAMED.findall(short)
        assert named, number
        assert len(named) == short.count("::"), number
        for file, name in named + NAMED.findall(full):
            assert name in decorators_of(file), f"{number}: {file}::{name}"


def test_short_forms_run_in_make_test_and_full_counts_in_test_all() -> None:
    for number, _, _, short, full, _ in ROWS:
        for file, name in NAMED.findall(full):
            assert "slow" in decorators_of(file)[name], f"{number}: {file}::{name}"
        for file, name in NAMED.findall(short):
            marks = decorators_of(file)[name]
            assert "slow" not in marks or "pytest.param" in marks, f"{number}: {file}::{name}"
