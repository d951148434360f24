"""Options of `bench` that no story of the others needs."""

import pytest

import hypersphere as hs
from hypersphere.cli import main

Capture = pytest.CaptureFixture[str]


def test_a_plan_is_made_for_a_network_and_checked(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(hs.bench, "check_lines", lambda: ["compared with processes"])
    words = ["bench", "head", "--plan", "30", "12", "8", "2", "--device", "cpu", "--threads", "1"]
    assert main([*words, "--bandwidth", "5", "--latency", "7", "--check"]) == 0
    said = capsys.readouterr().out
    assert "each process sends 5 GB/s, 7 microseconds for a collective" in said
    assert said.endswith("compared with processes\n")
