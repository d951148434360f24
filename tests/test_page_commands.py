"""README and the quick starts: every command and program runs, in order, from one folder of ten people's photos."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.data.images import encode
from hypersphere.pocket import PocketFaces
from tests import examples
from tests.recognition.drawn import drawn_photo
from tests.training.small import RECIPE

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(f"docs/start/{path.name}" for path in sorted((ROOT / "docs" / "start").glob("*.md")))]
PEOPLE = ["ada", "grace", *(f"person{number}" for number in range(2, 10))]
SMALLER = {
    "pocket/faces": "small.toml",
    "--seeds 3 --jobs 2": "--seeds 1",
}
"""What commands of the pages are shortened by."""


def write_photos(folder: Path) -> None:
    """Write two painted photos of each of ten people, two portraits of 112 x 112, and photos of a drawn face."""
    faces = PocketFaces(num_identities=len(PEOPLE), images_per_identity=2, size=48)
    for index, label in enumerate(np.asarray(faces.labels).tolist()):
        path = folder / "photos" / PEOPLE[label] / f"{index % 2 + 1}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(faces.read(index), 95))
    portraits = PocketFaces(num_identities=2, images_per_identity=1, size=112)
    for index, name in enumerate(PEOPLE[:2]):
        (folder / f"{name}.jpg").write_bytes(encode(portraits.read(index), 95))
    (folder / "album").mkdir()
    for name in ("ada-1", "ada-2", "visitor", "album/1", "album/2"):
        (folder / f"{name}.jpg").write_bytes(encode(drawn_photo(), 95))
    (folder / "small.toml").write_text(RECIPE)


def steps(page: str) -> list[tuple[str, str]]:
    """Language and text of what a page asks to run: each line of a bash block, each block of Python."""
    found: list[tuple[str, str]] = []
    for language, text in re.findall(r"```(bash|python)\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL):
        if language == "python":
            found.append((language, text))
        else:
            found += [(language, line) for line in (row.split("#")[0].strip() for row in text.splitlines()) if line]
    return found


def run_command(line: str) -> int:
    """Run a command, training for two steps; of `make` what it would do, of `torchrun` what one process would train."""
    for long, short in SMALLER.items():
        line = line.replace(long, short)
    program, *words = shlex.split(line)
    if program == "make":
        return subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, check=False).returncode
    if program == "torchrun":
        return main([*words[words.index("hypersphere") + 1 :], "--dry-run"])
    assert program == "hypersphere", f"this test cannot run {line!r}"
    if words[0] in ("train", "compare") and "--list" not in words:
        words += ["--steps", "2"]
    return main(words)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {} if page == "README.md" else examples.names()
    assert steps(page)
    for language, text in steps(page):
        if language == "python":
            exec(compile(text, page, "exec"), scope)
        else:
            assert run_command(text) == 0, (text, capsys.readouterr().err)
    if page == "README.md":
        assert float((scope["vectors"] - scope["again"]).abs().max()) < 1e-5
        assert len(np.load("photos.npy")) == len(Path("photos.txt").read_text().splitlines()) == 2 * len(PEOPLE)
        assert "cosine" in capsys.readouterr().out, "the parity report is not printed"


@pytest.mark.slow
def test_the_commands_of_torchrun(tmp_path: Path) -> None:
    write_photos(tmp_path)
    lines = [text for page in PAGES for language, text in steps(page) if text.startswith("torchrun")]
    assert lines
    for line in lines:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", *shlex.split(line)[1:], "--steps", "2"]
        path = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'papers' / 'src'}",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        run = subprocess.run(words, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-3000:]


def test_readme_is_read_in_a_minute() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 900
    assert len(re.findall(r"!\[", text)) == 1, "one picture"
    assert len(re.findall(r"\[[+-]?\d[\d.]*, [+-]?\d", text)) <= 1, "intervals belong to the pages of results"
    assert f"SphereFace2 and {len(hs.list_heads()) - 3} more losses" in text
    assert f"[{len(hs.list_heads())} losses]" in text
