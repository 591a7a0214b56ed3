"""The posterior of (epsilon, s) from binomial counts by plain quadrature in logarithms.

An independent check of the exact engine: it shares no code with it, works on a logarithmic scale
throughout and so resolves masses of e^-1000, and extends epsilon until the posterior itself is
negligible, not just to a quantile of the prior.

The likelihood of one attack is the mass of the ring R_s(epsilon, delta) under g(alpha) g(beta), over the
ring's area.  Points of the ring have coordinates (u, y): u identifies the region R(u epsilon, u delta)
on whose boundary a point lies, s < u < 1, and y its position.  With alpha >= beta and alpha + beta <= 1
that boundary is the line

    alpha = 1 - u delta - y,  beta = e^(-u epsilon) y,  0 < y < (1 - u delta) / (1 + e^(-u epsilon)),

with Jacobian e^(-u epsilon) (delta + epsilon y); the other three parts are this one with alpha and beta
exchanged, with both reflected, or with both.  Along y the integrand is log-concave, so a rule of a few
dozen nodes between the points where it has fallen by e^-32 on either side of its mode is sufficient.
Three smooth integrals remain, over u, s = sin^2(phi) and epsilon, by Gauss-Legendre panels.

`truth` estimates its own accuracy by repeating the work over u and s on twice as many panels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln, logsumexp

import epsilometer as em

FloatArray = NDArray[np.float64]
#: X, N0, Y, N1.
Row = tuple[int, int, int, int]

#: Integrands are cut off at e^-32 of the peak.
FALLEN = 32.0

#: Epsilon beyond which even the widest prior of the tests is negligible.
FARTHEST = 3000.0


def unit_rule(count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    points, weights = legendre.leggauss(count)
    return 0.5 * (1 + points), 0.5 * weights


# --- along an edge ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edges:
    """Many edges at once, one per entry: g(alpha) g(beta) times the Jacobian as a function of y."""

    row: Row
    epsilon: FloatArray
    delta: float
    u: FloatArray

    @property
    def end(self) -> FloatArray:
        """The largest y, where alpha = beta."""
        return np.asarray((1 - self.u * self.delta) / (1 + np.exp(-self.u * self.epsilon)))

    def some(self, chosen: NDArray[np.bool_]) -> Edges:
        return Edges(self.row, self.epsilon[chosen], self.delta, self.u[chosen])

    def log(self, y: FloatArray) -> FloatArray:
        """Logarithm of the integrand, without binomial coefficients; y has shape (edge, ...)."""
        x, n0, k, n1 = self.row
        shape = (len(self.u),) + (1,) * (y.ndim - 1)
        t, d = (self.u * self.epsilon).reshape(shape), (self.u * self.delta).reshape(shape)

        def log(value: FloatArray) -> FloatArray:
            return np.asarray(np.log(np.maximum(value, 1e-300)))

        logs = log(self.delta + self.epsilon.reshape(shape) * y) - (k + 1) * t
        logs = logs + x * log(1 - d - y) + (n0 - x) * log(d + y)
        return np.asarray(logs + k * log(y) + (n1 - k) * log(1 - np.exp(-t) * y))

    def slope(self, y: FloatArray) -> FloatArray:
        """Derivative of the logarithm, which decreases."""
        x, n0, k, n1 = self.row
        shrink, d = np.exp(-self.u * self.epsilon), self.u * self.delta
        return np.asarray(
            self.epsilon / (self.delta + self.epsilon * y)
            - x / np.maximum(1 - d - y, 1e-300)
            + (n0 - x) / (d + y)
            + k / y
            - (n1 - k) * shrink / np.maximum(1 - shrink * y, 1e-300)
        )

    def mode(self) -> FloatArray:
        """Where the integrand is largest, by bisection; it affects only the panels of the rule."""
        low, high = np.zeros(len(self.u)), self.end
        for _ in range(26):
            middle = 0.5 * (low + high)
            rising = self.slope(middle) > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return high

    def log_integral(self, mode: FloatArray) -> FloatArray:
        """Over all y: two panels on each side of the mode."""
        top = self.log(mode)
        nodes, weights = unit_rule(9)
        total = np.zeros(len(mode))
        for limit in (np.zeros(len(mode)), self.end):
            bound = self._fallen(mode, limit, top)
            cut = mode + 0.3 * (bound - mode)
            for start, stop in ((mode, cut), (cut, bound)):
                y = start[:, None] + (stop - start)[:, None] * nodes
                total += np.abs(stop - start) * (np.exp(self.log(y) - top[:, None]) @ weights)
        return np.asarray(top + np.log(total))

    def _fallen(self, mode: FloatArray, limit: FloatArray, top: FloatArray) -> FloatArray:
        """A point just beyond where the integrand has fallen far enough, or the end of the edge."""
        inner, outer = mode, limit
        whole = self.log(limit) >= top - FALLEN
        for _ in range(11):
            middle = 0.5 * (inner + outer)
            above = self.log(middle) >= top - FALLEN
            inner, outer = np.where(above, middle, inner), np.where(above, outer, middle)
        return np.where(whole, limit, outer)


def log_flux(row: Row, epsilon: FloatArray, delta: float, u: FloatArray) -> FloatArray:
    """log of d/du of the binomial mass of R(u epsilon, u delta); epsilon and u of one shape."""
    x, n0, k, n1 = row
    forms = Counter([row, (k, n1, x, n0), (n0 - x, n0, n1 - k, n1), (n1 - k, n1, n0 - x, n0)])
    edges = [Edges(form, epsilon.ravel(), delta, u.ravel()) for form in forms]
    modes = [each.mode() for each in edges]
    tops = np.array([each.log(mode) for each, mode in zip(edges, modes, strict=True)])
    logs = np.full(tops.shape, -np.inf)
    for i, (each, mode, times) in enumerate(zip(edges, modes, forms.values(), strict=True)):
        # A part of the boundary this far below another is negligible.
        counts = tops[i] > tops.max(axis=0) - FALLEN - 10
        if counts.any():
            logs[i, counts] = each.some(counts).log_integral(mode[counts]) + math.log(times)
    ways = gammaln(n0 + 1) - gammaln(x + 1) - gammaln(n0 - x + 1)
    ways += gammaln(n1 + 1) - gammaln(k + 1) - gammaln(n1 - k + 1)
    return np.asarray(logsumexp(logs, axis=0) + ways).reshape(u.shape)


def log_area_rate(epsilon: FloatArray, delta: float, u: FloatArray) -> FloatArray:
    """log of d/du of the area of R(u epsilon, u delta): the same with g = 1, in closed form."""
    end = (1 - u * delta) / (1 + np.exp(-u * epsilon))
    return np.asarray(math.log(4) - u * epsilon + np.log(delta * end + epsilon * end**2 / 2))


# --- along u, and along s -----------------------------------------------------------------------

#: Nodes of a panel, except along y.
NODES = 10

POINTS, WEIGHTS = unit_rule(NODES)
#: From values at the nodes to Legendre coefficients.
ANALYSIS = np.linalg.inv(legendre.legvander(2 * POINTS - 1, NODES - 1))

_INNER, _INNER_WEIGHTS = unit_rule(12)
STARTS = np.append(0.0, POINTS)
REST = STARTS[:, None] + (1 - STARTS)[:, None] * _INNER
LOG_REST_WEIGHTS = np.log((1 - STARTS)[:, None] * _INNER_WEIGHTS)
#: Rules for the rest of a panel from its start, and from each of its nodes.
TO_REST = legendre.legvander(2 * REST.ravel() - 1, NODES - 1) @ ANALYSIS


def log_ring(log_rate: FloatArray, log_jacobian: FloatArray, width: float) -> FloatArray:
    """log of the integral of the rate from every node (..., panel, node) to the end of all panels.

    Logarithms are interpolated, not rates, so that even a decrease by many powers of ten remains a sum
    of positive terms.
    """
    fine = (log_rate @ TO_REST.T).reshape(*log_rate.shape[:-1], *REST.shape)
    parts = logsumexp(fine + log_jacobian + LOG_REST_WEIGHTS, axis=-1) + math.log(width)
    beyond = np.full(log_rate.shape[:-1], -np.inf)
    whole = np.logaddexp.accumulate(parts[..., ::-1, 0], axis=-1)[..., ::-1]
    beyond[..., :-1] = whole[..., 1:]
    return np.asarray(np.logaddexp(parts[..., 1:], beyond[..., None]))


@dataclass(frozen=True)
class OracleModel:
    """The problem to solve; ``with_area=False`` is a deliberate mistake."""

    rows: tuple[Row, ...]
    delta: float
    strength: em.priors.Beta | em.priors.Fixed
    with_area: bool = True

    def log_rows(self, epsilon: FloatArray, panels: int, least: float = 0.0) -> FloatArray:
        """log p(counts | epsilon, s) p(s) ds at each epsilon: (epsilon, panel, node), s from least.

        Panels are even in phi, s = sin^2(phi), where p(s) ds has no infinite ends for a, b >= 1/2.
        With a fixed strength there is one node, of weight 1.
        """
        if isinstance(self.strength, em.priors.Fixed):
            return self._log_fixed(epsilon, panels)[:, None, None]
        edges = np.linspace(math.asin(math.sqrt(least)), math.pi / 2, panels + 1)
        width = float(edges[1] - edges[0])
        phi = edges[:-1, None] + width * POINTS
        log_jacobian = np.log(np.sin(2 * (edges[:-1, None, None] + width * REST)))
        a, b = self.strength.a, self.strength.b
        log_prior = stats.beta(a, b).logpdf(np.sin(phi) ** 2) + np.log(np.sin(2 * phi))
        u = np.broadcast_to(np.sin(phi) ** 2, (len(epsilon), *phi.shape))
        e = np.broadcast_to(epsilon[:, None, None], u.shape)
        total = log_prior + np.log(width * WEIGHTS)
        if self.with_area:
            rate = log_area_rate(e, self.delta, u)
            total = total - len(self.rows) * log_ring(rate, log_jacobian, width)
        for row, times in Counter(self.rows).items():
            rate = log_flux(row, e, self.delta, u)
            total = total + times * log_ring(rate, log_jacobian, width)
        return np.asarray(total)

    def _log_fixed(self, epsilon: FloatArray, panels: int) -> FloatArray:
        assert isinstance(self.strength, em.priors.Fixed)
        strength = self.strength.value
        # At 1 the ring is a curve: mass and area are both replaced by their rates.
        nodes, log_weights = np.ones(1), np.zeros(1)
        if strength < 1:
            edges = np.linspace(strength, 1, math.ceil(panels * max(0.3, 1 - strength)) + 1)
            nodes = (edges[:-1, None] + (edges[1] - edges[0]) * POINTS).ravel()
            log_weights = np.log(np.tile((edges[1] - edges[0]) * WEIGHTS, len(edges) - 1))
        u = np.broadcast_to(nodes, (len(epsilon), len(nodes)))
        e = np.broadcast_to(epsilon[:, None], u.shape)
        total = np.zeros(len(epsilon))
        if self.with_area:
            rate = log_area_rate(e, self.delta, u)
            total -= len(self.rows) * logsumexp(rate + log_weights, axis=1)
        for row, times in Counter(self.rows).items():
            rate = log_flux(row, e, self.delta, u)
            total += times * logsumexp(rate + log_weights, axis=1)
        return total


# --- along epsilon ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """Quantiles of the free parameters, the log evidence, and their error bounds."""

    quantiles: dict[str, FloatArray]
    log_evidence: float
    error: float


@dataclass(frozen=True, eq=False)
class Panel:
    """Part of the axis of epsilon, with log densities by panel and node of the strength."""

    start: float
    stop: float
    log_joint: FloatArray

    @property
    def width(self) -> float:
        return self.stop - self.start

    @property
    def log_density(self) -> FloatArray:
        return np.asarray(logsumexp(self.log_joint, axis=(1, 2)))


def log_density_of(
    prior: em.priors.HalfNormal | em.priors.Exponential | em.priors.LogNormal | em.priors.Uniform,
) -> Callable[[FloatArray], FloatArray]:
    """The prior's log density, from scipy."""
    if isinstance(prior, em.priors.HalfNormal):
        return stats.halfnorm(scale=prior.scale).logpdf
    if isinstance(prior, em.priors.Exponential):
        return stats.expon(scale=prior.mean).logpdf
    if isinstance(prior, em.priors.LogNormal):
        return stats.lognorm(s=prior.log_scale, scale=prior.median).logpdf
    return stats.uniform(scale=prior.upper).logpdf


