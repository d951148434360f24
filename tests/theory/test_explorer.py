"""The explorer's mathematics, run in a real browser, against the library."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.geometry import class_margin, log_cap_area, nearest_angle, sample_margins
from hypersphere.theory import (
    BEST_KNOWN,
    ExpectedSoftmax,
    log_negative_weight,
    loss_termination_angle,
    margin_loss,
    target_gradient,
    termination_angle,
    wrong_class_gradient,
)
from tests.browser import Browser
from tests.theory import explorer_reference as reference

DEGREES = np.array([2.0, 20.0, 38.5, 40.0, 55.0, 75.0, 88.0, 110.0, 150.0, 178.0])
FEW = np.array([21.0, 75.0, 110.0])
OWN = math.radians(47.0)
CASES: dict[str, dict[str, float]] = {
    "the papers' settings": {},
    "few classes": {"C": 10, "d": 8, "s": 16.0, "unified.relu": 1, "circle.m": -0.2, "sphereface.m": 3},
    "two classes in the plane": {
        "C": 2,
        "d": 2,
        "s": 5.0,
        "sphereface2.t": 0.7,
        "sphereface2.b": -3.25,
        "sphereface.m": 2,
    },
    "huge": {"C": 10**9, "d": 4096, "s": 200.0, "unified.m0": 0.7, "unified.m1": 1.2, "sphereface2.lambda": 0.9},
    "odd margins": {
        "C": 10_572,
        "d": 65,
        "s": 30.0,
        "ampface.m": 0.8,
        "sphereface_r.m": 2.5,
        "arcface.m": 1.2,
        "cosface.m": 0.1,
        "sphereface_r2.m": 3.0,
        "sphereface.m": 1,
        "curricularface.t": -0.4,
        "curricularface.m": 0.2,
        "sphereface2_c.m": 0.0,
        "sphereface2_a.m": 2.0,
        "sphereface2_m.m": 3.0,
        "c_contrastive.m": 2.5,
        "c_triplet.m": 1.9,
        "circle.gamma": 30.0,
    },
}


def settings_of(maths: Browser, changes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = maths.run("settings.defaults()")
    assert set(changes) <= set(found)
    return found | changes


def page_curves(maths: Browser, name: str, settings: dict[str, Any], degrees: Any, own: float) -> dict[str, Any]:
    return dict(
        maths.run(f"""(() => {{
          const curve = curves.expected("{name}", losses.resolve("{name}", {json.dumps(settings)}));
          const wrong = curve.wrongGradient({own});
          const angles = {json.dumps(np.radians(degrees).tolist())};
          return {{ logit: angles.map(curve.logit), loss: angles.map(curve.value), wrong: angles.map(wrong),
                   target: angles.map(curve.targetGradient), end: curve.termination() }};
        }})()""")
    )


def test_every_loss_of_the_page_has_its_reference(maths: Browser) -> None:
    assert sorted(maths.run("settings.NAMES")) == sorted(reference.ALL)


@pytest.mark.parametrize("case", CASES)
def test_curves_are_those_of_the_heads(maths: Browser, case: str) -> None:
    settings = settings_of(maths, CASES[case])
    for name in reference.ALL:
        degrees = FEW if name in reference.COUPLED else DEGREES
        found = page_curves(maths, name, settings, degrees, OWN)
        expected = reference.curves(name, settings, np.radians(degrees), OWN)
        for key, values in expected.items():
            np.testing.assert_allclose(found[key], values, rtol=1e-7, atol=1e-9, err_msg=f"{name}, {key}")


@pytest.mark.parametrize("case", CASES)
def test_termination_is_where_one_minus_p_is_a_tenth(maths: Browser, case: str) -> None:
    settings = settings_of(maths, CASES[case])
    for name in reference.ALL:
        end = page_curves(maths, name, settings, [], OWN)["end"]
        if name in ("lm_softmax", "c_contrastive", "c_triplet"):
            assert end is None
        elif end is not None:
            found = reference.curves(name, settings, np.array([end]), OWN)
            below = -math.expm1(-found["loss"][0])
            if name.startswith("sphereface2"):
                below = 1 / (1 + math.exp(found["logit"][0]))
            assert below == pytest.approx(0.1, abs=1e-7), name


MARGINS: dict[str, dict[str, float]] = {
    "normface": {},
    "ampface": {"margin": 0.35},
    "arcface": {"margin": 0.6},
    "cosface": {"margin": 0.5},
    "sphereface_r": {"margin": 1.85},
    "sphereface": {"margin": 4},
}


@pytest.mark.parametrize(("classes", "dim", "scale"), [(85_742, 512, 64.0), (100, 16, 20.0), (1000, 64, 8.0)])
def test_termination_angles_of_the_library(maths: Browser, classes: int, dim: int, scale: float) -> None:
    settings = settings_of(maths, {"C": classes, "d": dim, "s": scale})
    for name, options in MARGINS.items():
        if name == "ampface":
            continue  # its ReLU, which the library leaves out here, changes the weight
        end = page_curves(maths, name, settings, [], OWN)["end"]
        expected = loss_termination_angle(name, num_classes=classes, dim=dim, scale=scale, **options)
        assert (end is None) == (expected is None), name
        if end is not None:
            assert end == pytest.approx(expected, abs=1e-6), name


@pytest.mark.parametrize(
    "margins", [(1, 1, 0, 0), (0.35, 1, 0, 0), (1, 1.85, 0, 0), (1, 1, 0.6, 0), (0.9, 1.1, 0.2, 0.3)]
)
def test_the_unified_loss_is_the_theorys(maths: Browser, margins: tuple[float, ...]) -> None:
    m0, m1, m2, m3 = margins
    for space in ({"num_classes": 85_742, "dim": 512, "scale": 64.0}, {"num_classes": 3, "dim": 3, "scale": 7.5}):
        setting = ExpectedSoftmax(**space, m0=m0, m1=m1, m2=m2, m3=m3)  # type: ignore[arg-type]
        changes = dict(zip(("C", "d", "s"), space.values(), strict=True))
        changes |= {"unified.m0": m0, "unified.m1": m1, "unified.m2": m2, "unified.m3": m3}
        degrees = np.array([0.0, *DEGREES, 180.0])
        found = page_curves(maths, "unified", settings_of(maths, changes), degrees, OWN)
        angles = np.radians(degrees)
        np.testing.assert_allclose(found["logit"], setting.logit(angles), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found["loss"], margin_loss(setting, angles), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found["target"], target_gradient(setting, angles), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found["wrong"], wrong_class_gradient(setting, OWN, angles), rtol=1e-9, atol=1e-12)
        end = termination_angle(setting)
        assert found["end"] is end is None or found["end"] == pytest.approx(end, abs=1e-9)


@pytest.mark.parametrize(("classes", "dim"), [(2, 2), (2, 512), (85_742, 512), (10**9, 4096), (10**9, 3), (20, 3)])
def test_the_nearest_prototype(maths: Browser, classes: int, dim: int) -> None:
    found = maths.run(f"geometry.nearestAngle({classes}, {dim})")
    assert found == pytest.approx(nearest_angle(classes, dim).mean, rel=1e-10)


@pytest.mark.parametrize("dim", [2, 3, 8, 512, 4096])
def test_caps_and_weights(maths: Browser, dim: int) -> None:
    angles = [1e-3, 0.1, 1.0, 1.5, math.pi / 2, 1.6, 2.5, 3.14]
    found = maths.run(f"{json.dumps(angles)}.map((a) => geometry.logCapArea(a, {dim}))")
    np.testing.assert_allclose(found, log_cap_area(angles, dim), rtol=1e-10, atol=1e-12)
    for scale in (1.0, 64.0, 512.0):
        weight = maths.run(f"geometry.logMean({dim}, (a) => {scale} * Math.cos(a)) + Math.log(9)")
        assert weight == pytest.approx(log_negative_weight(10, dim, scale), rel=1e-12)


def moving(maths: Browser, name: str, settings: dict[str, Any], classes: int) -> dict[str, Any]:
    return dict(
        maths.run(f"""(() => {{
          const world = motion.start({classes}, 3, 5);
          const p = losses.resolve("{name}", {json.dumps(settings)}, {{ C: {classes}, d: 3, s: 12 }});
          return {{ all: world.all, labels: world.labels, ...motion.gradient(world, "{name}", p),
                   margins: motion.margins(world) }};
        }})()""")
    )


@pytest.mark.parametrize("case", ["the papers' settings", "few classes", "odd margins"])
@pytest.mark.parametrize("name", reference.ALL)
def test_the_spheres_gradient_is_the_heads(maths: Browser, name: str, case: str) -> None:
    classes = 7
    settings = settings_of(maths, CASES[case])
    found = moving(maths, name, settings, classes)
    head = reference.head_of(name, settings, classes, 3, 12.0, classes)
    points = torch.tensor(found["all"], dtype=torch.float64)
    labels = torch.tensor(found["labels"])
    with torch.no_grad():
        head.weight.copy_(points[:classes])
    samples = points[classes:].requires_grad_()
    loss = head(samples, labels)
    loss.backward()
    gradient = torch.cat([head.weight.grad, samples.grad])  # type: ignore[list-item]
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-9, abs=1e-12)
    torch.testing.assert_close(torch.tensor(found["gradient"], dtype=torch.float64), gradient, rtol=1e-7, atol=1e-9)
    if name.startswith("sphereface2"):
        assert found["bias"] == pytest.approx(head.objective.bias.grad.item(), rel=1e-7, abs=1e-12)
    degrees = math.degrees(class_margin(points[:classes]).item())
    assert found["margins"]["classes"] == pytest.approx(degrees, abs=1e-9)
    least = sample_margins(samples.detach(), points[:classes], labels).min().item()
    assert found["margins"]["cosine"] == pytest.approx(least, abs=1e-9)
    angles = (samples.detach() @ points[:classes].T).arccos().rad2deg()
    own = angles.gather(1, labels[:, None])[:, 0]
    nearest = angles.scatter(1, labels[:, None], math.inf).amin(1)
    assert found["margins"]["samples"] == pytest.approx((nearest - own).min().item(), abs=1e-9)


def test_slopes_are_finite_differences(maths: Browser) -> None:
    """Where nothing is held constant; the detached losses are compared with the heads above."""
    worst = maths.run("""(() => {
      const found = {};
      const draw = motion.random(3);
      for (const [name, loss] of Object.entries(losses.TABLE)) {
        if (loss.detached) continue;
        const p = losses.resolve(name, settings.defaults(), { C: 9, d: 5, s: 8 });
        const curve = curves.expected(name, p);
        const step = 1e-5;
        let error = 0;
        const check = (slope, high, low) => {
          const measured = (high - low) / (2 * step);
          error = Math.max(error, Math.abs(slope - measured) / (1 + Math.abs(measured)));
        };
        for (let round = 0; round < 20; round++) {
          const own = 0.1 + 2.9 * draw();
          const wrong = Array.from({ length: 8 }, () => 0.1 + 2.9 * draw());
          const value = (target, others) => losses.evaluate(name, p, target, others).loss;
          const result = losses.evaluate(name, p, own, wrong);
          if (name !== "curricularface") {
            check(curve.targetGradient(own), curve.value(own + step), curve.value(own - step));
            check(result.target, value(own + step, wrong), value(own - step, wrong));
          }
          wrong.forEach((angle, j) => {
            const moved = (by) => wrong.map((x, i) => (i === j ? x + by : x));
            check(result.wrong[j], value(own, moved(step)), value(own, moved(-step)));
          });
        }
        found[name] = error;
      }
      return found;
    })()""")
    assert len(worst) == 11
    assert max(worst.values()) < 1e-6, worst


@pytest.mark.parametrize("name", ["lm_softmax", "normface", "cosface"])
@pytest.mark.parametrize("classes", [2, 3, 4, 6, 12])
def test_the_sphere_reaches_the_best_known_margin(maths: Browser, name: str, classes: int) -> None:
    margins = maths.run(f"""(() => {{
      let world = motion.start({classes}, 3, 0);
      const p = losses.resolve("{name}", settings.defaults(), {{ C: {classes}, d: 3, s: 30 }});
      for (let i = 0; i < 600; i++) world = motion.advance(world, "{name}", p, 0.3);
      return motion.margins(world);
    }})()""")
    best = BEST_KNOWN[classes]
    assert best - 0.1 < margins["classes"] < best + 1e-6
    assert best - 0.2 < margins["samples"] < best + 1e-6


def test_a_loss_without_pull_stands_still(maths: Browser) -> None:
    still, finite = maths.run("""(() => {
      let world = motion.start(2, 1, 0);
      world.all = [[1, 0, 0], [-1, 0, 0], [0.99, Math.sqrt(1 - 0.99 ** 2), 0], [-0.99, 0, Math.sqrt(1 - 0.99 ** 2)]];
      const p = losses.resolve("normface", settings.defaults(), { C: 2, d: 3, s: 500 });
      for (let i = 0; i < 5; i++) world = motion.advance(world, "normface", p, 0.3);
      return [world.still, world.all.flat().every(Number.isFinite)];
    })()""")
    assert still
    assert finite
