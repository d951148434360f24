"""The `theory` items: what the papers print as numbers or curves, computed by `hypersphere.theory`."""

from __future__ import annotations

import functools
import math
import time

from torch import nn

from hypersphere.backbones import create_backbone
from hypersphere.geometry import cap_angle_statistics, nearest_angle
from hypersphere.reproduce.items import Finding, Job, Outcome, from_rows, item
from hypersphere.theory import (
    ITEMS,
    OPTIMUM_DEGREES,
    TOY_LOSSES,
    TOY_STEPS,
    Report,
    Setting,
    best_probability,
    draw_toy,
    half_nearest_angle,
    log_negative_weight,
    margin_loss,
    softmax_bound,
    solve_toy,
    target_gradient,
    termination_angle,
    wrong_class_gradient,
)
from hypersphere.theory.ampface_curves import BEST_MARGINS, LOSS_NAMES
from hypersphere.theory.losses import vary
from hypersphere.theory.sphereface import least_margin, spread_and_gap
from hypersphere.theory.sphereface2 import adjusted, gradient_table, positive_loss, softmax_example
from hypersphere.theory.tammes import packing_degrees


@functools.cache
def _report(name: str) -> Report:
    return ITEMS[name].run()


@item("sphereface/table1")
def decision_boundaries(job: Job) -> Outcome:
    """Table 1, with the margins and least m of secs. 3.2 and 3.4."""
    circle = [2 * math.pi * number / 10 for number in range(10)]
    findings = [
        job.value("least m, two classes (Property 2)", least_margin([0.0, 1.0], points=40_001), digits=3),
        job.value("least m, ten classes around the circle (Property 3)", least_margin(circle, points=40_001), digits=3),
        *(job.value(f"gap / theta_12, m = {m}", spread_and_gap(m, [0.0, 1.0])[1], digits=4) for m in (2, 3, 4)),
    ]
    figures = _report("sphereface").figures
    return Outcome(findings=findings, figures={"table1": figures["boundaries"], "least-m": figures["least-m"]})


@item("sphereface/table2")
def networks(job: Job) -> Outcome:
    """Table 2: convolutions, FC1 and the last width of our networks, and the strides."""
    findings = []
    for layers in (4, 10, 20, 36, 64):
        network = create_backbone(f"sfnet{layers}", dim=512, input_size=(112, 96))
        convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
        last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
        row = f"{layers}-layer CNN"
        findings += [
            job.value(f"{row}, layers with weights before FC1", len(convolutions), digits=0),
            job.value(f"{row}, FC1", last.out_features, digits=0),
            job.value(f"{row}, width of the last stage", convolutions[-1].out_channels, digits=0),
        ]
        strided = sum(module.stride == (2, 2) for module in convolutions)
        threes = all(module.kernel_size == (3, 3) for module in convolutions)
        sentence = f"{row}: all 3 x 3, four of stride 2"
        findings.append(job.claim(threes and strided == 4, f"{strided} of stride 2", sentence=sentence))
    return Outcome(findings=findings)


@item("normface/fig5")
def bound(job: Job) -> Outcome:
    """Fig. 5: the bound of Prop. 2, and the numbers printed around it."""
    report = _report("normface")
    findings = [
        job.value("bound at n = 10,575, s = 1", float(softmax_bound(10_575, 1.0))),
        job.value("loss of a uniform guess, n = 10,575", math.log(10_575)),
        job.value("best p_y at s = 1, n = 10", best_probability(10, 1.0)),
        job.value("best p_y at s = 1, n = 1000", best_probability(1000, 1.0)),
        *from_rows(row for row in report.rows if row.what.startswith("Prop.")),
    ]
    return Outcome(findings=findings, figures={"fig5": report.figures["fig5"]}, notes=report.notes)