def truth(
    rows: Sequence[Row],
    delta: float,
    epsilon: em.priors.HalfNormal | em.priors.Exponential | em.priors.LogNormal | em.priors.Uniform,
    strength: em.priors.Beta | em.priors.Fixed,
    probabilities: Sequence[float],
    *,
    with_area: bool = True,
    axis_end: float = math.inf,
) -> Truth:
    """The posterior of (epsilon, s).

    ``with_area=False`` leaves the ring's area out, ``axis_end`` cuts the axis of epsilon: two deliberate
    mistakes, for controls.
    """
    problem = OracleModel(tuple(rows), delta, strength, with_area)
    log_prior = log_density_of(epsilon)
    end = min(axis_end, epsilon.upper if isinstance(epsilon, em.priors.Uniform) else FARTHEST)
    most = max(max(n0, n1) for _, n0, _, n1 in rows)
    panels = 4 + math.ceil(math.sqrt(most) / 6)
    while True:
        solved = _solve(problem, log_prior, end, panels)
        found = _answers(*solved, strength, probabilities)
        points = np.append(found["epsilon"], found["epsilon"].mean())
        coarse = logsumexp(problem.log_rows(points, panels, solved[1]), axis=(1, 2))
        fine = logsumexp(problem.log_rows(points, 2 * panels, solved[1]), axis=(1, 2))
        error = float(np.max(np.abs(coarse - fine)))
        if error < 1e-6:
            break
        panels *= 2
    return Truth(found, _log_evidence(solved[0]), error)


