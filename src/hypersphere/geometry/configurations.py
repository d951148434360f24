"""Configurations of points on the sphere: regular, random, and spread out as far as possible."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hypersphere.core import check_integer, check_range
from hypersphere.geometry.sphere import normalize

_SOFT = ((4.0, 100), (32.0, 60), (256.0, 60))
_HARD = ((32.0, 30), (256.0, 60))
_HARDER = ((1024.0, 80), (4096.0, 80), (16384.0, 40))
"""Growing exponents of the Riesz energy, each with its iterations. The soft schedule finds the symmetric optima and
good large configurations, the hard one small optima that low exponents lead away from (such as 13 points in 3-D)."""
_STEPS = sum(steps for _, steps in _SOFT)
_SECONDS = 6.0
"""Roughly what the default number of starts may take; a constant in a cost model, so results do not depend on time."""
_UNKNOWNS = 500
"""The most tangent coordinates that linear programs polish."""


def regular_simplex(num_points: int, dim: int, *, dtype: torch.dtype = torch.float64) -> Tensor:
    """The vertices of a regular simplex, the best packing of up to dim + 1 points (largest-margins lemma 2.1).

        w_i.w_j = -1 / (k - 1)  for all i != j, with k points

    Args:
        num_points: k, from 2 to dim + 1.
        dim: the dimension d of the space.
        dtype: of the result.

    Returns:
        (num_points, dim) unit rows with centroid zero.

    Example:
        >>> regular_simplex(2, 1)
        tensor([[ 1.],
                [-1.]], dtype=torch.float64)
    """
    count, width = check_integer("num_points", num_points, 2), check_integer("dim", dim, 1)
    if count > width + 1:
        raise ValueError(f"num_points={count} is too many for a simplex in dim={width}: at most {width + 1}")
    rest = torch.arange(count - 1, 0, -1, dtype=torch.float64)
    height = (count * rest / ((count - 1) * (rest + 1))).sqrt()
    points = torch.zeros(count, width, dtype=torch.float64)
    points[:, : count - 1] = torch.tril((-height / rest).expand(count, count - 1), -1)
    points[:, : count - 1].diagonal().copy_(height)
    return points.to(dtype)


def uniform_sphere(
    n: int, dim: int, *, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Points uniform on the unit sphere: normalised Gaussian vectors.

    Args:
        n: number of points.
        dim: the dimension d of the space.
        generator: source of randomness; its device is the device of the result.
        dtype: of the result; the arithmetic is float64.

    Returns:
        (n, dim) unit rows.

    Example:
        >>> uniform_sphere(5, 3, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([5, 3])
    """
    shape = (check_integer("n", n, 0), check_integer("dim", dim, 1))
    device = "cpu" if generator is None else generator.device
    gaussian = torch.randn(shape, generator=generator, dtype=torch.float64, device=device)
    return normalize(gaussian, eps=torch.finfo(torch.float64).tiny).to(dtype)


def riesz_energy(points: Tensor, exponent: float) -> Tensor:
    """The Riesz energy of a configuration (largest-margins eq. 2.4), differentiable.

        E_t = sum_{i != j} |w_i - w_j|^-t,  and for t = 0 the logarithmic energy  sum_{i != j} log(1 / |w_i - w_j|)

    Args:
        points: (num_points, dim), taken as they are; normalise them first if they are not.
        exponent: t >= 0.

    Returns:
        The sum over ordered pairs, a 0-d tensor; infinity where two points coincide.

    Example:
        >>> riesz_energy(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), 1)
        tensor(1.)
    """
    if points.ndim != 2 or len(points) < 2:
        raise ValueError(f"points has shape {tuple(points.shape)}; it must be (num_points, dim) with 2 points or more")
    power = check_range("exponent", exponent, 0.0)
    distances = torch.pdist(points.to(torch.promote_types(points.dtype, torch.float32)))
    return -2 * distances.log().sum() if power == 0 else 2 * distances.pow(-power).sum()


