"""What is public is written down, and the files of a release agree with the code."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from hypersphere import __version__
from hypersphere.cli.main import build_parser
from tools import exported_names

ROOT = Path(__file__).parents[1]


def test_the_exported_names_are_those_written_down() -> None:
    written = exported_names.PAGE.read_text().splitlines()
    there = exported_names.names()
    gone, new = sorted(set(written) - set(there)), sorted(set(there) - set(written))
    assert written == there, f"gone: {gone}, new: {new}. If that is meant, run `python tools/exported_names.py`"


def test_every_exported_name_can_be_had() -> None:
    for entry in exported_names.names():
        module, _, name = entry.rpartition(".")
        assert hasattr(importlib.import_module(module), name), entry


def test_a_module_without_a_list_is_named(tmp_path: Path) -> None:
    path = tmp_path / "__init__.py"
    path.write_text("x = 1\n")
    with pytest.raises(ValueError, match="has no __all__"):
        exported_names.exported(path)


def yaml_file(path: Path) -> Any:
    return pytest.importorskip("yaml", reason="needs PyYAML").safe_load(path.read_text())


def test_the_citation_names_the_five_papers() -> None:
    citation = yaml_file(ROOT / "CITATION.cff")
    titles = [each["title"] for each in citation["references"]]
    assert [title.split(":")[0].split()[0] for title in titles] == [
        "SphereFace", "SphereFace2", "NormFace", "Learning", "Unifying",
    ]  # fmt: skip
    assert all(each["authors"] for each in citation["references"])
    assert "version" not in citation, "the version is in version.py alone"
    readme = (ROOT / "README.md").read_text()
    assert all(each["url"] in readme for each in citation["references"] if "url" in each)


def test_the_changelog_dates_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(re.escape(__version__) + r" \(20\d\d-\d\d-\d\d\)", headings[1])


def test_the_workflows_run_what_is_run_here() -> None:
    commands = {}
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        (job,) = yaml_file(path)["jobs"].values()
        commands[path.stem] = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == {"package": ["make package"], "test": [".ci/run"]}
    assert re.search(r"^package:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_a_form_for_issues(path: Path) -> None:
    form = yaml_file(path)
    if path.stem != "config":
        assert form["name"]
        assert form["description"]
        assert all(part["attributes"]["label"] for part in form["body"])


def test_the_image_copies_what_there_is() -> None:
    lines = re.findall(r"^COPY (.*)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    for source in (word for line in lines for word in line.split()[:-1]):
        assert (ROOT / source).exists(), source
    (command,) = re.findall(r"^CMD (.*)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert build_parser().parse_args(json.loads(command)).host == "0.0.0.0"
    manifest = (ROOT / "MANIFEST.in").read_text().splitlines()[0].split()[1:]
    assert all((ROOT / name).is_file() for name in manifest)
