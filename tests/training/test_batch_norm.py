"""BatchNorm's statistics at the end of short runs, and of moving averages."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hypersphere.cli import main
from hypersphere.geometry import normalize
from hypersphere.training import Trained, Trainer, load_recipe, load_run, run_embedder
from hypersphere.training.batch_norm import estimate_anew, is_lagging
from hypersphere.training.training_data import training_source
from tests.training.small import RECIPE, final, same


def make(tmp_path: Path, name: str, *settings: str) -> Trainer:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return Trainer(load_recipe(path, ["train.steps=12", *settings]), tmp_path / name)


def agreement(trained: Trained) -> float:
    """The mean cosine between a batch's embeddings in train mode and in eval mode, each less its mean."""
    recipe, network = load_run(trained.folder)
    images = training_source(recipe.data)
    run, batch = run_embedder(recipe, network), images.batch(range(len(images)))
    used = run(batch)
    for layer in network.modules():
        layer.training = isinstance(layer, nn.BatchNorm2d)
    sides: list[Tensor] = [normalize(side - side.mean(0)) for side in (used, run(batch))]
    return float((sides[0] * sides[1]).sum(1).mean())


def test_statistics_are_the_means_over_the_batches() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    before = {name: value.clone() for name, value in network.named_parameters()}
    batches = [torch.randn(5, 3, dtype=torch.float64) * (number + 1) + number for number in range(4)]
    estimate_anew(network, network, batches)
    first, _, linear, last = network
    means = torch.stack([batch.mean(0) for batch in batches]).mean(0)
    variances = torch.stack([batch.var(0) for batch in batches]).mean(0)
    torch.testing.assert_close(first.running_mean, means)
    torch.testing.assert_close(first.running_var, variances)
    inner = [linear((batch - batch.mean(0)) / (batch.var(0, correction=0) + 1e-5).sqrt()) for batch in batches]
    torch.testing.assert_close(last.running_mean, torch.stack([batch.mean(0) for batch in inner]).mean(0))
    assert first.momentum == last.momentum == 0.1
    assert not any(layer.training for layer in network.modules())
    assert same(before, dict(network.named_parameters()))


def test_statistics_lag_while_they_remember_their_start() -> None:
    layer = nn.BatchNorm1d(2)
    for updates, lags in ((0, True), (87, True), (88, False)):
        layer.num_batches_tracked.fill_(updates)
        assert is_lagging(nn.Sequential(layer)) == lags
    assert not is_lagging(nn.Linear(2, 2))
    assert not is_lagging(nn.BatchNorm1d(2, momentum=None))


def test_the_statistics_of_a_moving_average_are_those_of_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypersphere.training.batch_norm.is_lagging", lambda _: False)
    settings = ("train.steps=60", "train.ema=0.97", "optimizer.lr=0.1", "schedule.name=constant", "schedule.warmup=0")
    trained = make(tmp_path, "mended", *settings).run()
    assert trained.statistics_batches == 0
    make(tmp_path, "stopped", *settings).run(until=30)
    make(tmp_path, "stopped", *settings).run()
    assert same(final(tmp_path / "stopped"), final(trained.folder))
    monkeypatch.setattr("hypersphere.training.batch_norm.keeps_statistics", lambda _: False)
    assert agreement(trained) > 0.98
    assert agreement(make(tmp_path, "plain", *settings).run()) < agreement(trained) - 0.02


@pytest.mark.parametrize("settings", [[], ["train.ema=0.5"]])
def test_a_short_run_embeds_as_it_was_trained(
    tmp_path: Path, settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = make(tmp_path, "mended", *settings).run()
    assert trained.statistics_batches == 12
    mended = agreement(trained)
    monkeypatch.setattr("hypersphere.training.batch_norm.is_lagging", lambda _: False)
    monkeypatch.setattr("hypersphere.training.batch_norm.keeps_statistics", lambda _: False)
    plain = make(tmp_path, "plain", *settings).run()
    assert plain.statistics_batches == 0
    assert mended > 0.98
    assert agreement(plain) < mended


def test_a_short_run_that_goes_on_is_the_same_run(tmp_path: Path) -> None:
    make(tmp_path, "one").run()
    assert make(tmp_path, "two").run(until=5).statistics_batches == 0
    make(tmp_path, "two").run()
    assert same(final(tmp_path / "one"), final(tmp_path / "two"))
    assert make(tmp_path, "two").run().statistics_batches == 0
    assert same(final(tmp_path / "one"), final(tmp_path / "two"))


def test_long_runs_and_frozen_networks_keep_their_statistics(tmp_path: Path) -> None:
    start = make(tmp_path, "start").run().folder
    frozen = make(tmp_path, "frozen", f"train.start={start}", "train.freeze_backbone=true").run()
    assert frozen.statistics_batches == 0
    assert same(final(tmp_path / "frozen")["backbone"], final(tmp_path / "start")["backbone"])
    assert make(tmp_path, "long", "train.steps=88", "train.batch_size=4").run().statistics_batches == 0


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    assert main(["train", str(path), "--steps", "3", "--out", str(tmp_path / "run"), "--device", "cpu"]) == 0
    assert "3 steps are too few for BatchNorm's running statistics" in capsys.readouterr().out
