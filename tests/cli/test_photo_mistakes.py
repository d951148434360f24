"""Mistakes that newcomers make with photos: each is answered by what was wrong and what would be right."""

from pathlib import Path

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.data import encode
from hypersphere.pocket import PocketFaces
from tests.cli.test_photo_commands import folder, here

__all__ = ["folder", "here"]
Capture = pytest.CaptureFixture[str]


def status_of(words: list[str]) -> int:
    """The status of a command, also where argparse ends it."""
    try:
        return main(words)
    except SystemExit as stop:
        return int(str(stop.code))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("enroll one.png two.png", "NAME 'one.png' is a photo; the person's name comes first: hypersphere enroll Ada"),
        ("enroll gone.jpg one.png", "NAME 'gone.jpg' is a photo"),
        ("cluster album --page groups.pdf", "--page groups.pdf: what is written ends in .html"),
        ("cluster album --page no/such/groups.html", "the folder no/such does not exist; make it first"),
        ("cluster album --out no/groups.csv", "--out no/groups.csv: the folder no does not exist"),
        ("verify one.png one.png --page page.pdf", "--page page.pdf: what is written ends in .html"),
        ("verify one.png one.png --page no/page.html", "the folder no does not exist"),
        ("verify one.png one.png --threshold 0.5", "a threshold is chosen by its error rate: --fmr 1e-3"),
        ("identify one.png --threshold 0.5", "a threshold is chosen by its error rate: --fpir 1e-3"),
        ("cluster empty", "empty: no images in it, nor in folders below it"),
    ],
)
def test_a_mistake_is_answered(here: Path, capsys: Capture, words: str, message: str) -> None:
    Path("empty").mkdir(exist_ok=True)
    assert status_of([*words.split(), "--device", "cpu"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("no").exists()


def test_cluster_says_how_many_groups_it_does_not_show(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo = encode(PocketFaces(num_identities=1, images_per_identity=1, size=112).read(0))
    Path("many").mkdir()
    for index in range(26):
        Path(f"many/{index}.png").write_bytes(photo)
    monkeypatch.setattr(hs.recognition, "cluster_faces", lambda unit, threshold, linkage: np.arange(len(unit)) // 2)
    assert main(["cluster", "many", "--aligned", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "13 groups" in out
    assert "  3 more (--page shows them, --out and --json list them)" in out


def test_a_gallery_that_cannot_be_made_is_named(capsys: Capture) -> None:
    contract = hs.models.Contract(input_size=(16, 16), dim=4, digest="0123456789abcdef")
    with pytest.raises(OSError, match=r"^/proc/people\.db: not written \("):
        hs.open_gallery("/proc/people.db", contract=contract, create=True)
