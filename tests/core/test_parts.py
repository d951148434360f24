"""Parts of long work: one that is not as it was written is never used."""

import random
import warnings
from pathlib import Path

import pytest

from hypersphere.core import Parts, read_sealed
from tests.damage import flipped

PLAN = {"model": "net", "size": (16, 16), "count": 30}


def upper(number: int, content: bytes) -> str:
    return content.decode().upper()


def parts(folder: Path, plan: dict[str, object] = PLAN, count: int = 3) -> Parts[str]:
    return Parts(folder, plan, count, upper, limit=1000)


def begun(folder: Path) -> Parts[str]:
    made = parts(folder)
    made.begin()
    for number in range(3):
        made.save(number, f"part {number} of the work\nwith two lines".encode())
    return made


def test_parts_come_back(tmp_path: Path) -> None:
    made = begun(tmp_path)
    assert made.missing() == []
    again = parts(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.begin()
        whole: list[int] = []
        again.discard_damaged(whole=whole.append)
    assert whole == [0, 1, 2]
    assert again.load(1) == "PART 1 OF THE WORK\nWITH TWO LINES"
    (tmp_path / "part-00000001.part").unlink()
    assert again.missing() == [1]
    assert again.any()


def test_a_bit_of_every_byte_and_every_length(tmp_path: Path) -> None:
    made = begun(tmp_path)
    path = tmp_path / "part-00000001.part"
    sound = path.read_bytes()
    chance = random.Random(0)
    damaged = [flipped(sound, place, chance.randrange(8)) for place in range(len(sound))]
    damaged += [sound[:length] for length in range(len(sound))]
    damaged += [sound + b"\0", sound + sound, sound.replace(b"\n", b"\n\n", 1), sound.rstrip(b"s")]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"part-00000001\.part: damaged, cut short or of other work; the same com"):
            made.load(1)


def test_a_part_under_another_name_or_of_other_work(tmp_path: Path) -> None:
    made = begun(tmp_path)
    one, other = (tmp_path / f"part-0000000{number}.part" for number in (1, 2))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    for number in (1, 2):
        with pytest.raises(ValueError, match="of other work"):
            made.load(number)
    assert made.load(0)
    for plan, count in (({**PLAN, "count": 31}, 3), (PLAN, 4)):
        with pytest.raises(ValueError, match="of other work"):
            parts(tmp_path, plan, count).load(0)


def test_damaged_parts_are_named_and_count_as_missing(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "part-00000001.part").write_bytes(b"")
    again = parts(tmp_path)
    again.begin()
    with pytest.warns(
        RuntimeWarning, match=r"1 finished part of 3 cannot be used and will be made again: .*part-00000001"
    ):
        again.discard_damaged()
    assert again.missing() == [1]

    def refuse(content: str) -> None:
        raise ValueError("its crop is missing")

    with pytest.warns(
        RuntimeWarning, match=r"2 finished parts of 3 cannot be used and will be made again: its crop is mi"
    ):
        again.discard_damaged(refuse)
    assert again.missing() == [0, 1, 2]
    assert not again.any()


def test_a_folder_of_other_work_is_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(ValueError, match="was begun with another model and size: repeat the command as it was, remove"):
        parts(tmp_path, {**PLAN, "model": "other", "size": (8, 8)}).begin()
    assert (tmp_path / "part-00000000.part").exists()


def test_a_damaged_plan_is_written_again(tmp_path: Path) -> None:
    begun(tmp_path)
    plan = tmp_path / "plan.json"
    sound = plan.read_bytes()
    chance = random.Random(0)
    for _ in range(100):
        place = chance.randrange(len(sound))
        plan.write_bytes(flipped(sound, place, chance.randrange(8)) if chance.random() < 0.7 else sound[:place])
        again = parts(tmp_path)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            again.begin()
            again.discard_damaged()
        assert not again.missing()
        assert read_sealed(plan, "plan") == (parts(tmp_path).plan, True)
        assert not warned or plan.read_bytes() == sound
