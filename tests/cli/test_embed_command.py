"""`hypersphere embed`: one file, whoever computes it, also after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.data import encode, open_source, write_source
from hypersphere.models import Contract, ModelCard, save_folder
from hypersphere.pocket import PocketFaces
from tests.heads.shard_worker import run_processes

Capture = pytest.CaptureFixture[str]
SOURCE = Path(__file__).parents[2] / "src"
COUNT = 60
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with people, a small model, and one batch of 2 images, so that 60 images make four parts."""
    monkeypatch.chdir(tmp_path)
    write_source(PocketFaces(num_identities=6, images_per_identity=10, size=16), tmp_path / "people", quality=90)
    torch.manual_seed(0)
    network = hs.create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
    contract = Contract(input_size=(16, 16), flip="sum")
    save_folder(tmp_path / "net", network, contract, {"name": "cnn4", "dim": 4}, ModelCard(title="net").text())
    return tmp_path


def embed(images: str, out: str, *words: str) -> int:
    return main(["embed", images, out, "--model", "net", "--batch-size", "2", "--device", "cpu", *words])


def expected(here: Path) -> tuple[list[str], np.ndarray]:
    files = sorted(path.relative_to(here / "people").as_posix() for path in (here / "people").rglob("*.jpg"))
    vectors = hs.load_model(here / "net")([here / "people" / name for name in files], batch_size=2)
    return files, vectors.numpy()


def test_a_folder_becomes_vectors_with_names(here: Path, capsys: Capture) -> None:
    names, vectors = expected(here)
    assert embed("people", "out/faces.npy") == 0
    assert "60 unit vectors: out/faces.npy, out/faces.txt, out/faces.json" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load("out/faces.npy"), vectors)
    assert Path("out/faces.txt").read_text().splitlines() == names
    made = json.loads(Path("out/faces.json").read_text())
    assert made["contract"] == json.loads(Path("net/config.json").read_text())["contract"]
    assert (made["vectors"], made["unreadable"]) == (COUNT, {})
    assert sorted(path.name for path in Path("out").iterdir()) == ["faces.json", "faces.npy", "faces.txt"]
    np.save("plain.npy", vectors)
    assert Path("plain.npy").read_bytes() == Path("out/faces.npy").read_bytes()
    assert embed("people", "out/faces.npy") == 2
    assert "out/faces.npy exists already" in capsys.readouterr().err


def test_every_kind_of_images_gives_the_same_vectors(here: Path) -> None:
    names, vectors = expected(here)
    people = open_source("people")
    write_source(people, "people.tar")
    write_source(people, "people/all.lst", "list", root="people")
    write_source(people, "people.rec")
    Path("flat").mkdir()
    for place, name in enumerate(names):
        Path(f"flat/{place:03d}.jpg").write_bytes(Path("people", name).read_bytes())
    for images in ("people.tar", "people/all.lst", "people.rec", "flat"):
        assert embed(images, f"{images}.npy") == 0
        np.testing.assert_array_equal(np.load(f"{images}.npy"), vectors)
    assert Path("flat.txt").read_text().splitlines()[:2] == ["000.jpg", "001.jpg"]
    assert embed("flat/000.jpg", "one.npy") == 0
    np.testing.assert_allclose(np.load("one.npy"), vectors[:1], atol=1e-6)


def test_safetensors_and_parquet(here: Path) -> None:
    from safetensors import safe_open

    names, vectors = expected(here)
    assert embed("people", "faces.safetensors") == 0
    with safe_open("faces.safetensors", "pt") as file:
        np.testing.assert_array_equal(file.get_tensor("embeddings").numpy(), vectors)
        assert json.loads(file.metadata()["made"])["count"] == COUNT
    assert Path("faces.txt").read_text().splitlines() == names
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    assert embed("people", "table.parquet") == 0
    table = parquet.read_table("table.parquet")
    assert table["name"].to_pylist() == names
    np.testing.assert_array_equal(np.array(table["embedding"].to_pylist(), np.float32), vectors)
    assert not Path("table.txt").exists()


