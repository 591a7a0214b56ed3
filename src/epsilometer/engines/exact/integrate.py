"""The integrator: from a surface and priors to rows of likelihood on resolved panels.

Epsilon has its own panels.  In each row, at one epsilon, the strength has panels between breaks shared
by all rows: of t = s epsilon below ``s[0]`` epsilon, since weak attacks inform about t, and of the
strength itself above, where rings become thin.  A fixed parameter is one node of weight 1.  Panels are
halved until the unresolved part is below the resolution's tolerance.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from epsilometer._arrays import FloatArray
from epsilometer.engines.exact.groups import Surface
from epsilometer.engines.exact.nuisance import NuisanceGrid
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.engines.exact.rows import Rows, held_strength, panel_kinds, strength_panels
from epsilometer.errors import ContradictionError, InputError
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Prior
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import panel_nodes, split_panels, trimmed, unresolved

LARGEST_AXIS_EPSILON = 600.0  # no axis or prior extends beyond: e^-600 nears underflow
#: Standard errors of an attack's critical epsilon, up to which it may be at chance.
AT_CHANCE = 5.0

PRIOR_BEYOND = 1e-15  # prior probability beyond the initial end of the axis, which may move
#: Initial breaks of the strength where panels are of the strength itself.
THINNEST = np.array([0.9, 1.0])
SLIVER = 0.03  # a break of t this close, relatively, below the first of the strength is left out
#: Beyond this refinement only follows noise; the error estimate shows the rest.
MOST_AXIS_ROWS = 4000
PROBED_CELLS = 64  # most important points, at which the depth of attacks in tails is checked
MATTERS = 9.0  # nats below the peak within which a point counts for that


@dataclass(frozen=True, kw_only=True)
class Panels:
    """Breaks of epsilon, of t = s epsilon, and of the strength next to 1."""

    epsilon: FloatArray
    t: FloatArray
    s: FloatArray

    def row(self, epsilon: float) -> FloatArray:
        """Breaks of the strength at one epsilon, from 0 to 1."""
        below = self.t[self.t < (1 - SLIVER) * self.s[0] * epsilon] / epsilon
        return np.concatenate([below, self.s])


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Rows on panels of epsilon, from which the posterior is computed.

    ``log_prior`` is log p(epsilon) of each row; ``log_rows`` is that + log integral over s, shape
    (panel, node, nuisance node), without quadrature weights in epsilon but with the prior weights of
    the nuisance grid.
    """

    panels: Panels
    log_prior: FloatArray
    log_rows: FloatArray
    rows: Rows
    nuisance: NuisanceGrid

    @property
    def fixed_epsilon(self) -> bool:
        return bool(self.panels.epsilon[0] == self.panels.epsilon[-1])

    def row_mass(self) -> FloatArray:
        """Quadrature weights of the rows, (panel, node); a fixed epsilon is one row of weight 1."""
        if self.fixed_epsilon:
            return np.ones((1, 1))
        return panels.panel_rule(self.panels.epsilon, self.log_rows.shape[1])[1]

    def marginal(self) -> FloatArray:
        """Density of epsilon (panel, node), scaled to a maximum of 1."""
        top = self.log_rows.max()
        if not np.isfinite(top) or top < -1e200:
            raise ContradictionError(
                "the counts have no weight under this model: check the prior, the fixed values and "
                "delta."
            )
        return np.asarray(np.exp(self.log_rows - top).sum(axis=-1))

    def nuisance_probability(self) -> FloatArray:
        """Posterior probability of each nuisance node."""
        scaled = np.exp(self.log_rows - self.log_rows.max())
        total = (scaled * self.row_mass()[:, :, None]).sum(axis=(0, 1))
        return np.asarray(total / total.sum())

    def node_masses(self) -> FloatArray:
        """Probability of each node of the strength, (row, panel, node), up to a common factor."""
        logs = self.rows.log_likelihood + self.nuisance.log_weight
        offset = self.log_prior - self.log_rows.max()
        scaled = np.exp(logs + offset[:, None, None, None]).sum(axis=-1)
        return np.asarray(scaled * self.row_mass().ravel()[:, None, None])


def integrate(
    surface: Surface, model: CountModel, resolution: Resolution, start: Panels | None = None
) -> tuple[Solution, Surface]:
    """Return rows on panels that resolve the posterior, and the surface they came from.

    The surface is returned because it may have been extended, in epsilon or into tails.  ``start`` are
    initial panels, those of a coarser solution or of another delta.  Raises a ContradictionError if the
    counts have no weight anywhere under the model.
    """
    where = first_panels(surface, model) if start is None else start
    solution: Solution | None = None
    evaluated: Surface | None = None
    for number in range(resolution.rounds):
        surface = surface.reaching(float(where.epsilon[-1]))
        known: Rows | None = solution.rows if solution and surface is evaluated else None
        solution, evaluated = evaluate(surface, model, where, resolution.nodes, known), surface
        if number == resolution.rounds - 1 or len(solution.rows.epsilon) > MOST_AXIS_ROWS:
            # The computed rows belong to these panels; others would need another round.
            break
        refined = _refined(solution, model, resolution)
        if refined is None or number % 3 == 2:
            needed = _depth_needed(surface, solution, model)
            if needed > surface.depth:
                # Conflicting attacks, or a prior that extends far: some masses are far in a tail.
                surface = surface.deepened(1.5 * needed + 10.0)
                continue
        if refined is None:
            break
        where = refined
    assert solution is not None
    return solution, surface


