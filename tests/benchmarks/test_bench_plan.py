"""`benchmarks/speed.py head --plan`: the forecast, its arithmetic, and its check against processes."""

import pytest
import speed
from bench import check_plan
from speed import main

from hypersphere.heads import Cost, forecast, step_bytes


def test_a_line_goes_through_two_points_and_never_below_zero() -> None:
    line = Cost.through(1, 3, 3, 7)
    assert (line.fixed, line.slope, line(10)) == (1, 2, 21)
    assert Cost.through(1, 1, 2, 10) == Cost(0, 9)
    assert Cost.through(1, 5, 2, 4) == Cost(5, 0)


def test_a_forecast_adds_up() -> None:
    rate, network = Cost(1e-3, 1e-8), Cost(1e-5, 1e-9)
    own = forecast(
        "cosface", rows=1024, dim=512, num_classes=1_000_001, processes=8, rate=rate, network=network, gpu=True
    )
    share = 125_001
    sent = step_bytes("cosface", rows=1024, dim=512, processes=8)
    assert own.compute == pytest.approx(1e-3 + 1e-8 * share)
    assert own.sent == sent
    assert own.exchange == pytest.approx(sent * 1e-9 + 5 * 1e-5), "counts, embeddings, labels, 2 N floats, gradient"
    assert own.seconds == own.compute + own.exchange
    assert own.memory == share * (3 * 4 * 512 + 2 * 512 + 2 * 1024) + 2 * 4 * 1024 * 512
    alone = forecast("cosface", rows=1024, dim=512, num_classes=1000, processes=1, rate=rate, network=network)
    assert (alone.sent, alone.exchange) == (0, 0)


def test_sphereface2_sends_less_than_cosface() -> None:
    sizes = {"rows": 1024, "dim": 512, "processes": 8}
    assert step_bytes("sphereface2", **sizes) < step_bytes("cosface", **sizes)


def test_memory_is_told_without_measuring(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(speed, "measure_rate", lambda *_: pytest.fail("nothing is to be measured"))
    assert main(["head", "--plan", "10000000", "1024", "512", "8", "--device", "cpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:9].strip().isdigit()]
    assert rows[0][:4] == ["1", "CosFace", "57.2", "GiB"]
    assert rows[3][:4] == ["8", "CosFace", "7.2", "GiB"]


def test_the_plan_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["head", "--plan", "300", "12", "8", "6", "--measure", "--device", "cpu", "--threads", "1"]) == 0
    printed = capsys.readouterr().out.split("Measured here")[1]
    assert "CosFace" in printed
    assert "SphereFace2" in printed
    assert [line.split()[0] for line in printed.splitlines() if line[:9].strip().isdigit()] == ["1", "2", "4", "6"] * 2


def test_a_plan_is_made_for_a_network_and_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed, "check_lines", lambda: ["compared with processes"])
    words = ["head", "--plan", "30", "12", "8", "2", "--device", "cpu", "--threads", "1"]
    assert main([*words, "--bandwidth", "5", "--latency", "7", "--check"]) == 0
    said = capsys.readouterr().out
    assert "each process sends 5 GB/s, 7 microseconds for a collective" in said
    assert said.endswith("compared with processes\n")


@pytest.mark.parametrize(
    "options",
    [
        ["--plan", "1", "12", "8", "2"],
        ["--plan", "30", "12", "8", "0"],
        ["--plan", "30", "7", "8", "2"],
        ["--bandwidth", "0"],
        ["--latency", "-1"],
        ["--latency", "nan"],
        ["--threads", "0"],
    ],
)
def test_bad_plans_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    plan = [] if "--plan" in options else ["--plan", "30", "12", "8", "2"]
    assert main(["head", *plan, *options]) != 0
    assert "must be" in capsys.readouterr().err


@pytest.mark.slow
def test_the_plans_bytes_are_those_that_processes_send() -> None:
    rows = list(check_plan())
    assert len(rows) == 8
    assert all(abs(row.planned_bytes - row.sent_bytes) <= 0.5 for row in rows)
