"""The command: what it prints and writes, and how it fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hypersphere.cli import main


def test_toy_prints_the_margins_and_writes_the_spheres(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "toy", "--steps", "20", "--out", str(tmp_path / "new" / "folder")]) == 0
    text = capsys.readouterr().out
    rows = re.findall(
        r"^(\S+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(-?[\d.]+)  [\d.]+(?:, not converged)?$", text, flags=re.MULTILINE
    )
    assert [(row[0], row[2]) for row in rows] == [
        ("NormFace", "68.50"),
        ("CosFace", "71.86"),
        ("ArcFace", "67.74"),
        ("LM-Softmax", "74.46"),
    ]
    assert {row[3] for row in rows} == {"74.86"}
    picture = tmp_path / "new" / "folder" / "spheres.png"
    assert str(picture) in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in picture.parent.iterdir()] == ["spheres.png"]


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "toy", "--steps", "0", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "hypersphere: --steps 0 must be at least 1\n"
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for command in (["theory", "toy"], ["demo"]):
        assert main([*command, "--out", str(blocked)]) == 2
        assert str(blocked) in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith("hypersphere 0.")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m hypersphere train --list | head -n 1; echo ${{PIPESTATUS[0]}}"
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONUNBUFFERED": "1"}
    run = subprocess.run(["bash", "-c", command], env=source, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.splitlines()[-1] in ("0", "141")


def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from hypersphere.cli.main import main\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.exit(main(['explore', '--out', sys.argv[1]]))"
    )
    page = tmp_path / "page.html"
    page.write_text("old")
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-c", program, str(page)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=source)
    assert ended.returncode == 143, ended.stderr
    assert "Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert page.read_text() == "old"