def _solve(
    problem: OracleModel, log_prior: Callable[[FloatArray], FloatArray], end: float, panels: int
) -> tuple[list[Panel], float]:
    """Panels of epsilon that resolve its posterior, and the least strength that matters."""
    least = 0.0

    def log_joint(epsilon: FloatArray) -> FloatArray:
        parts = np.array_split(epsilon, math.ceil(len(epsilon) / 40))
        logs = np.concatenate([problem.log_rows(part, panels, least) for part in parts])
        return np.asarray(logs + log_prior(epsilon)[:, None, None])

    # Locate it: zoom in from a wide range until the range shrinks no more.
    low, high = 0.0, end
    epsilon = np.exp(np.linspace(math.log(min(1e-7, 1e-4 * end)), math.log(end), 90))
    while True:
        logs = log_joint(epsilon)
        density = logsumexp(logs, axis=(1, 2))
        kept = np.flatnonzero(density > density.max() - FALLEN - 8)
        before, low = low, float(epsilon[kept[0] - 1]) if kept[0] > 0 else low
        high, wide = float(epsilon[kept[-1] + 1]) if kept[-1] + 1 < len(epsilon) else high, high
        if isinstance(problem.strength, em.priors.Beta):
            column = logs.max(axis=0).ravel()
            first = int(np.flatnonzero(column > column.max() - FALLEN - 8)[0])
            phi = np.linspace(math.asin(math.sqrt(least)), math.pi / 2, panels + 1)
            nodes = (phi[:-1, None] + (phi[1] - phi[0]) * POINTS).ravel()
            least = float(np.sin(nodes[first - 1]) ** 2) if first > 0 else least
        if high - low > 0.7 * (wide - before):
            break
        epsilon = low + (high - low) * (np.arange(16) + 0.5) / 16
    if high >= FARTHEST:
        raise AssertionError("the posterior of epsilon does not end")
    # Halve panels until the last Legendre coefficients of each are negligible.
    edges = np.linspace(low, high, 7)
    waiting, done = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)), []
    while waiting:
        starts, stops = np.array(waiting).T
        nodes = starts[:, None] + (stops - starts)[:, None] * POINTS
        logs = log_joint(nodes.ravel()).reshape(*nodes.shape, -1, logs.shape[-1])
        done += [Panel(*ends, part) for ends, part in zip(waiting, logs, strict=True)]
        total = _log_evidence(done)
        split = [panel for panel in done if _unresolved(panel, total) > 1e-7]
        done = [panel for panel in done if panel not in split]
        waiting = [
            half
            for panel in split
            for middle in [0.5 * (panel.start + panel.stop)]
            for half in ((panel.start, middle), (middle, panel.stop))
        ]
    return sorted(done, key=lambda panel: panel.start), least


