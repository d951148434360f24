"""SphereFace2's data sets, counted where their lists are at hand: Table 9."""

from __future__ import annotations

from pathlib import Path

from hypersphere.core import numbered_lines, parse_integer
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Outcome


def count_people(path: Path) -> tuple[int, int]:
    """The people and the images of LFW's own `people.txt`.

    The first line has the number of sets; each set begins with the number of its people, who follow with the number of
    their images.
    """
    rows = [(f"{path}, line {line}", text.split("\t")) for line, text in numbered_lines(path)]
    if not rows:
        raise ValueError(f"{path}: empty; expected LFW's people.txt")
    sets, images, people, place = parse_integer(rows[0][1][0], rows[0][0], 1, 100), 0, 0, 1
    for _ in range(sets):
        if place >= len(rows):
            raise ValueError(f"{path}: ends before its {sets} sets do")
        count = parse_integer(rows[place][1][0], rows[place][0], 1, 100_000)
        for where, fields in rows[place + 1 : place + 1 + count]:
            if len(fields) != 2:
                raise ValueError(f"{where}: expected a name, a tab and a number of images")
            images += parse_integer(fields[1], f"{where}: images", 1, 100_000)
        people, place = people + count, place + 1 + count
    if place != len(rows):
        raise ValueError(f"{path}: {len(rows)} lines where its sets have {place}")
    return people, images


@item("sphereface2/table9")
def data_sets(job: Job) -> Outcome:
    """Table 9: LFW, by its own list; the other data sets are not at hand."""
    assert job.data is not None
    path = job.data / job.entry.file if job.data.is_dir() else job.data
    identities, images = count_people(path)
    findings = [
        job.value("LFW, identities", identities, digits=0),
        job.value("LFW, images", images, digits=0),
    ]
    return Outcome(findings=findings, notes=["Of the nine data sets, LFW alone is at hand: its own list is counted."])
