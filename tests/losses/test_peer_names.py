"""What docs/from-pytorch-metric-learning.md says of the other package is true of the installed one."""

import inspect
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import hypersphere as hs
from tests.losses.test_peer_parity import (
    assert_same,
    batch,
    distances,
    miners,
    numpy_1_binomials,
    ours,
    pair_outcome,
    peer,
    reducers,
    theirs,
)

PAGE = (Path(__file__).parents[2] / "docs" / "from-pytorch-metric-learning.md").read_text()
ROWS = re.findall(r"^\| `(\w+Loss)\((.*?)\)` \| `(\w+)\((.*)\)` \|", PAGE, flags=re.MULTILINE)
HEADS = [row for row in ROWS if row[2] != "create_loss"]
PAIRS = [row for row in ROWS if row[2] == "create_loss"]


def options(text: str) -> dict[str, Any]:
    return dict(eval(f"dict({text})", {"math": math, "dict": dict, "__builtins__": {}}))


def test_the_page_has_its_rows() -> None:
    assert [name for name, *_ in HEADS] == [
        "ArcFaceLoss", "CosFaceLoss", "NormalizedSoftmaxLoss", "SphereFaceLoss", "LargeMarginSoftmaxLoss",
    ]  # fmt: skip
    assert [name for name, *_ in PAIRS] == ["TripletMarginLoss", "ContrastiveLoss"]


@numpy_1_binomials
@pytest.mark.parametrize(("name", "said", "own", "translated"), HEADS, ids=[row[0] for row in HEADS])
def test_the_two_agree_under_the_translation(name: str, said: str, own: str, translated: str) -> None:
    data = batch(torch.float64)
    result = theirs(name, data, **options(said))
    assert_same(ours(own, data, **options(translated)), result)
    assert_same(theirs(name, data), result)  # what the page states are their defaults


def test_pairs_agree_under_the_translation() -> None:
    x, labels, _ = batch(torch.float64)
    how = {"distance": distances.LpDistance(power=2), "reducer": reducers.MeanReducer()}
    triplets = peer.TripletMarginLoss(margin=0.2, **how)
    mine = hs.create_loss("triplet", margin=0.2, mining="all")
    assert_same(pair_outcome(mine, x, labels), pair_outcome(triplets, x, labels))
    hard, miner = hs.create_loss("triplet", margin=0.2, mining="hard"), miners.BatchHardMiner()
    hardest = pair_outcome(lambda x, labels: triplets(x, labels, miner(x, labels)), x, labels)
    assert_same(pair_outcome(hard, x, labels), hardest)
    parts = peer.ContrastiveLoss(
        pos_margin=0, neg_margin=1, distance=how["distance"], reducer=reducers.DoNothingReducer()
    )(x, labels)
    together = torch.cat([parts[part]["losses"] for part in ("pos_loss", "neg_loss")]).mean()
    torch.testing.assert_close(hs.create_loss("contrastive", margin=1)(x, labels), together)


def test_their_default_reducers() -> None:
    assert isinstance(peer.TripletMarginLoss().reducer, reducers.AvgNonZeroReducer)
    assert "AvgNonZeroReducer" in inspect.getsource(peer.ContrastiveLoss.get_default_reducer)
    loss = peer.CosFaceLoss(num_classes=4, embedding_size=3)
    assert isinstance(loss.reducer, reducers.MeanReducer)


def test_names_and_shapes() -> None:
    x, labels, prototypes = batch(torch.float64)
    loss = peer.CosFaceLoss(num_classes=6, embedding_size=8, scale=16).double()
    assert tuple(loss.W.shape) == (8, 6)
    head = hs.create_head("cosface", num_classes=6, dim=8, scale=16, dtype=torch.float64)
    assert tuple(head.weight.shape) == (6, 8)
    with torch.no_grad():
        loss.W.copy_(prototypes.T)
        head.weight.copy_(prototypes)
    torch.testing.assert_close(loss.get_logits(x), head.logits(x))
    torch.testing.assert_close(loss.get_logits(x), 16 * head.cosines(x))
    each = hs.create_head("cosface", num_classes=6, dim=8, scale=16, dtype=torch.float64, reduction="none")
    each.load_state_dict(head.state_dict())
    whole = peer.CosFaceLoss(num_classes=6, embedding_size=8, scale=16, reducer=reducers.DoNothingReducer()).double()
    whole.load_state_dict(loss.state_dict())
    torch.testing.assert_close(each(x, labels), whole(x, labels)["loss"]["losses"])
    with pytest.raises(IndexError, match="out of bounds"):
        loss(x, torch.full_like(labels, -1))
    assert head(x, torch.full_like(labels, -1)) == 0


def test_what_has_no_counterpart() -> None:
    (sentence,) = re.findall(r"Without a counterpart here: (.*?)\.\n", PAGE, flags=re.DOTALL)
    named = re.findall(r"`(\w+)`", sentence)
    assert len(named) == 8
    assert all(hasattr(peer, name) for name in named)
    assert not [
        name for name in hs.list_heads() if re.search("anchor|nca|sub_?center|multi_similarity|ntxent|supcon", name)
    ]
