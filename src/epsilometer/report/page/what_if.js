// Recomputes the posterior of epsilon and the verdict from the numbers in the page.  The maths is that
// of posteriors/tabulated.py, judgement/verdict.py and judgement/objections.py.
const EpsilometerWhatIf = (() => {
  "use strict";

  const FINER = 6;  // cells that one cell is divided into
  const NEGLIGIBLE = 1e-10;  // probability of a component that is left out
  const HALVED_AND_DOUBLED = [0.5, 2];

  // --- numbers --------------------------------------------------------------------------------------

  // Little-endian 32-bit floats in base64.
  const unpack = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  };

  // Second derivatives of a cubic spline through values at 0, 1, 2, ... (not-a-knot ends).
  const curvatures = (y) => {
    const n = y.length, found = new Float64Array(n);
    if (n < 4) return found;
    const right = new Float64Array(n);
    for (let i = 1; i < n - 1; i++) right[i] = 6 * (y[i - 1] - 2 * y[i] + y[i + 1]);
    // The third derivative does not jump at the second knot: m0 = 2 m1 - m2; likewise at the end.
    found[1] = right[1] / 6;
    found[n - 2] = right[n - 2] / 6;
    // What is left is tridiagonal: m[i-1] + 4 m[i] + m[i+1] = right[i] for i = 2 .. n-3.
    const slope = new Float64Array(n), part = new Float64Array(n);
    part[1] = found[1];
    for (let i = 2; i < n - 2; i++) {
      const pivot = 4 - slope[i - 1];
      slope[i] = 1 / pivot;
      part[i] = (right[i] - part[i - 1]) / pivot;
    }
    for (let i = n - 3; i > 1; i--) found[i] = part[i] - slope[i] * found[i + 1];
    found[0] = 2 * found[1] - found[2];
    found[n - 1] = 2 * found[n - 2] - found[n - 3];
    return found;
  };

  const splineAt = (y, curved, x) => {
    const i = Math.max(0, Math.min(y.length - 2, Math.floor(x)));
    const b = x - i, a = 1 - b;
    return a * y[i] + b * y[i + 1]
      + ((a * a * a - a) * curved[i] + (b * b * b - b) * curved[i + 1]) / 6;
  };

  // Complementary error function, relative error below 1.2e-7 (rational Chebyshev fit).
  const erfc = (x) => {
    const z = Math.abs(x), t = 1 / (1 + z / 2);
    const series = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807,
      -1.13520398, 1.48851587, -0.82215223, 0.17087277];
    const sum = series.reduceRight((total, each) => each + t * total, 0);
    const value = t * Math.exp(-z * z + sum);
    return x >= 0 ? value : 2 - value;
  };

  // --- priors: log density up to a constant, and the probability above a value; scale 1 is the result's own

  const PRIORS = {
    "half-normal": ([scale]) => ({
      log: (x) => -0.5 * (x / scale) ** 2,
      above: (x) => erfc(x / scale / Math.SQRT2),
    }),
    "exponential": ([mean]) => ({
      log: (x) => -x / mean,
      above: (x) => Math.exp(-x / mean),
    }),
    "log-normal": ([middle, spread]) => ({
      log: (x) => (x > 0 ? -Math.log(x) - 0.5 * ((Math.log(x) - middle) / spread) ** 2 : -Infinity),
      above: (x) => (x > 0 ? 0.5 * erfc((Math.log(x) - middle) / spread / Math.SQRT2) : 1),
    }),
    "uniform": ([upper]) => ({
      log: (x) => (x <= upper ? 0 : -Infinity),
      above: (x) => Math.max(0, 1 - x / upper),
    }),
  };

  // The constants that matter where some probability is at "no leak".
  const LOG_CONSTANT = {
    "half-normal": ([scale]) => 0.5 * Math.log(2 / Math.PI) - Math.log(scale),
    "exponential": ([mean]) => -Math.log(mean),
    "log-normal": ([, spread]) => -0.5 * Math.log(2 * Math.PI) - Math.log(spread),
    "uniform": ([upper]) => -Math.log(upper),
  };

  const rescaledPrior = ({ kind, numbers }, factor) => {
    const own = PRIORS[kind](numbers), constant = LOG_CONSTANT[kind](numbers) - Math.log(factor);
    return { log: (x) => constant + own.log(x / factor), above: (x) => own.above(x / factor) };
  };

  // --- maps from leak to epsilon ----------------------------------------------------------------------

  const makeMap = ({ end, starts, knots, values }) => {
    const all = unpack(values);
    let first = 0;
    return starts.map((start, place) => {
      const count = knots[place], y = all.subarray(first, first + count), curved = curvatures(y);
      first += count;
      const spacing = (end - start) / (count - 1);
      return (leak) => {
        const x = (Math.cbrt(leak) - start) / spacing;
        return x > 0 ? Math.max(0, splineAt(y, curved, Math.min(x, count - 1))) : 0;
      };
    });
  };

  // --- measures: log weights of cells without the prior -----------------------------------------------

  const makeComponent = ({ first, step, weights, map }) => {
    const logWeights = unpack(weights), rows = logWeights.length;
    const centres = Float64Array.from(logWeights, (_, k) => Math.exp(first + step * k));
    const edges = Float64Array.from(
      { length: FINER * rows + 1 }, (_, i) => Math.exp(first + step * (i / FINER - 0.5)));
    return { logWeights, centres, edges, map, rows, cache: new Map() };
  };

  const create = (data) => {
    const maps = data.maps.map(makeMap);
    const measures = data.measures.map(({ noLeak, components }) => ({
      noLeak: noLeak === null ? 0 : Math.exp(noLeak),
      components: components.map(makeComponent),
    }));
    const measureAt = (place) => measures[data.perDelta ? place : 0];

    // Epsilon at the centres of cells, where the prior is, and at fine edges at any delta.
    const epsilons = (component, place, which) => {
      const key = `${which} ${place}`;
      if (!component.cache.has(key)) {
        const leaks = component[which];
        const own = component.map === null ? null : maps[component.map][place];
        component.cache.set(key, own === null ? leaks : leaks.map(own));
      }
      return component.cache.get(key);
    };

    // Probabilities of fine cells under a prior; null where no curve is left.
    const weigh = (measure, factor) => {
      const prior = rescaledPrior(data.prior, factor);
      const logs = measure.components.map((component) => {
        const epsilon = epsilons(component, data.own, "centres");
        return component.logWeights.map((weight, k) => weight + prior.log(epsilon[k]));
      });
      const top = Math.max(...logs.map((each) => each.reduce((a, b) => Math.max(a, b), -Infinity)));
      if (!Number.isFinite(top)) return null;
      const masses = logs.map((each) => each.map((value) => Math.exp(value - top)));
      const sums = masses.map((each) => each.reduce((a, b) => a + b, 0));
      const noLeak = measure.noLeak * Math.exp(-top);
      const total = noLeak + sums.reduce((a, b) => a + b, 0);
      const parts = [];
      measure.components.forEach((component, i) => {
        if (sums[i] > NEGLIGIBLE * total) parts.push(refine(component, masses[i], sums[i]));
      });
      const kept = parts.reduce((sum, part) => sum + part.sum, 0) + noLeak;
      for (const part of parts) part.running = part.running.map((value) => value / kept);
      return { parts, noLeak: noLeak / kept };
    };

    const weighed = new Map();
    const posterior = (factor, place) => {
      const key = `${factor} ${data.perDelta ? place : 0}`;
      if (!weighed.has(key)) {
        if (weighed.size > 60) weighed.clear();
        weighed.set(key, weigh(measureAt(place), factor));
      }
      const found = weighed.get(key);
      return found && distribution(found, (component) => epsilons(component, place, "edges"));
    };

    return { data, posterior, compute: (settings) => compute(data, posterior, settings) };
  };

  // Finer cells, along a smooth curve through their neighbours, as running sums from the smallest leak.
  const refine = (component, mass, sum) => {
    const least = 1e-12 * mass.reduce((a, b) => Math.max(a, b), 0);
    let first = 0, last = mass.length - 1;
    while (!(mass[first] > least)) first++;
    while (!(mass[last] > least)) last--;
    const inner = mass.slice(first, last + 1);
    const smooth = inner.length >= 5 && inner.every((value) => value > 0);
    const fine = new Float64Array(FINER * inner.length);
    if (smooth) {
      const y = inner.map(Math.log), curved = curvatures(y);
      for (let i = 0; i < fine.length; i++) {
        const x = Math.max(0, Math.min(inner.length - 1, (i + 0.5) / FINER - 0.5));
        fine[i] = Math.exp(splineAt(y, curved, x));
      }
    } else {
      for (let i = 0; i < fine.length; i++) fine[i] = inner[Math.floor(i / FINER)] / FINER;
    }
    const scale = sum / fine.reduce((a, b) => a + b, 0);
    const running = new Float64Array(fine.length + 1);
    for (let i = 0; i < fine.length; i++) running[i + 1] = running[i] + scale * fine[i];
    return { component, first: FINER * first, running, sum };
  };

  // The distribution of epsilon: probability at or below a value, and quantiles.
  const distribution = ({ parts, noLeak }, edgesOf) => {
    const pieces = parts.map(({ component, first, running }) => (
      { ends: edgesOf(component), first, running }));
    const below = (value) => {
      if (value < 0) return 0;
      let sum = noLeak;
      for (const { ends, first, running } of pieces) {
        let low = -1, high = running.length;  // the last edge at or below the value
        while (high - low > 1) {
          const middle = (low + high) >> 1;
          if (ends[first + middle] <= value) low = middle; else high = middle;
        }
        if (low < 0) continue;
        sum += running[low];
        if (high < running.length) {
          const start = ends[first + low], width = ends[first + high] - start;
          sum += (running[high] - running[low]) * (value - start) / width;
        }
      }
      return Math.min(1, sum);
    };
    const largest = Math.max(0, ...pieces.map(({ ends, first, running }) => (
      ends[first + running.length - 1])));
    const quantile = (probability) => {
      let low = 0, high = largest;
      if (below(0) >= probability) return 0;
      for (let i = 0; i < 50 && high - low > 1e-9 * high; i++) {
        const middle = (low + high) / 2;
        if (below(middle) < probability) low = middle; else high = middle;
      }
      return (low + high) / 2;
    };
    return { below, above: (value) => Math.max(0, 1 - below(value)), quantile, largest };
  };

  // --- the verdict ------------------------------------------------------------------------------------

  const outcomeOf = ({ pass, fail }, above) => (
    above <= pass ? "PASS" : above >= fail ? "FAIL" : "INCONCLUSIVE");

  const roundedDown = (value, digits) => (Math.floor(value * 10 ** digits) / 10 ** digits).toFixed(digits);

  const objections = (data, posterior, { claim, factor, place }, leaning, own) => {
    const found = [...data.against[leaning]];
    const proven = data.proven ? [{ values: data.proven }] : [];
    for (const { label, values } of data.bounds) {
      if (leaning === "PASS" && values[place] > claim) {
        found.push(`${label} is ${roundedDown(values[place], 2)}, above the claim`);
      }
    }
    const best = Math.max(0, ...[...proven, ...data.bounds].map(({ values }) => values[place]));
    if (best > 0 && own.below(best) > data.contradicted) {
      found.push(data.refutedPosterior);
    }
    if (found.length) return found;
    const others = HALVED_AND_DOUBLED.map((each) => [each, posterior(factor * each, place)]);
    if (data.noOtherPriors || others.some(([, other]) => other === null)) {
      return ["no other prior could be tried, so the prior may decide"];
    }
    for (const [each, other] of others) {
      const above = other.above(claim), outcome = outcomeOf(data.thresholds, above);
      if (outcome !== leaning) {
        found.push(`too little data to decide, so the prior decides: with its scale multiplied by ${each} `
          + `the verdict would be ${outcome}, epsilon above the claim with probability ${above.toPrecision(2)}`);
      }
    }
    return found;
  };

  // The one rule of judgement/verdict.py.
  const decide = (data, posterior, settings, own) => {
    const { claim, factor, place } = settings;
    const above = own.above(claim);
    const said = (outcome, grounds, reasons) => (
      { outcome, grounds, label: grounds ? `${outcome} (${grounds})` : outcome, reasons });
    if (data.proven && claim < data.proven[place]) {
      return said("FAIL", "proven", [
        `the attacks prove that epsilon is at least ${roundedDown(data.proven[place], 2)} at delta = `
        + `${data.deltas[place]}, with a probability of error of at most ${100 * data.error} %`]);
    }
    if (data.untrusted !== null) {
      return said("INCONCLUSIVE", null, [`${data.untrusted}, so the claim cannot be judged`]);
    }
    const leaning = outcomeOf(data.thresholds, above);
    if (leaning === "INCONCLUSIVE") {
      return said(leaning, null, ["the posterior lies on both sides of the claim"]);
    }
    const side = leaning === "PASS" ? "below" : "above";
    const against = objections(data, posterior, settings, leaning, own);
    if (against.length) {
      return said("INCONCLUSIVE", null,
        [`the posterior lies ${side} the claim, but that cannot be relied on`, ...against]);
    }
    const reasons = [`the posterior lies ${side} the claim, and no check contradicts it`];
    if (leaning === "PASS") {
      reasons.push("this is not a proof of privacy: stronger attacks or worse records may show more");
      if (data.caveat && place === data.own && claim > data.caveat.above) reasons.push(data.caveat.text);
    } else {
      reasons.push("no proof refutes the claim");
    }
    const before = (1 - data.noLeakPrior) * rescaledPrior(data.prior, factor).above(claim);
    if ((place === data.own || data.perDelta) && outcomeOf(data.thresholds, before) === leaning) {
      reasons.push("the prior alone would have given the same verdict");
    }
    return said(leaning, "judged", reasons);
  };

  // Everything that is shown for given settings: claim (null for none), prior scale and delta.
  const compute = (data, posterior, { claim = null, priorScale = data.scale.value, delta }) => {
    const factor = priorScale / data.scale.value;
    const place = delta === undefined ? data.own : nearest(data.deltas, delta);
    const own = posterior(factor, place);
    const found = { claim, priorScale, delta: data.deltas[place], possible: own !== null,
      provenAtLeast: data.proven ? data.proven[place] : null,
      extrapolated: data.deltas[place] < data.extrapolatedBelow };
    if (own === null) return found;
    const tail = (1 - data.level) / 2;
    Object.assign(found, { low: own.quantile(tail), median: own.quantile(0.5),
      high: own.quantile(1 - tail), quantile: own.quantile, probabilityAbove: own.above });
    if (claim === null) return found;
    return Object.assign(found, { above: own.above(claim) },
      decide(data, posterior, { claim, factor, place }, own));
  };

  // The place of the delta that is nearest on a logarithmic axis.
  const nearest = (deltas, delta) => {
    const apart = deltas.map((each) => (each === delta ? 0
      : each > 0 && delta > 0 ? Math.abs(Math.log(each / delta)) : Infinity));
    return apart.indexOf(Math.min(...apart));
  };

  return { create, erfc, curvatures, splineAt, nearest };
})();
