"""docs/own-data.md: its commands and its program run on a small folder of painted people."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.data.images import encode
from hypersphere.pocket import PocketFaces

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text()
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
PEOPLE = ["ada", "grace", *(f"person{number:02d}" for number in range(2, 20))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    faces = PocketFaces(num_identities=len(PEOPLE), images_per_identity=4, size=32)
    for index, label in enumerate(np.asarray(faces.labels).tolist()):
        name = "portrait.png" if PEOPLE[label] == "grace" and index % 4 == 0 else f"{index % 4 + 1}.jpg"
        path = tmp_path / "people" / PEOPLE[label] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(faces.read(index), None if name.endswith("png") else 95))
    people = PEOPLE[2:]
    pairs = [f"{one}/1.jpg {one}/2.jpg 1" for one in people]
    pairs += [f"{one}/3.jpg {other}/4.jpg 0" for one, other in zip(people, people[1:] + people[:1], strict=True)]
    (tmp_path / "pairs.txt").write_text("\n".join(pairs) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_from_folder_to_cosine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) == 7
    for line in COMMANDS:
        words, _, target = line.partition(" > ")
        command = shlex.split(words.replace("count=200", "count=12").replace("--epochs 20", ""))[1:]
        if command[0] == "train" and "--dry-run" not in command:
            command += ["--steps", "2"]
        status = main(command)
        shown = capsys.readouterr()
        assert status == 0, (line, shown.err)
        if target:
            Path(target).write_text(shown.out)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    scope: dict[str, float] = {}
    exec(compile(program, "own-data.md", "exec"), scope)
    assert -1 <= float(scope["cosine"]) <= 1
    assert (folder / "runs" / "people-pairs" / "report.html").is_file()