def test_without_pyarrow_parquet_says_how_to_get_it(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    assert embed("people", "table.parquet") == 1
    assert "pip install '.[parquet]'" in capsys.readouterr().err
    assert not list(here.glob(".*"))


def test_images_that_cannot_be_read_are_named(here: Path, capsys: Capture) -> None:
    names, vectors = expected(here)
    broken = [names[3], names[17]]
    for name in broken:
        Path("people", name).write_bytes(b"\xff\xd8\xff nothing")
    assert embed("people", "faces.npy") == 2
    assert "--allow-unreadable" in capsys.readouterr().err
    assert not Path(".faces.npy.parts").exists()
    assert embed("people", "faces.npy", "--allow-unreadable") == 0
    assert "2 images cannot be read and are left out; faces.json names them" in capsys.readouterr().out
    assert list(json.loads(Path("faces.json").read_text())["unreadable"]) == broken
    kept = [place for place, name in enumerate(names) if name not in broken]
    assert Path("faces.txt").read_text().splitlines() == [names[place] for place in kept]
    np.testing.assert_allclose(np.load("faces.npy"), vectors[kept], atol=1e-6)


def test_other_sizes_unknown_endings_and_empty_folders(here: Path, capsys: Capture) -> None:
    Path("large").mkdir()
    Path("large/a.png").write_bytes(encode(np.zeros((20, 20, 3), np.uint8)))
    Path("empty").mkdir()
    for words, message in [
        (["large", "x.npy"], "a.png is 20x20 (width x height), but size=[16, 16] asks for 16x16"),
        (["people", "x.csv"], "x.csv: the vectors go to a file that ends in .npy, .safetensors, .parquet"),
        (["empty", "x.npy"], "empty: no images in it, nor in folders below it"),
        (["nowhere", "x.npy"], "nowhere is missing"),
    ]:
        assert embed(*words) == 2
        assert message in capsys.readouterr().err
    assert not list(here.glob("x*"))
    assert not list(here.glob(".x*"))
    assert embed("large", "x.npy", "--resize") == 0


def program(*words: str) -> list[str]:
    text = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\nfrom hypersphere.cli import main; sys.exit(main())"
    return [sys.executable, "-c", text, "embed", *words, "--model", "net", "--batch-size", "2", "--device", "cpu"]


def test_a_killed_command_goes_on(here: Path) -> None:
    assert embed("people", "whole.npy") == 0
    running = subprocess.Popen(program("people", "faces.npy"), env=ENVIRONMENT)
    parts = here / ".faces.npy.parts"
    while running.poll() is None and not list(parts.glob("part-*")):
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    if not Path("faces.npy").exists():
        before = {path.name: path.stat().st_mtime_ns for path in parts.glob("part-*")}
        assert before
        assert embed("people", "faces.npy", "--resize") == 2
        assert {path.name: path.stat().st_mtime_ns for path in parts.glob("part-*")} == before
        assert embed("people", "faces.npy") == 0
    assert Path("faces.npy").read_bytes() == Path("whole.npy").read_bytes()
    assert not parts.exists()


def test_parts_that_are_there_are_not_computed_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypersphere.evaluation.embed_files import OpenTask

    assert embed("people", "whole.npy") == 0
    computed: list[int] = []
    whole = OpenTask.embed_part

    def until_the_third(self: OpenTask, number: int) -> object:
        computed.append(number)
        if len(computed) == 3:
            raise KeyboardInterrupt
        return whole(self, number)

    monkeypatch.setattr(OpenTask, "embed_part", until_the_third)
    assert embed("people", "faces.npy") == 130
    assert computed == [0, 1, 2]
    assert embed("people", "faces.npy") == 0
    assert computed == [0, 1, 2, 2, 3]
    assert Path("faces.npy").read_bytes() == Path("whole.npy").read_bytes()


def embed_together(rank: int, folder: Path) -> None:
    os.chdir(folder)
    assert embed("people", "two.npy") == 0


def test_two_processes_write_the_file_of_one(here: Path) -> None:
    run_processes(embed_together, here, 2, torchrun=True)
    assert embed("people", "one.npy") == 0
    for suffix in (".npy", ".txt", ".json"):
        assert Path(f"two{suffix}").read_bytes() == Path(f"one{suffix}").read_bytes()


@pytest.mark.slow
def test_torchrun_writes_the_file_of_one(here: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "hypersphere", *program("people", "two.npy")[3:]]
    subprocess.run([*launch, *words], env=ENVIRONMENT, check=True, capture_output=True)
    assert embed("people", "one.npy") == 0
    for suffix in (".npy", ".txt", ".json"):
        assert Path(f"two{suffix}").read_bytes() == Path(f"one{suffix}").read_bytes()


def test_ray_writes_the_file_of_one(here: Path) -> None:
    pytest.importorskip("ray.data", reason="needs ray[data]")
    by_ray = [*program("people", "two.npy"), "--engine", "ray", "--processes", "2"]
    subprocess.run(by_ray, env=ENVIRONMENT, check=True, capture_output=True)
    subprocess.run(program("people", "one.npy"), env=ENVIRONMENT, check=True, capture_output=True)
    for suffix in (".npy", ".txt", ".json"):
        assert Path(f"two{suffix}").read_bytes() == Path(f"one{suffix}").read_bytes()


def test_without_ray_it_says_how_to_get_it(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert embed("people", "faces.npy", "--engine", "ray") == 1
    assert "--engine ray needs ray: in a checkout" in capsys.readouterr().err
    assert not list(here.glob(".*"))


def test_the_starter_is_the_default_and_said(here: Path, capsys: Capture) -> None:
    assert main(["embed", "people/0", "faces.npy", "--resize", "--device", "cpu"]) == 0
    assert "no --model: the starter model of the package, for research only" in capsys.readouterr().out
    assert np.load("faces.npy").shape == (10, 128)