def _log_evidence(found: list[Panel]) -> float:
    parts = [panel.log_density + np.log(panel.width * WEIGHTS) for panel in found]
    return float(logsumexp(parts))


def _unresolved(panel: Panel, log_total: float) -> float:
    values = np.exp(panel.log_density - log_total)
    return float(panel.width * np.abs((ANALYSIS @ values)[-2:]).max())


def _answers(
    found: list[Panel],
    least: float,
    strength: em.priors.Beta | em.priors.Fixed,
    probabilities: Sequence[float],
) -> dict[str, FloatArray]:
    total = _log_evidence(found)
    breaks = np.array([panel.start for panel in found] + [found[-1].stop])
    density = np.array([np.exp(panel.log_density - total) for panel in found])
    answers = {"epsilon": _quantiles(breaks, density, probabilities)}
    if isinstance(strength, em.priors.Beta):
        logs = [panel.log_joint + np.log(panel.width * WEIGHTS)[:, None, None] for panel in found]
        mass = np.exp(logsumexp(np.concatenate(logs), axis=0) - total)
        phi = np.linspace(math.asin(math.sqrt(least)), math.pi / 2, len(mass) + 1)
        values = mass / ((phi[1] - phi[0]) * WEIGHTS)
        answers["strength"] = np.sin(_quantiles(phi, values, probabilities)) ** 2
    return answers


def _quantiles(
    breaks: FloatArray, density: FloatArray, probabilities: Sequence[float]
) -> FloatArray:
    """Quantiles of a density given at the nodes of panels, by halving within a panel."""
    width = np.diff(breaks)
    cumulative = np.append(0.0, np.cumsum(width * (density @ WEIGHTS)))
    answers = []
    for probability in probabilities:
        target = probability * cumulative[-1]
        i = int(np.searchsorted(cumulative, target)) - 1
        below = legendre.Legendre(ANALYSIS @ density[i]).integ(lbnd=-1)
        low, high = -1.0, 1.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            if cumulative[i] + 0.5 * width[i] * below(middle) < target:
                low = middle
            else:
                high = middle
        answers.append(breaks[i] + 0.5 * width[i] * (1 + low))
    return np.array(answers)