@item("sphereface2/fig3")
def mining(job: Job) -> Outcome:
    """Fig. 3: what a larger scale does to easy and to hard samples."""
    scales = (1.0, 5.0, 30.0)
    hard, easy = ([f"{float(softmax_example(cosine, s)):.3g}" for s in scales] for cosine in (-0.5, 0.9))
    binary = [[f"{float(positive_loss(cosine, r)):.3g}" for r in scales] for cosine in (-0.5, 0.9)]
    grows = float(softmax_example(-0.5, 30.0)) > float(softmax_example(-0.5, 5.0)) > float(softmax_example(-0.5, 1.0))
    keeps = float(positive_loss(-0.5, 30.0)) > 0.49 and float(positive_loss(0.9, 30.0)) < 1e-10
    findings = [
        job.claim(
            grows,
            f"hard {', '.join(hard)}; easy {', '.join(easy)} at s = 1, 5, 30",
            sentence="(a) a larger s makes the loss of hard samples (cos -0.5) larger than that of easy ones (cos 0.9)",
        ),
        job.claim(
            keeps,
            f"hard {', '.join(binary[0])}; easy {', '.join(binary[1])} at r = 1, 5, 30",
            sentence="(b) a larger r takes the loss of easy samples to zero and leaves that of hard ones large",
        ),
    ]
    return Outcome(findings=findings, figures={"fig3": _report("sphereface2").figures["fig3"]})


@item("sphereface2/fig6")
def adjustment(job: Job) -> Outcome:
    """Fig. 6: g(z) = 2 ((z + 1)/2)^t - 1."""
    findings = [
        job.value("g(-0.2) at t = 3", float(adjusted(-0.2, 3.0)), digits=3),
        job.value("g(1)", float(adjusted(1.0, 3.0)), digits=3),
    ]
    return Outcome(findings=findings, figures={"fig6": _report("sphereface2").figures["fig6"]})


@item("sphereface2/table13")
def gradients(job: Job) -> Outcome:
    """Table 13: the relative error of each printed cell, against autograd."""
    findings = []
    for name, (true, printed, right) in gradient_table().items():
        findings.append(job.value(name, float((true - printed).norm() / true.norm()), digits=3))
        error = float((true - right).norm() / true.norm())
        findings.append(job.claim(error < 1e-9, f"{error:.0e}", sentence=f"{name}: as corrected"))
    return Outcome(findings=findings)


def _toy_seconds_a_step() -> float:
    """How long a step of the toy problem takes, from a few that are thrown away."""
    start, steps = time.monotonic(), 100
    solve_toy(TOY_LOSSES[0], steps=steps)
    return (time.monotonic() - start) / steps


@item("largest-margins/fig3")
def toy(job: Job) -> Outcome:
    """Fig. 3: the toy problem of App. C.1, and the Tammes optimum."""
    with job.training(len(TOY_LOSSES), TOY_STEPS, _toy_seconds_a_step) as part:
        solutions = {loss: solve_toy(loss, progress=part(run)) for run, loss in enumerate(TOY_LOSSES)}
    findings = [job.value("Tammes optimum, k = 8, degrees", packing_degrees(8), digits=2)]
    findings += [job.value(loss.title, found.class_margin_degrees, digits=2) for loss, found in solutions.items()]
    best = max(solutions.values(), key=lambda found: found.class_margin_degrees)
    findings.append(
        job.claim(
            best is solutions[TOY_LOSSES[3]],
            f"{best.class_margin_degrees:.2f} of {OPTIMUM_DEGREES:.2f} degrees",
            sentence="LM-Softmax has the largest class margin of the four",
        )
    )
    return Outcome(findings=findings, figures={"fig3": lambda: draw_toy(solutions)})


@item("ampface/fig5")
def termination(job: Job) -> Outcome:
    """App. B on Fig. 5: the angle with 1 - p_y = 0.1 under the best margins."""
    findings = []
    for weight in ("approximation", "exact"):
        for name, value in BEST_MARGINS.items():
            angle = termination_angle(vary(Setting(weight=weight), name, value))
            degrees = math.degrees(angle if angle is not None else math.nan)
            what = f"{LOSS_NAMES[name]}, {name} = {value}, degrees"
            if weight == "approximation":
                findings.append(job.value(what, degrees, digits=2))
            else:
                findings.append(Finding(what=f"{what}, with the exact wrong-class weight", ours=f"{degrees:.2f}"))
    half = math.degrees(half_nearest_angle(85_742, 512))
    findings.append(Finding(what="half the exact angle to the nearest prototype, degrees", ours=f"{half:.2f}"))
    notes = ["The angle with 1 - p_y = 0.1 at C = 85,742, d = 512, s = 64, with the wrong-class weight of eq. 10."]
    return Outcome(findings=findings, figures={"fig5": _report("termination").figures["termination"]}, notes=notes)


