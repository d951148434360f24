"""Commands of other distributions: found by their entry points, named where they are broken or missing."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from hypersphere.cli import installed_commands, main
from hypersphere.cli.main import build_parser

GREETING = """
def add_greet(commands):
    parser = commands.add_parser("greet", help="say hello")
    parser.add_argument("--name", default="you")
    parser.set_defaults(run="a_greeting.words:greet")

def greet(options):
    print(f"hello, {options.name}")
"""


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points that are installed: none but those that a test adds."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(installed_commands, "entry_points", lambda group: points)
    build_parser.cache_clear()
    yield points
    build_parser.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, installed_commands.ENTRY_POINTS)


@pytest.mark.parametrize("words", ["reproduce", "reproduce --list", "reproduce normface/fig5 --out x", "theory caps"])
def test_without_the_papers_one_sentence_says_what_to_install(
    words: str, points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 1
    command = words.split(maxsplit=1)[0]
    assert capsys.readouterr().err == (
        f"hypersphere: `hypersphere {command}` is part of hypersphere-papers, which is not installed; "
        "from a checkout: pip install ./papers\n"
    )


def test_bench_says_where_speed_is_measured(points: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "head", "--classes", "10"]) == 1
    assert "in a checkout, run python benchmarks/speed.py head or train" in capsys.readouterr().err


def test_a_command_of_another_distribution(
    tmp_path: Path, points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_greeting").mkdir()
    (tmp_path / "a_greeting" / "words.py").write_text(GREETING)
    monkeypatch.syspath_prepend(tmp_path)
    points.append(point("greet", "a_greeting.words:add_greet"))
    assert main(["greet", "--name", "Ada"]) == 0
    assert capsys.readouterr().out == "hello, Ada\n"
    assert main(["greet", "--quiet"]) == 0


def test_a_broken_one_is_named_and_the_others_work(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    points.append(point("broken", "no_such_module:add"))
    points.append(point("half", "hypersphere.cli.parser:Parser"))  # takes no sub-commands
    assert main(["broken", "--some", "words"]) == 1
    assert "the command broken of no_such_module:add cannot be loaded: ModuleNotFoundError" in capsys.readouterr().err
    with pytest.raises(SystemExit) as leaving:
        main(["--help"])
    assert leaving.value.code == 0
    assert "cannot be loaded (no_such_module:add)" in capsys.readouterr().out
    assert main(["train", "--list"]) == 0


def test_a_name_of_the_library_stays_its_own(points: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    points.append(point("train", "no_such_module:add"))
    assert main(["train", "--list"]) == 0
    shown = capsys.readouterr()
    assert "pocket/faces" in shown.out
    assert "the command train of no_such_module:add exists already" in shown.err
