"""A core install (torch, numpy, scipy alone): numbers without pictures, and a refusal before computing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PNG = ROOT / "docs" / "images" / "margins.png"
PROGRAM = """
import contextlib, io, json
from tests.minimal import hide_extras
hide_extras()
from hypersphere.cli import main
told = []
for command in {commands!r}:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(command.split())
    told.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(told))
"""
COMMANDS = (
    "theory nearest",
    "theory toy --steps 3",
    "reproduce normface/fig5",
    "reproduce normface/fig1",
    "reproduce --all --paper normface --kind illustration --out all",
    "data inspect faces",
    "data pack faces packed.tar",
    "data convert faces digits --to mnist --to-split train",
    "demo",
    "explore",
    "train pocket/faces --steps 1 data.identities=20 train.batch_size=4 --out trained",
    "evaluate pairs --embeddings e.npy --names names.txt --pairs pairs.txt",
)
Told = dict[str, tuple[int, str, str]]
HINT = "in a checkout of hypersphere, pip install '.[{}]'"
PLOTS, IMAGES = (HINT.format(extra) for extra in ("plots", "images"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core")
    for person in ("a", "b"):
        (folder / "faces" / person).mkdir(parents=True)
        for number in range(2):
            (folder / "faces" / person / f"{number}.png").write_bytes(PNG.read_bytes())
    import numpy as np

    np.save(folder / "e.npy", np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32))
    names = [f"{person}/{number}.png" for person in range(10) for number in range(4)]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    pairs = [(names[4 * p], names[4 * p + 1], 1) for p in range(10)]
    pairs += [(names[4 * p + 2], names[(4 * p + 7) % 40], 0) for p in range(10)]
    (folder / "pairs.txt").write_text("".join(f"{a} {b} {same}\n" for a, b, same in pairs))
    return folder


@pytest.fixture(scope="module")
def told(place: Path) -> Told:
    program = PROGRAM.format(commands=COMMANDS)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT / "papers" / "src", ROOT))),
        "OMP_NUM_THREADS": "1",
    }
    got = subprocess.run(
        [sys.executable, "-c", program], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert got.returncode == 0, got.stderr
    return {command: tuple(each) for command, each in zip(COMMANDS, json.loads(got.stdout), strict=True)}


@pytest.mark.parametrize(
    ("command", "number"),
    [("theory nearest", "79.00"), ("theory toy --steps 3", "74.46"), ("reproduce normface/fig5", "8 held")],
)
def test_numbers_without_pictures(told: Told, command: str, number: str) -> None:
    status, out, _ = told[command]
    assert status == 0
    assert number in out
    assert f"Pictures are left out: drawing them needs matplotlib: {PLOTS}" in out


def test_inspect_counts_and_leaves_out_what_needs_pillow(told: Told) -> None:
    status, out, _ = told["data inspect faces"]
    assert status == 0
    assert "identities    2" in out
    assert f"Sizes and unreadable images are left out: reading or writing an image needs Pillow: {IMAGES}" in out


def test_images_are_packed_byte_for_byte(told: Told) -> None:
    assert told["data pack faces packed.tar"][0] == 0


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("reproduce normface/fig1", PLOTS),
        ("demo", PLOTS),
        ("data convert faces digits --to mnist --to-split train", IMAGES),
    ],
)
def test_what_needs_a_picture_is_refused_before_computing(told: Told, place: Path, command: str, hint: str) -> None:
    status, out, err = told[command]
    assert status == (2 if command.startswith("reproduce") else 1)
    assert out == ""
    assert hint in err
    assert not (place / "runs" / "demo").exists()
    assert not (place / "digits").exists()


def test_all_items_leave_out_illustrations_and_say_why(told: Told) -> None:
    status, out, _ = told["reproduce --all --paper normface --kind illustration --out all"]
    assert status == 0
    assert "0 run, 5 left out, 0 failed" in out
    assert PLOTS in out


def test_training_on_painted_faces_leaves_out_the_model_file(told: Told, place: Path) -> None:
    status, out, err = told["train pocket/faces --steps 1 data.identities=20 train.batch_size=4 --out trained"]
    assert status == 0, err
    assert f"The model file is left out: writing it needs safetensors: {HINT.format('models', 'models')}" in out
    assert not (place / "trained" / "model.safetensors").exists()


def test_the_explorer_needs_nothing(told: Told, place: Path) -> None:
    assert told["explore"][0] == 0
    assert (place / "runs" / "explore.html").is_file()


def test_evaluation_writes_its_numbers(told: Told, place: Path) -> None:
    status, out, err = told["evaluate pairs --embeddings e.npy --names names.txt --pairs pairs.txt"]
    assert status == 0, err
    assert "accuracy" in out
    assert f"The report is left out: drawing its figures needs matplotlib: {PLOTS}" in out
    assert (place / "runs" / "evaluation" / "result.json").is_file()
    assert not (place / "runs" / "evaluation" / "report.html").exists()
