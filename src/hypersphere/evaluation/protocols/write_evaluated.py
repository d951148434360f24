"""Write what came of a protocol: result.json, and report.html with the pictures of its worst pairs."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path

from hypersphere.core import is_installed
from hypersphere.data import Image, UnreadableImage
from hypersphere.evaluation.protocols.known_protocols import Evaluated
from hypersphere.evaluation.results.report import write_report
from hypersphere.evaluation.results.result import Result, write_result


def write_evaluated(evaluated: Evaluated, folder: Path, command: str) -> tuple[Result, Path | None]:
    """Write a result to a folder.

    Args:
        evaluated: of a protocol.
        folder: where to.
        command: what was typed, for the record.

    Returns:
        the result with the command, and the report; None without matplotlib.
    """
    result = dataclasses.replace(evaluated.result, command=command)

    def picture(name: str) -> Image | None:
        for owner, source in evaluated.images.items():
            place = -1 if source is None else int(source.find([name.removeprefix(f"{owner}: ")])[0])
            if source is not None and place >= 0:
                with suppress(UnreadableImage):
                    return source.read(place)
        return None

    write_result(result, folder)
    if not is_installed("matplotlib"):
        return result, None
    title = f"{result.protocol}: {evaluated.title}"
    return result, write_report(result, folder, title=title, pictures=picture, warning=evaluated.warning)
