"""The logs of a run: one JSON object a line always, TensorBoard and Weights & Biases where they are asked for."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from hypersphere.core import import_extra, naming_file, parse_json, write_atomically

_NAMED = 3
_WORDS = {
    "loss": "loss {:.4g}",
    "lr": "lr {:.2g}",
    "norm": "||x|| {:.1f}",
    "angle": "angle {:.1f}\N{DEGREE SIGN}",
    "accuracy": "accuracy {:.0%}",
    "satisfied": "margins satisfied {:.0%}",
    "class_margin": "class margin {:.1f}\N{DEGREE SIGN}",
    "distortion": "distortion {:.2f}",
    "annealed_margin": "m {:.2f}",
    "teacher_cosine": "cosine to the teacher {:.3f}",
}


def values_in_words(values: Mapping[str, float]) -> str:
    """Return the log values of a step for a progress line."""
    return ", ".join(text.format(values[name]) for name, text in _WORDS.items() if name in values)


class TrainingReporter(Protocol):
    """Shows how a run goes, as `Progress` does."""

    def begin(self, done: int) -> None:
        """Training starts now, after so many steps of an earlier call."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """`done` of `total` steps are done; `note` has the log values in words."""


class Logger(Protocol):
    """Where the records of a run are written."""

    def begin(self, step: int) -> None:
        """The run starts, or goes on, after this step: what was logged beyond it does not count."""

    def write(self, record: dict[str, Any]) -> None:
        """Take one record; it has a `step`."""

    def close(self) -> None:
        """The run is over."""


class Logs:
    """Several loggers as one, from a step on."""

    def __init__(self, loggers: Sequence[Logger], step: int) -> None:
        self.loggers = loggers
        for logger in loggers:
            logger.begin(step)

    def write(self, record: dict[str, Any]) -> None:
        """Hand a record to each, without what is not finite: JSON has no such numbers, and nothing can draw them."""
        record = {name: value for name, value in record.items() if not isinstance(value, float) or math.isfinite(value)}
        for logger in self.loggers:
            logger.write(record)

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self.loggers:
            logger.close()


class JsonLines:
    """Appends records to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, step: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = [record for record in read_log(self.path) if record["step"] <= step]
        write_atomically(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())

    def write(self, record: dict[str, Any]) -> None:
        with naming_file(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")

    def close(self) -> None:
        pass


class TensorBoard:
    """Writes scalars for TensorBoard, and warnings as text.

    Args:
        folder: where its event files go.
    """

    def __init__(self, folder: str | Path) -> None:
        import_extra("tensorboard", "logging to TensorBoard")
        from torch.utils.tensorboard import SummaryWriter

        self._kind: Any = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def begin(self, step: int) -> None:
        self._writer = self._kind(str(self._folder), purge_step=step + 1)

    def write(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if isinstance(value, str):
                self._writer.add_text(name, value, record["step"])
            elif name != "step":
                self._writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """Writes to a run of Weights & Biases; a resumed run goes on in the same one.

    Args:
        project: its project.
        name: of the run there, which also tells it from the others.
        settings: shown as the run's configuration.
        folder: where its local files go.
    """

    def __init__(self, project: str, name: str, settings: Mapping[str, Any], folder: str | Path) -> None:
        self._wandb = import_extra("wandb", "logging to Weights & Biases")
        self._options = {"project": project, "id": name, "name": name, "config": dict(settings), "dir": str(folder)}
        self._run: Any = None

    def begin(self, step: int) -> None:
        self._run = self._wandb.init(**self._options, resume="allow")

    def write(self, record: dict[str, Any]) -> None:
        rest = {name: value for name, value in record.items() if name != "step"}
        self._run.log(rest, step=record["step"])

    def close(self) -> None:
        self._run.finish()


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a log without a last line that was cut off; other broken lines are warned of."""
    path = Path(path)
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    records, damaged = [], []
    for number, line in enumerate(lines, 1):
        try:
            records.append(_record(line, f"{path}, line {number}"))
        except ValueError as error:
            damaged.append(str(error))
    if last:
        with suppress(ValueError):
            records.append(_record(last, str(path)))
    if damaged:
        more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
        warnings.warn(f"{'; '.join(damaged[:_NAMED])}{more}: left out", RuntimeWarning, stacklevel=2)
    return records


def _record(line: bytes, where: str) -> dict[str, Any]:
    record = parse_json(line, where)
    step = record.get("step") if isinstance(record, dict) else None
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise ValueError(f"{where}: no record with the step it belongs to")
    table: dict[str, Any] = record
    return table
