"""Surfaces of the models and evaluation rooms: model files, embeddings, protocols' files, results."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypersphere.backbones import create_backbone
from hypersphere.cli.advise import read_counts
from hypersphere.evaluation import (
    Embeddings,
    compare_results,
    load_embeddings,
    read_result,
    write_comparison,
    write_result,
)
from hypersphere.evaluation.protocols import (
    evaluate_pairs,
    read_classify,
    read_ijb,
    read_megaface,
    read_pairs,
    read_reid,
    read_ytf,
    reid_among,
)
from hypersphere.heads import create_head
from hypersphere.models import Contract, load_model, load_prototypes, read_contract, save_model, save_prototypes
from hypersphere_papers.engine.result_file import read_result as read_reproduced
from tests.evaluation.protocols import official
from tests.evaluation.protocols.standins import made_up, write_calfw_list, write_cfp, write_lfw_list
from tests.fuzz.mutate import DIGITS
from tests.fuzz.surface import CallSurface, Damaged, FileSurface, Surface, unchanged
from tests.models.networks import linear_onnx

_ROOT = Path(__file__).parents[2]
_LISTS = "errors only: another list is another protocol"
_CONTRACT = Contract(input_size=(8, 8), dim=4)


def make_model(folder: Path) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"name": "cnn4", "dim": 4, "input_size": [12, 12]}
    save_model(folder / "model.safetensors", create_backbone(**options), Contract(input_size=(12, 12), dim=4), options)


def read_model(folder: Path) -> Any:
    model = load_model(folder / "model.safetensors")
    return {"contract": model.contract.table(), "network": model.network.state_dict()}  # type: ignore[attr-defined]


def make_prototypes(folder: Path) -> None:
    torch.manual_seed(0)
    save_prototypes(folder / "prototypes.safetensors", create_head("arcface", dim=3, num_classes=4))


def make_onnx(folder: Path) -> None:
    linear_onnx(folder / "linear.onnx")
    (folder / "linear.contract.json").write_text(json.dumps(_CONTRACT.table()))


def read_onnx(folder: Path) -> Any:
    model = load_model(folder / "linear.onnx")
    return model(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


def make_contracts(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(_CONTRACT.table()))
    (folder / "a.toml").write_text('input_size = [8, 8]\ncolour = "bgr"\nmean = [127.5]\nstd = [128.0]\nflip = "sum"\n')


def read_contracts(folder: Path) -> Any:
    return [read_contract(folder / "a.json").table(), read_contract(folder / "a.toml").table()]


def make_embeddings(folder: Path) -> None:
    np.save(folder / "e.npy", np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
    (folder / "names.txt").write_text("".join(f"Ada/Ada_{k:04d}.jpg\n" for k in range(5)))


def read_embeddings(folder: Path) -> Any:
    found = load_embeddings(folder / "e.npy", folder / "names.txt")
    return {"names": list(found.names), "values": found.values}


def a_row_per_line(damaged: Damaged) -> str | None:
    """Every line of the list names a row."""
    rows, lines = len(damaged.found["names"]), damaged.lines("names.txt")
    return None if rows in lines else f"{rows} rows of {lines} names"


def make_results(folder: Path) -> None:
    write_lfw_list(folder / "lfw.txt")
    pairs = read_pairs(folder / "lfw.txt")
    (folder / "lfw.txt").unlink()
    for name, noise in (("a", 1.5), ("b", 0.5)):
        write_result(
            evaluate_pairs([(pairs, made_up(pairs.names, noise=noise))], fars=[0.1], replicates=3), folder / name
        )


def read_results(folder: Path) -> Any:
    first, second = read_result(folder / "a"), read_result(folder / "b")
    rows = compare_results(first, second, replicates=3)
    write_comparison(rows, first, second, folder)
    (folder / "compare.html").unlink()
    return {"rows": repr(rows), "items": [dict(first.items), dict(second.items)]}


def sound_items(damaged: Damaged) -> str | None:
    """A zip archive has a checksum of every member."""
    if damaged.gone or damaged.found["items"] == damaged.sound["items"]:
        return None
    whole = all(data in damaged.files.values() for name, data in damaged.change.items() if name.endswith(".npz"))
    return None if whole else f"items {damaged.found['items']!r:.200}"


def pair_list(folder: Path) -> dict[str, Any]:
    """The pairs of the list in a folder."""
    pairs = read_pairs(folder / "pairs.txt")
    return {"count": len(pairs.same), "same": pairs.same, "names": list(pairs.names)}


def counted(per: Callable[[Damaged], set[float]]) -> Callable[[Damaged], str | None]:
    """As many pairs as the list says."""

    def check(damaged: Damaged) -> str | None:
        wanted, found = per(damaged), damaged.found["count"]
        return None if found in wanted else f"{found} pairs, but the list has {wanted}"

    return check


def lfw_count(damaged: Damaged) -> set[float]:
    """Of a list that was taken for one of LFW's or for another."""
    text = damaged.text("pairs.txt")
    return {_pairs_of(each.split("\n")) for each in (text, text.replace("\r", "\n"))}