def tammes(num_points: int, dim: int, *, seed: int = 0, restarts: int | None = None) -> Tensor:
    """Points on the sphere with the largest smallest angle: the Tammes problem (largest-margins eq. 2.3).

        argmax_{w_1, ..., w_k on the unit sphere}  min_{i != j} |w_i - w_j|

    Where the optimum is known in closed form it is returned: the regular simplex for k <= d + 1 (lemma 2.1), part of
    the cross-polytope (90 degrees) for k <= 2d, the regular polygon in the plane. Otherwise the Riesz energy (eq. 2.4)
    is minimised with growing exponent from several starts, some of them symmetric about the centre if k is even. The
    best few are then polished by linear programs on the closest pairs where those are small enough, and by higher
    exponents elsewhere. The result is a good local optimum, without proof that no better one exists. Time grows as
    k^2 d: a few seconds for k = 24 in 3-D, about ten for some hundreds of points, minutes for ten thousand.

    Args:
        num_points: k, at least 2.
        dim: the dimension d of the space (2 or more, unless k is 2).
        seed: of the starts; the same seed gives the same points.
        restarts: number of starts; more may find better optima. By default as many as a few seconds allow, at most 48.

    Returns:
        (num_points, dim) float64 unit rows.

    Example:
        >>> points = tammes(6, 3)
        >>> (points @ points.T).fill_diagonal_(-1).max()
        tensor(0., dtype=torch.float64)
    """
    count, width = check_integer("num_points", num_points, 2), check_integer("dim", dim, 1)
    starts = None if restarts is None else check_integer("restarts", restarts, 1)
    if count <= width + 1:
        return regular_simplex(count, width)
    if width == 1:
        raise ValueError(f"num_points={count} cannot be told apart in dim=1: use dim=2 or more")
    if width == 2:
        return _polygon(count)
    if count <= 2 * width:
        return torch.cat([torch.eye(width), -torch.eye(width)])[:count].double()
    with torch.no_grad():
        return _solve(count, width, seed, starts)


def _polygon(count: int) -> Tensor:
    turn = torch.arange(count, dtype=torch.float64) * (2 * math.pi / count)
    return torch.stack([turn.cos(), turn.sin()], dim=1)