def evaluate(
    surface: Surface, model: CountModel, where: Panels, count: int, known: Rows | None = None
) -> Solution:
    """Rows of likelihood at the nodes of given panels; panels of ``known`` rows are reused."""
    fixed, held = model.epsilon.fixed_value, model.strength.fixed_value
    nodes = panel_nodes(where.epsilon, count) if fixed is None else np.array([[fixed]])
    epsilon = nodes.ravel()
    if held is None:
        breaks = [where.row(float(node)) for node in epsilon]
        quadrature = strength_panels(breaks, model.strength, count)
    else:
        quadrature = held_strength(len(epsilon), held)
    missing = np.isfinite(quadrature.log_weights)
    logs = np.full((*missing.shape, len(surface.nuisance)), -np.inf)
    if known is not None:
        mine, theirs = quadrature.shared_panels(epsilon, known)
        logs[mine] = known.log_likelihood[theirs]
        missing[mine] = False
    row = np.nonzero(missing)[0]
    logs[missing] = surface.log_likelihood(epsilon[row], quadrature.nodes[missing], model.delta)
    rows = Rows(epsilon=epsilon, quadrature=quadrature, log_likelihood=logs)
    log_prior = model.epsilon.log_density(epsilon)
    log_rows = rows.log_integral() + log_prior[:, None] + surface.nuisance.log_weight
    log_rows = log_rows.reshape(*nodes.shape, -1)
    return Solution(
        panels=where, log_prior=log_prior, log_rows=log_rows, rows=rows, nuisance=surface.nuisance
    )


# --- panels -------------------------------------------------------------------------------------


def first_panels(surface: Surface, model: CountModel) -> Panels:
    """Initial panels, fine near the likely positions of the strongest and the weakest attack.

    The strongest attack bounds epsilon from below and the weakest bounds t = s epsilon from above, each
    as sharply as that attack is known; outwards panels grow by factors of three.
    """
    fixed = model.epsilon.fixed_value
    end = first_end(model.epsilon) if fixed is None else fixed
    guess = surface.guess
    critical = np.minimum(guess.critical_epsilon(model.delta), end)
    # Below delta the region is a strip of constant width.  Where an attack is at chance, up to a few
    # standard errors, part of the posterior may be there.
    at_chance = surface.planar or bool(np.any(critical <= AT_CHANCE * guess.width))
    from_zero = at_chance and surface.method != "groups" and surface.smallest_epsilon == 0
    thin = 0.5 * model.delta if from_zero else 0.0
    result = []
    for attack, lowest in (
        (int(np.argmax(critical)), surface.smallest_epsilon if fixed is None else 0.0),
        (int(np.argmin(critical)), 0.0),
    ):
        centre, reach = float(critical[attack]), max(float(guess.width[attack]), 1e-6 * end)
        reach = min(reach, 0.02 * end)
        steps = reach * 3.0 ** np.arange(int(np.log(end / reach) / np.log(3.0)) + 1)
        even = 0.25 * end * np.arange(5)
        points = np.concatenate([centre - steps, [centre], centre + steps, even])
        points = np.unique(points[(points > lowest) & (points < end)])
        points = points[np.append(True, np.diff(points) > 0.3 * reach)]
        points = points[(points > lowest + 0.3 * reach) & (points < end - 0.3 * reach)]
        graded = _near_zero(lowest or thin, float(points[0]) if len(points) else end)
        result.append(np.concatenate([[lowest], graded, points, [end]]))
    epsilon = result[0] if fixed is None else np.array([fixed, fixed])
    return Panels(epsilon=epsilon, t=result[1], s=THINNEST)


def first_end(prior: Prior) -> float:
    """Initial end of the axis of epsilon, beyond which the prior probability is negligible."""
    if float(prior.upper_quantile(1e-6)) > LARGEST_AXIS_EPSILON:
        raise InputError(
            f"expected a prior of epsilon that stays below {LARGEST_AXIS_EPSILON:.0f}, got {prior!r}."
        )
    end = prior.end if math.isfinite(prior.end) else float(prior.upper_quantile(PRIOR_BEYOND))
    return min(end, LARGEST_AXIS_EPSILON)


