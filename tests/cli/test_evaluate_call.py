"""`hs.evaluate` in Python gives what the command `hypersphere evaluate` gives, for every protocol."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.backbones import create_backbone
from hypersphere.cli import main
from hypersphere.evaluation import Embeddings, load_embeddings
from hypersphere.evaluation.protocols import list_protocols
from hypersphere.evaluation.protocols.run_protocol import protocol_options
from hypersphere.evaluation.results.result import result_table
from hypersphere.models import Contract, load_model, save_model
from hypersphere.training import Trainer, load_recipe
from tests.cli.test_evaluate import CONTRACT, RECIPE
from tests.evaluation.protocols import official
from tests.evaluation.protocols.standins import made_up, write_faces, write_lfw_list
from tests.models.networks import linear_onnx

Options = dict[str, Any]


def saved(folder: Path, embeddings: Embeddings) -> Options:
    np.save(folder / "E.npy", embeddings.values)
    (folder / "E.txt").write_text("".join(f"{each}\n" for each in embeddings.names))
    return {"embeddings": folder / "E.npy", "names": folder / "E.txt"}


def pairs(folder: Path) -> tuple[Options, list[str]]:
    write_lfw_list(folder / "lfw.txt")
    ready = saved(folder, made_up(hs.evaluation.protocols.read_pairs(folder / "lfw.txt").names))
    words = ["--pairs", "lfw.txt", "--far", "0.1", "--center", "--no-normalize", "--similarity", "euclidean"]
    own = {"pairs": "lfw.txt", "fars": [0.1], "center": True, "normalize": False, "similarity": "euclidean"}
    return {**ready, **own}, words


def blufr(folder: Path) -> tuple[Options, list[str]]:
    ready = saved(folder, official.write_blufr(folder / "config.mat"))
    return {**ready, "config": "config.mat", "pca": 8}, ["--config", "config.mat", "--pca", "8"]


def ytf(folder: Path) -> tuple[Options, list[str]]:
    ready = saved(folder, official.write_ytf(folder / "splits.txt"))
    words = ["--splits", "splits.txt", "--cost", "2", "--bins", "50"]
    return {**ready, "splits": "splits.txt", "cost": 2.0, "bins": 50}, words


def ijb(folder: Path) -> tuple[Options, list[str]]:
    ready = saved(folder, official.write_ijb(folder / "meta"))
    words = ["--meta", "meta", "--preset", "adaface", "--merge-flip", "sum", "--search", "both", "--fpir", "0.1"]
    own = {"meta": "meta", "preset": "adaface", "merge_flip": "sum", "search": "both", "fpirs": [0.1]}
    return {**ready, **own, "tasks": ["1:1", "1:N"]}, [*words, "--task", "1:1", "1:N"]


def megaface(folder: Path) -> tuple[Options, list[str]]:
    near, far = official.write_megaface(folder)[:2]
    together = Embeddings([*near.names, *far.names], np.concatenate([near.values, far.values]))
    ready = saved(folder, together)
    own = {"probes": "facescrub_features_list.json", "distractors": "megaface_features_list.json_400_1"}
    words = [word for name, value in own.items() for word in (f"--{name}", value)]
    return {**ready, **own, "limit": 100}, [*words, "--limit", "100"]


def reid(folder: Path) -> tuple[Options, list[str]]:
    ready = saved(folder, official.write_market(folder / "market"))
    return {**ready, "market": "market", "area": "trapezoid"}, ["--market", "market", "--area", "trapezoid"]


def classify(folder: Path) -> tuple[Options, list[str]]:
    rng = np.random.default_rng(0)
    names = [f"{number}.jpg" for number in range(60)]
    (folder / "test.txt").write_text("".join(f"{name} {k % 4}\n" for k, name in enumerate(names)))
    np.save(folder / "P.npy", rng.normal(size=(4, 6)).astype(np.float32))
    ready = saved(folder, Embeddings(names, rng.normal(size=(60, 6))))
    words = ["--test", "test.txt", "--train", "test.txt", "--prototypes", "P.npy", "--similarity", "inner_product"]
    own = {"test": "test.txt", "train": "test.txt", "prototypes": "P.npy", "similarity": "inner_product"}
    return {**ready, **own}, words


PROTOCOLS = [pairs, blufr, ytf, ijb, megaface, reid, classify]


def command(folder: Path, *words: str) -> dict[str, Any]:
    with patch("hypersphere.evaluation.protocols.write_evaluated.write_report", return_value="no page"):
        assert main(["evaluate", *words, "--out", str(folder / "out")]) == 0
    table: dict[str, Any] = json.loads((folder / "out" / "result.json").read_text())
    return table


def same(result: hs.evaluation.Result, table: dict[str, Any]) -> None:
    own = json.loads(json.dumps(result_table(result)))
    for key in set(own) - {"command", "date"}:
        assert own[key] == table[key], key


def test_every_protocol_is_here() -> None:
    assert sorted(each.__name__ for each in PROTOCOLS) == list_protocols()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_call_gives_what_the_command_gives(
    protocol: Callable[[Path], tuple[Options, list[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options, words = protocol(tmp_path)
    result = hs.evaluate(protocol.__name__, **options)
    assert result.metrics
    same(result, command(tmp_path, protocol.__name__, "--embeddings", "E.npy", "--names", "E.txt", *words))


def test_embeddings_in_memory_do_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options, _ = pairs(tmp_path)
    held = load_embeddings(options.pop("embeddings"), options.pop("names"))
    one, two = hs.evaluate("pairs", embeddings=held, **options), hs.evaluate("pairs", embeddings=[held], **options)
    assert one.metrics == two.metrics
    both = hs.evaluate("pairs", embeddings=[held, held], merge="concat", **options)
    assert both.options["embeddings"][0].keys() == {"concatenated"}


@pytest.mark.filterwarnings("ignore:the accuracy.* is near chance:RuntimeWarning")
@pytest.mark.parametrize("kind", ["onnx", "safetensors", "run"])
def test_a_model_and_images(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lfw_list(Path("lfw-pairs.txt"))
    write_faces(Path("faces"))
    model = {"onnx": "net.onnx", "safetensors": "net.safetensors", "run": "run"}[kind]
    if kind == "onnx":
        linear_onnx(Path(model), size=16, batch=1)
        Path("net.contract.toml").write_text(CONTRACT)
    elif kind == "safetensors":
        torch.manual_seed(0)
        network = create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
        save_model(model, network, Contract(input_size=(16, 16)), {"name": "cnn4", "dim": 4})
    else:
        Path("recipe.toml").write_text(RECIPE)
        Trainer(load_recipe("recipe.toml"), Path("run")).run()
    words = ["pairs", "--model", model, "--images", "faces", "--pairs", "lfw-pairs.txt", "--flip", "sum"]
    table = command(tmp_path, *words)
    seen: list[tuple[str, str]] = []

    class Meter:
        def __init__(self, title: str, unit: str) -> None:
            seen.append((title, unit))

        def __enter__(self) -> Callable[[int, int], None]:
            return lambda done, total: None

        def __exit__(self, *_: object) -> None:
            pass

    options: Options = {"images": "faces", "pairs": ["lfw-pairs.txt"], "flip": "sum"}
    result = hs.evaluate("pairs", model=model, progress=Meter, **options)
    assert seen[:2] == [(f"embedding lfw-pairs by {model}", "images"), ("measuring", "sets")]
    if kind == "run":  # the command computes channels last, the model file of the run does not: equal but for rounding
        assert result.metrics["accuracy"].value == table["metrics"]["accuracy"]["value"]
    else:
        same(result, table)
        assert hs.evaluate("pairs", model=load_model(model), **options).metrics == result.metrics
    assert hs.evaluate("pairs", model=model, data=".", flip="sum").metrics == result.metrics


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "pears"}, "unknown protocol 'pears'; did you mean 'pairs'"),
        ({"pears": 1}, "pairs has no option 'pears'; did you mean 'pairs'"),
        ({"protocol": "blufr"}, "blufr has no option 'pairs'"),
        ({"embeddings": ()}, "give either model and images, or embeddings and names"),
        ({"model": "nothing"}, "give either model and images"),
        ({"model": "nothing", "embeddings": ()}, "model nothing is missing: give a folder"),
        ({"names": ()}, "embeddings needs names: one list of names for all arrays"),
        ({"flip": "sum"}, "flip is for models"),
        ({"embeddings": ["E.npy", "E.npy"]}, "2 models or arrays: say with merge concat, unit or scores"),
        ({"merge": "sum"}, "merge='sum' is unknown"),
        ({"pairs": ()}, "give pairs LIST, or data PATH"),
        ({"data": "."}, "data stands for both pairs and images; leave these out"),
        ({"images": ["a", "b"]}, "images: 2 for 1 lists"),
    ],
)
def test_wrong_arguments_are_named_as_python_has_them(
    change: Options, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options, _ = pairs(tmp_path)
    options = {"protocol": "pairs", **options, **change}
    with pytest.raises(ValueError, match=message):
        hs.evaluate(**options)


def test_what_must_be_given_is_asked_for() -> None:
    held = made_up(["a.jpg", "b.jpg"])
    with pytest.raises(ValueError, match="megaface needs probes and distractors"):
        hs.evaluate("megaface", embeddings=held)
    assert protocol_options("classify") == {"test": True, "prototypes": True, "train": False, "similarity": False}


def test_the_documents_list_every_option() -> None:
    text = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    for name in list_protocols():
        (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", text, flags=re.MULTILINE)
        assert re.findall(r"`(\w+)`", row) == list(protocol_options(name))