def _solve(count: int, dim: int, seed: int, restarts: int | None) -> Tensor:
    """The best of several relaxed starts, polished."""
    generator = torch.Generator().manual_seed(seed)
    unknowns = count * (dim - 1)
    affordable = int(_SECONDS / (1e-9 * count**2 * (30 + 0.2 * dim)))
    effort = min(1.0, max(affordable, 30) / _STEPS)
    found = []
    for start in range(restarts or min(48, max(1, affordable // _STEPS - 1))):
        soft = start % 3 == 0 or unknowns > _UNKNOWNS
        points = _start(count, dim, soft and start % 2 == 0, generator)
        points = _relax_all(points, _SOFT if soft else _HARD, effort)
        found.append((_largest_cosine(points), points))
    found.sort(key=lambda entry: entry[0])
    best = _distinct(found)
    if unknowns > _UNKNOWNS:
        return min(best[0], _relax_all(best[0], _HARDER, effort), key=_largest_cosine)
    return min((_polish(points) for points in best[: max(1, min(12, 600 // unknowns))]), key=_largest_cosine)


def _start(count: int, dim: int, symmetric: bool, generator: torch.Generator) -> Tensor:
    """Random points; in antipodal pairs if `symmetric` and they are even in number."""
    if symmetric and count % 2 == 0:
        half = uniform_sphere(count // 2, dim, generator=generator)
        return torch.cat([half, -half])
    return uniform_sphere(count, dim, generator=generator)


def _distinct(found: list[tuple[float, Tensor]]) -> list[Tensor]:
    """The configurations in order, one for each smallest angle to about 0.01 degrees."""
    kept: dict[int, Tensor] = {}
    for cosine, points in found:
        kept.setdefault(round(math.acos(cosine) / 2e-4), points)
    return list(kept.values())


def _largest_cosine(points: Tensor) -> float:
    highest = -1.0
    for start in range(0, len(points), 1024):
        scores = points[start : start + 1024] @ points.T
        scores.diagonal(start).fill_(-1.0)
        highest = max(highest, float(scores.max()))
    return highest


def _energy(points: Tensor, exponent: float) -> tuple[float, Tensor]:
    """log(E_t) / t of the normalised points, which tends to log(1 / smallest distance), and its gradient.

    Row by row: with L_i the log-energy of point i against all others, its gradient is the row's softmax over j of
    w_j / |w_i - w_j|^2, weighted by exp(L_i) / E_t and twice, for pairs count in both orders.
    """
    length = points.norm(dim=1, keepdim=True)
    unit = points / length
    energies, pulls = [], []
    for start in range(0, len(unit), 1024):
        squared = torch.addmm(unit.new_full((), 2.0), unit[start : start + 1024], unit.T, alpha=-2).clamp_(min=1e-12)
        squared.diagonal(start).fill_(math.inf)
        logs = squared.log().mul_(-exponent / 2)
        energy = logs.logsumexp(1)
        energies.append(energy)
        pulls.append(logs.sub_(energy[:, None]).exp_().div_(squared) @ unit)
    row = torch.cat(energies)
    total = row.logsumexp(0)
    gradient = torch.cat(pulls) * (2 * (row - total).exp()[:, None])
    gradient -= (gradient * unit).sum(1, keepdim=True) * unit
    return float(total) / exponent, gradient / length


def _relax(points: Tensor, exponent: float, steps: int) -> Tensor:
    """L-BFGS on the energy with one exponent."""
    from scipy.optimize import minimize

    def objective(flat: Any) -> tuple[float, Any]:
        value, gradient = _energy(torch.from_numpy(flat).view_as(points), exponent)
        return value, gradient.flatten().numpy()

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-10}
    result = minimize(objective, points.flatten().numpy(), jac=True, method="L-BFGS-B", options=options)
    return normalize(torch.from_numpy(result.x).view_as(points), eps=0.0)


def _relax_all(points: Tensor, schedule: tuple[tuple[float, int], ...], effort: float) -> Tensor:
    for exponent, steps in schedule:
        points = _relax(points, exponent, math.ceil(steps * effort))
    return points


def _polish(points: Tensor) -> Tensor:
    """Sequential linear programming on the smallest angle, to machine precision where the optimum is rigid."""
    worst = _largest_cosine(points)
    radius = 0.1 * math.acos(worst)
    for _ in range(60):
        moved = _linear_step(points, worst, radius)
        cosine = _largest_cosine(moved)
        if worst - cosine < 0.02 * radius**2:
            radius /= 8
        if cosine < worst:
            points, worst = moved, cosine
        if radius < 1e-7:
            break
    return points


def _linear_step(points: Tensor, worst: float, radius: float) -> Tensor:
    """Move every point by at most `radius` per tangent direction so that the largest linearised cosine is smallest.

    minimise z  subject to  w_i.w_j + w_j.B_i u_i + w_i.B_j u_j <= z  for all pairs i < j close enough to matter,
    with B_i a basis of the tangent space at w_i. All of it is divided by the radius, for the solver's tolerances.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    count, dim = points.shape
    free = dim - 1
    i, j = torch.triu_indices(count, count, 1)
    cosines = (points @ points.T)[i, j]
    near = cosines >= worst - 4 * radius * math.sqrt(free)
    i, j, cosines = i[near], j[near], cosines[near]
    tangent = torch.linalg.qr(points[:, :, None], mode="complete").Q[:, :, 1:]
    towards = [(points[a, None] @ tangent[b])[:, 0] for a, b in ((j, i), (i, j))]
    entries = torch.cat([*towards, -torch.ones(len(i), 1, dtype=points.dtype)], dim=1)
    blocks = [a[:, None] * free + torch.arange(free) for a in (i, j)]
    columns = torch.cat([*blocks, torch.full((len(i), 1), count * free)], dim=1)
    rows = torch.arange(len(i))[:, None].expand_as(columns)
    places = (rows.flatten().numpy(), columns.flatten().numpy())
    matrix = csr_array((entries.flatten().numpy(), places), shape=(len(i), count * free + 1))
    result = linprog(
        [0.0] * (count * free) + [1.0],
        A_ub=matrix,
        b_ub=((worst - cosines) / radius).numpy(),
        bounds=[(-1.0, 1.0)] * (count * free) + [(None, None)],
        method="highs",
    )
    if result.x is None:
        return points
    step = radius * torch.from_numpy(result.x[:-1]).view(count, free, 1)
    return normalize(points + (tangent @ step)[:, :, 0], eps=0.0)