def _near_zero(smallest: float, before: float) -> FloatArray:
    """Breaks from the smallest epsilon up, each four times the one before.

    After weak attacks part of the posterior may be a spike there, too thin to be found by halving
    panels.
    """
    if not 0 < smallest < before:
        return np.empty(0)
    count = max(0, math.ceil(math.log(before / smallest, 4.0)) - 1)
    return np.asarray(smallest * 4.0 ** np.arange(1, count + 1), dtype=np.float64)


def _refined(solution: Solution, model: CountModel, resolution: Resolution) -> Panels | None:
    """Finer panels where the posterior is unresolved, fewer where it is absent; None if resolved."""
    where = solution.panels
    t, s, more = _refined_strengths(solution, model, resolution)
    epsilon = where.epsilon
    if not solution.fixed_epsilon:
        density = solution.marginal()
        split = unresolved(epsilon, density, resolution.tolerance)
        ended = _moved_end(epsilon, density, model.epsilon, resolution)
        more = more or bool(split.any()) or ended > epsilon[-1]
        kept = trimmed(density, resolution.negligible)
        epsilon = split_panels(epsilon[kept.start : kept.stop + 1], split[kept])
        if ended > where.epsilon[-1]:
            epsilon, t = np.append(epsilon, ended), np.append(t, max(ended, float(t[-1]) + 1.0))
    if not more:
        return None
    return Panels(epsilon=epsilon, t=t, s=s)


def _moved_end(
    breaks: FloatArray, density: FloatArray, prior: Prior, resolution: Resolution
) -> float:
    """The end of the axis needed to contain the posterior; unchanged if it suffices."""
    end = float(breaks[-1])
    limit = min(prior.end, LARGEST_AXIS_EPSILON)
    if end >= limit or density[-1].max() <= resolution.negligible * density.max():
        return end
    return min(limit, end + max(2 * float(breaks[-1] - breaks[-2]), 0.5 * end))


def _refined_strengths(
    solution: Solution, model: CountModel, resolution: Resolution
) -> tuple[FloatArray, FloatArray, bool]:
    """Breaks of t and of the strength: halved where unresolved, merged where there is no mass."""
    where, rows = solution.panels, solution.rows
    if model.strength.fixed_value is not None:
        return where.t, where.s, False
    left, mass = _left_on_panels(solution, model)
    total = mass.sum()
    near = len(where.s) - 1
    by_t, mass_t = np.zeros(len(where.t) - 1), np.zeros(len(where.t) - 1)
    by_s = np.zeros(near)
    for number, used in enumerate(rows.quadrature.used):
        below = used - near
        by_t[:below] += left[number, :below]
        mass_t[:below] += mass[number, :below]
        by_s += left[number, below:used]
    allowed = resolution.tolerance * total
    split_t = (by_t > allowed) & (np.diff(where.t) > 1e-10 * where.t[-1])
    split_s = (by_s > allowed) & (np.diff(where.s) > 1e-9)
    idle = mass_t <= resolution.negligible * total
    joined = np.append(False, idle[1:] & idle[:-1])
    t = where.t[np.append(~joined, True)] if joined.any() else where.t
    middles = 0.5 * (where.t[1:] + where.t[:-1])[split_t]
    s = split_panels(where.s, split_s)
    more = bool(split_t.any() or split_s.any())
    return np.unique(np.concatenate([t, middles])), s, more


def _left_on_panels(solution: Solution, model: CountModel) -> tuple[FloatArray, FloatArray]:
    """The unresolved part of each panel of the strength, and its mass: (row, panel) each.

    The quadrature rule (Gauss-Jacobi if needed) includes the prior, so only the likelihood has to be a
    polynomial.
    """
    quadrature = solution.rows.quadrature
    values = solution.node_masses()
    weights = np.exp(quadrature.log_weights)
    mass = (values * weights).sum(axis=-1)
    count = values.shape[-1]
    left = np.zeros(mass.shape)
    for which, *powers in panel_kinds(quadrature.used, model.strength.end_powers):
        nodes = panels.rule(count, *powers).nodes
        analysis = np.linalg.inv(legendre.legvander(2 * nodes - 1, count - 1))
        left[which] = panels.tail(values[which] @ analysis.T)
    wide = np.diff(quadrature.breaks, axis=1) > 0
    return np.where(wide, left * weights.sum(axis=-1), 0.0), mass


def _depth_needed(surface: Surface, solution: Solution, model: CountModel) -> float:
    """How far below its total mass the ring of some attack is, where the posterior has weight."""
    if not math.isfinite(surface.depth):
        return 0.0
    quadrature = solution.rows.quadrature
    logs = np.log(np.maximum(solution.node_masses(), 1e-300)) + quadrature.log_weights
    places = np.argwhere(logs > logs.max() - MATTERS)
    row, panel, node = places[:: 1 + len(places) // PROBED_CELLS].T
    strength = quadrature.nodes[row, panel, node]
    return surface.deficit(solution.rows.epsilon[row], strength, model.delta)