@item("ampface/fig7")
def nearest_prototype(job: Job) -> Outcome:
    """Fig. 7: the angle to the nearest of C prototypes."""
    report = _report("nearest")
    exact = job.value(
        "exact expectation at C = 85,742, degrees", math.degrees(nearest_angle(85_742, 512).mean), digits=2
    )
    return Outcome(findings=[exact, *from_rows(report.rows[1:])], figures={"fig7": report.figures["fig7"]})


@item("ampface/fig8")
def cap_area(job: Job) -> Outcome:
    """Fig. 8: the logarithm of a cap's area."""
    report = _report("caps")
    return Outcome(findings=from_rows(report.rows[:3]), figures={"fig8": report.figures["fig8"]})


@item("ampface/fig9")
def cap_angles(job: Job) -> Outcome:
    """Fig. 9: the angles of uniform points in a cap lie at its edge for d = 512, not for d = 8."""
    report = _report("caps")
    edge = math.radians(60)
    wide, narrow = (math.degrees(edge - cap_angle_statistics(edge, dim)[0]) for dim in (512, 8))
    held = job.claim(
        wide < 0.5 and narrow > 2,
        f"{wide:.2f} and {narrow:.2f} degrees inside a cap of 60",
        sentence="in 512 dimensions the mean angle is at the edge of the cap, in 8 well inside",
    )
    return Outcome(findings=[*from_rows(report.rows[3:]), held], figures={"fig9": report.figures["fig9"]})


@item("ampface/fig10")
def wrong_class_weight(job: Job) -> Outcome:
    """Fig. 10: the total weight of the wrong classes."""
    report = _report("weights")
    findings = [
        job.value("mean wrong-class weight at C = 85,742, exact", math.exp(log_negative_weight(85_742, 512, 64.0))),
        job.value("e^(s^2/d) / C", math.exp(64**2 / 512) / 85_742, digits=4),
        *from_rows(row for row in report.rows if not row.what.startswith("its square")),
    ]
    return Outcome(findings=findings, figures={"fig10": report.figures["fig10"]}, notes=report.notes)


@item("ampface/fig11", "ampface/fig12", "ampface/fig13", "ampface/fig14")
def curves(job: Job) -> Outcome:
    """Figs. 11-14: loss and gradients over the angles."""
    figure = job.entry.id.split("/")[1]
    forty, eighty = math.radians(40), math.radians(80)
    findings = []
    for name, value in {"no margin": 1.0, **BEST_MARGINS}.items():
        setting = Setting() if name == "no margin" else vary(Setting(), name, value)
        title = name if name == "no margin" else f"{LOSS_NAMES[name]}, {name} = {value}"
        if figure == "fig11":
            what, ours = "loss", float(margin_loss(setting, forty))
        elif figure == "fig12":
            what, ours = "dL / d target angle, 1/rad", float(target_gradient(setting, forty))
        else:
            what, ours = "dL / d wrong angle (at 80), 1/rad", float(wrong_class_gradient(setting, forty, eighty))
        findings.append(Finding(what=f"{title}: {what}, target at 40 degrees", ours=f"{ours:.3g}"))
    report = _report("curves")
    return Outcome(findings=findings, figures={figure: report.figures[figure]}, notes=report.notes[1:])


@item("ampface/fig15", "ampface/fig16", "ampface/fig17")
def decisions(job: Job) -> Outcome:
    """Figs. 15-17: decision margins in the plane and on the sphere."""
    figure = job.entry.id.split("/")[1]
    what = "margin between two classes at right angles, degrees"
    report = _report("decisions")
    return Outcome(findings=_column(report, 0, what), figures={figure: report.figures[figure]})


@item("ampface/fig18")
def crowd(job: Job) -> Outcome:
    """Fig. 18: the region of a prototype among 200."""
    exact = math.degrees(nearest_angle(85_742, 512).mean)
    report = _report("decisions")
    ends = _column(report, 1, "polar angle at which the region ends, mean and deviation over the azimuth, degrees")
    findings = [job.value("expected inter-class distance, degrees", exact, digits=2), *ends]
    return Outcome(findings=findings, figures={"fig18": report.figures["fig18"]})


def _column(report: Report, place: int, what: str) -> list[Finding]:
    """One of the two numbers that a row of the report of decision margins holds."""
    return [Finding(what=f"{row.what}: {what}", ours=row.ours.split("  ")[place]) for row in report.rows]
