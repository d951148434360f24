"""The advisor's recommendation in words, for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from hypersphere.theory.advisor import LOSSES, Advice, warn
from hypersphere.theory.expected_softmax import ExpectedSoftmax


def advice_lines(advice: Advice) -> Iterator[str]:
    """The recommendation, its alternatives and the warnings."""
    setting = advice.setting
    plain = "never" if advice.plain is None else f"{math.degrees(advice.plain):6.2f} degrees"
    yield f"{setting.num_classes:,} classes in {setting.dim:,} dimensions, scale {setting.scale:g}\n"
    yield f"nearest prototype, expected   {math.degrees(advice.nearest):6.2f} degrees (uniform prototypes)"
    yield f"the loss should end at        {math.degrees(advice.wanted):6.2f} degrees, half of it (AmpFace App. B)"
    yield f"without a margin it ends at   {plain}\n"
    yield from _warnings(advice.warnings)
    if not advice.choices:
        yield "No margin is needed or possible at this scale: the loss does not end above that angle by itself.\n"
    else:
        best, sizes = advice.choices[0], f"dim={setting.dim}, num_classes={setting.num_classes}"
        yield "Start with\n"
        yield f'    hs.create_head("{best.loss}", {sizes}, scale={setting.scale:g}, margin={best.value:.3f})\n'
        yield "or another that ends at the same angle (best first, by the AmpFace paper's table 3):\n"
        for choice in advice.choices:
            yield f"  {choice.loss:<14}{choice.margin} = {choice.value:.3f}"
            yield from _warnings(choice.warnings, indent="      ")
        yield ""
    yield f"other scales  {'m0':>7}{'m1':>7}{'m2':>7}{'m3':>7}"
    for scale, choices in advice.alternatives:
        values = {choice.margin: f"{choice.value:.3f}" for choice in choices}
        yield f"{scale:>12g}  " + "".join(f"{values.get(name, '-'):>7}" for name in sorted(LOSSES))
    yield ""
    if advice.imbalance is not None:
        uneven = advice.imbalance
        yield f"Classes differ {uneven.ratio:.3g} to 1."
        yield "LDAM's margins, on average over classes those of CosFace above:\n"
        yield f"    ldam, max_margin={uneven.max_margin:.3f} (rarest class; {uneven.min_margin:.3f} for the largest)\n"
        yield "and add the zero_centroid regulariser (largest-margins sec. 3.2).\n"
    yield textwrap.fill("The rule is an observation at 85,742 classes, not a theorem; the scale is a convention.", 79)


def judgement_lines(setting: ExpectedSoftmax, margins: Mapping[str, float], angle: float | None) -> Iterator[str]:
    """What comes of margins of one's own."""
    named = ", ".join(f"{name} = {value:g}" for name, value in margins.items())
    yield f"\nYours, {named}: ends " + ("never" if angle is None else f"at {math.degrees(angle):.2f} degrees")
    yield from _warnings(warn(setting))


def _warnings(notes: Iterable[str], indent: str = "") -> Iterator[str]:
    for note in notes:
        yield textwrap.fill(f"! {note}", 79, initial_indent=indent, subsequent_indent=f"{indent}  ")
