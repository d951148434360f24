"""How well the runs of an item fit, in a line and in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hypersphere.core import counted
from hypersphere_papers.engine.setting_fit import FitState, SettingFit
from hypersphere_papers.engine.verdict import rounded_down


def fit_summary(fits: Sequence[SettingFit]) -> str:
    """`12 settings, 36 runs: 11 fitted, 1 did not fit; lowest train accuracy 91.2 to 99.9 %, mean ||x|| 1.8 to 22`."""
    known = [fit for fit in fits if fit.seeds]
    if not known:
        return "none on record"
    runs = sum(fit.seeds for fit in known)
    counts = Counter(fit.state for fit in known)
    states = ", ".join(f"{counts[state]} {state}" for state in get_args(FitState) if counts[state])
    parts = [f"{counted(len(known), 'setting')}, {counted(runs, 'run')}: {states}"]
    spans = []
    if accuracies := [fit.lowest_train_accuracy for fit in known if fit.lowest_train_accuracy is not None]:
        spans.append(f"lowest train accuracy {_span(rounded_down(min(accuracies)), rounded_down(max(accuracies)))} %")
    if norms := [fit.norm for fit in known if fit.norm is not None]:
        spans.append(f"mean ||x|| {_span(_length(min(norms)), _length(max(norms)))}")
    if spans:
        parts.append(", ".join(spans))
    if len(known) < len(fits):
        parts.append(f"{len(fits) - len(known)} more not on record")
    return "; ".join(parts)


def no_tests(fits: Sequence[SettingFit]) -> str:
    """`did not fit: m = 4 (91.2 %); stopped: m = 3 (the loss is nan)`; nothing where all runs on record fitted."""
    unfit = [
        f"{fit.title} ({rounded_down(fit.lowest_train_accuracy)} %)"
        for fit in fits
        if fit.state == "did not fit" and fit.lowest_train_accuracy is not None
    ]
    stopped = [f"{fit.title} ({_reasons(fit)})" for fit in fits if fit.state == "stopped"]
    named = {"did not fit": unfit, "stopped": stopped}
    return "; ".join(f"{state}: {', '.join(titles)}" for state, titles in named.items() if titles)


def fit_rows(fits: Sequence[SettingFit], seeds: int) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the settings of which something is on record.

    Args:
        fits: of an item.
        seeds: runs that there should be of each.
    """
    heads = ["setting", "seeds", "steps", "train accuracy, %", "lowest seed", "mean ||x||", "fit"]
    rows = [
        [
            fit.title,
            str(fit.seeds) if fit.seeds == seeds else f"{fit.seeds} of {seeds}",
            "" if fit.steps is None else f"{fit.steps:,}",
            "" if fit.train_accuracy is None else f"{fit.train_accuracy:.1f}",
            "" if fit.lowest_train_accuracy is None else rounded_down(fit.lowest_train_accuracy),
            "" if fit.norm is None else _length(fit.norm),
            _fit(fit),
        ]
        for fit in fits
        if _says_something(fit)
    ]
    return heads, rows


def without_fit(fits: Sequence[SettingFit]) -> list[str]:
    """A line that names the settings with no run on record, and one for those of whose runs no fit is."""
    missing = [fit.title for fit in fits if not fit.seeds]
    silent = [fit.title for fit in fits if fit.seeds and not _says_something(fit)]
    named = {"No run on record": missing, "Neither train accuracy nor ||x|| on record": silent}
    return [f"{words}: {'; '.join(titles)}." for words, titles in named.items() if titles]


def _says_something(fit: SettingFit) -> bool:
    return bool(fit.stopped) or fit.train_accuracy is not None or fit.norm is not None


def _fit(fit: SettingFit) -> str:
    """The state; what is no test in bold."""
    if not fit.stopped:
        return f"**{fit.state}**" if fit.state == "did not fit" else fit.state
    others = replace(fit, stopped=()).state if len(fit.stopped) < fit.seeds else ""
    return f"**{len(fit.stopped)} of {fit.seeds} stopped**: {_reasons(fit)}{f'; the others {others}' if others else ''}"


def _reasons(fit: SettingFit) -> str:
    """The beginnings of the messages of runs that stopped: `the loss is nan`."""
    return ", ".join(dict.fromkeys(reason.partition(":")[0] for reason in fit.stopped))


def _length(norm: float) -> str:
    """Three digits, or all before the point of what is not astronomical."""
    return f"{norm:,.0f}" if 999.5 <= norm < 1e6 else f"{norm:#.3g}".rstrip(".")


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