def _pairs_of(text: list[str]) -> float:
    lines = [line.split() for line in text if line.strip()]
    if not lines:
        return 0
    head = [int(word) for word in lines[0]] if all(word.isdecimal() and len(word) < 20 for word in lines[0]) else []
    if len(head) in (1, 2):
        return 2 * (head[0] * head[1] if len(head) == 2 else head[0])
    return len(lines) / 2 if len(lines[0]) == 2 else len(lines)


def make_plain_pairs(folder: Path) -> None:
    lines = [f"Ada/{k}.jpg\tBo/{k}.jpg\t{k % 2}\t{k // 4}" for k in range(12)]
    (folder / "pairs.txt").write_text("\n".join(lines) + "\n")


def cfp_count(damaged: Damaged) -> set[float]:
    counts = [damaged.lines(name) for name in damaged.files if "/FP/" in name]
    return {sum(map(min, counts)), sum(map(max, counts))}


def read_cfp(folder: Path) -> dict[str, Any]:
    pairs = read_pairs(folder / "Protocol" / "Split" / "FP")
    return {"count": len(pairs.same), "same": pairs.same}


def make_ijb(folder: Path) -> None:
    embeddings = official.write_ijb(folder, subjects=3)
    np.savez(folder / "embeddings.npz", names=np.array(embeddings.names), values=embeddings.values)


def _embeddings(folder: Path) -> Any:
    with np.load(folder / "embeddings.npz") as table:
        return Embeddings(table["names"].tolist(), table["values"])


def evaluate_ijb(folder: Path) -> Any:
    protocol = read_ijb(folder)
    result = protocol.evaluate(_embeddings(folder), tasks=["1:1"], fars=[0.1])
    return dict(result.counts)


def make_megaface(folder: Path) -> None:
    official.write_megaface(folder, people=5, each=2, distractors=50)


def read_small_megaface(folder: Path) -> Any:
    found = read_megaface(
        folder / "facescrub_features_list.json",
        folder / "megaface_features_list.json_50_1",
        probe_noise=folder / "facescrub_noises.txt",
        distractor_noise=folder / "megaface_noises.txt",
    )
    return repr(found)


def make_ytf(folder: Path) -> None:
    official.write_ytf(folder / "splits.txt", people=20, videos=3, frames=1, pairs=2)


def read_small_ytf(folder: Path) -> Any:
    return repr(read_ytf(folder / "splits.txt"))


def make_classify(folder: Path) -> None:
    (folder / "test.txt").write_text("".join(f"val/{k}.JPEG {k % 3}\n" for k in range(9)))
    (folder / "train.txt").write_text("".join(f"train/{k}.JPEG {k % 3}\n" for k in range(12)))


def evaluate_classify(folder: Path) -> Any:
    protocol = read_classify(folder / "test.txt", folder / "train.txt")
    rng = np.random.default_rng(0)
    made = Embeddings(list(protocol.names), rng.normal(size=(len(protocol.names), 4)))
    result = protocol.evaluate(made, rng.normal(size=(3, 4)))
    return {"count": len(protocol.names), "figures": repr(result.metrics)}


def a_sample_per_line(damaged: Damaged) -> str | None:
    lines = damaged.lines("test.txt")
    return None if damaged.found["count"] in lines else f"{damaged.found['count']} samples of {lines} lines"


def call_reid(rng: random.Random, folder: Path) -> str | None:
    """Names of re-identification with odd numbers in them."""
    names = []
    for k in range(rng.randint(2, 8)):
        split = rng.choice(("query", "bounding_box_test", "bounding_box_test", "other"))
        who, camera = rng.choice((str(k), str(k), *DIGITS)), rng.choice(("1", "2", *DIGITS))
        names.append(f"{split}/{who}_c{camera}s1_{k:06d}_00.jpg")
    found = reid_among(names, "names.txt")
    wanted = sum(name.startswith(("query/", "bounding_box_test/")) for name in names)
    return None if len(found.queries) + len(found.gallery) == wanted else "another number of names"


def make_market(folder: Path) -> None:
    official.write_market(folder, people=2, each=3)


def read_class_counts(folder: Path) -> Any:
    counts = read_counts(folder / "counts.txt")
    return {"count": len(counts)}


MEASURES: list[Surface] = [
    FileSurface(
        "advise --counts",
        350,
        lambda folder: (folder / "counts.txt").write_text("".join(f"{k}\n" for k in range(5, 40, 5))),
        read_class_counts,
        counted(lambda damaged: {float(count) for count in damaged.lines("counts.txt")}),
        "a class for every line",
    ),
    FileSurface(
        "model .safetensors",
        200,
        make_model,
        read_model,
        unchanged,
        "the digest covers weights and contract",
    ),
    FileSurface(
        "prototypes .safetensors",
        340,
        make_prototypes,
        lambda folder: load_prototypes(folder / "prototypes.safetensors"),
        promise="errors only: no digest covers them",
    ),
    FileSurface("ONNX", 210, make_onnx, read_onnx, promise="errors only: the format has no checksum"),
    FileSurface("contract", 480, make_contracts, read_contracts, promise="errors only: a contract is what it says"),
    FileSurface("embeddings .npy", 620, make_embeddings, read_embeddings, a_row_per_line, "a row for every name"),
    FileSurface(
        "evaluate compare",
        250,
        make_results,
        read_results,
        sound_items,
        "items as the archive's checksums say",
    ),
    FileSurface(
        "pairs, LFW",
        550,
        lambda folder: write_lfw_list(folder / "pairs.txt"),
        pair_list,
        counted(lfw_count),
        "as many pairs as line 1 says",
    ),
    FileSurface(
        "pairs, CALFW",
        410,
        lambda folder: write_calfw_list(folder / "pairs.txt"),
        pair_list,
        counted(lfw_count),
        "a pair for every two lines",
    ),
    FileSurface(
        "pairs, plain",
        480,
        make_plain_pairs,
        pair_list,
        counted(lfw_count),
        "a pair for every line",
    ),
    FileSurface(
        "pairs, CFP", 280, write_cfp, read_cfp, counted(cfp_count), "a pair for every line", only=("*/FP/*", "*.txt")
    ),
    FileSurface(
        "IJB", 280, make_ijb, evaluate_ijb, promise=_LISTS, only=("ijbc_*",), words=("tasks", "detector_score")
    ),
    FileSurface("MegaFace", 340, make_megaface, read_small_megaface, promise=_LISTS),
    FileSurface("YTF", 410, make_ytf, read_small_ytf, promise=_LISTS),
    FileSurface("classify", 500, make_classify, evaluate_classify, a_sample_per_line, "a sample for every line"),
    CallSurface("re-identification names", 280, call_reid, "as many names as were given"),
    FileSurface(
        "re-identification folder",
        100,
        make_market,
        lambda folder: repr(read_reid(folder)),
        lambda damaged: None if damaged.gone else unchanged(damaged),
        "only names are read",
    ),
    FileSurface(
        "record of reproduce",
        480,
        lambda folder: (folder / "r.json").write_bytes(
            min(
                (_ROOT / "docs" / "reproduction" / "results").glob("*.json"), key=lambda p: p.stat().st_size
            ).read_bytes()
        ),
        lambda folder: repr(read_reproduced(folder / "r.json")),
        promise="errors only: a record is what it says",
    ),
]
