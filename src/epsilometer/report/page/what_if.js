// The sliders of the what-if section: looks up what `judgement/what_if.py` has tabulated, and shows it.
(() => {
  "use strict";
  const source = document.getElementById("what-if-data");
  if (!source || !globalThis.EpsilometerPlot) return;
  const data = JSON.parse(source.textContent);
  const { claims, deltas, priors, own } = data;
  const QUIET = 400;  // milliseconds without a change before the verdict is read aloud
  const state = { ...own };  // places in the tables; the claim is null if there is none
  const part = (name) => document.getElementById(`what-if-${name}`);
  const unbroken = (text) => text.replace(/(\d) %/g, "$1\u00a0%");
  const shown = (value) => EpsilometerPlot.format(value, ".4g");
  const unchanged = () => Object.keys(own).every((key) => state[key] === own[key]);
  const cellAt = (delta, prior = state.prior) => data.cells[prior][delta];

  const nearest = (values, value) => values.reduce(
    (best, each, i) => (Math.abs(each - value) < Math.abs(values[best] - value) ? i : best), 0);

  // --- settings -------------------------------------------------------------------------------

  const SLIDERS = { claim: claims, prior: priors, delta: deltas };

  // Puts the settings into the fields, except the one that is being typed into.
  const showSettings = (typed) => {
    for (const [name, values] of Object.entries(SLIDERS)) {
      const text = state[name] === null ? "none" : shown(values[state[name]]);
      part(name).value = state[name] ?? 0;
      part(name).setAttribute("aria-valuetext", text);
      if (name !== "claim") part(`${name}-text`).textContent = text;
    }
    part("claim").classList.toggle("unset", state.claim === null);
    if (!typed) part("claim-number").value = state.claim === null ? "" : shown(claims[state.claim]);
    part("reset").disabled = unchanged();
  };

  // --- the answer -----------------------------------------------------------------------------

  const probability = (value) => (
    value < 1e-4 ? "below 0.0001" : value > 0.9999 ? "above 0.9999" : EpsilometerPlot.format(value, ".3g"));

  // The sentences and the label of the verdict at the settings, as they were given.
  const answer = () => {
    const cell = cellAt(state.delta);
    if (!cell) return { label: "ESTIMATE", headline: "No epsilon is possible under this prior.", reasons: [] };
    if (state.claim === null) return { label: "ESTIMATE", headline: cell.headline, reasons: [] };
    const [label, ...places] = data.verdicts[cell.verdicts[state.claim]];
    const reasons = places.map((place) => data.sentences[place]);
    const exceeded = `It exceeds the claim of ${shown(claims[state.claim])} with probability ${
      probability(cell.above[state.claim])}.`;
    const said = unchanged() ? { label: data.label, reasons: data.reasons } : { label, reasons };
    return { ...said, headline: `${cell.headline} ${exceeded}` };
  };

  const showAnswer = () => {
    const { label, headline, reasons } = answer();
    part("source").textContent = unchanged() ? "As estimated; nothing was changed." : "With other settings.";
    part("label").textContent = label;
    part("headline").textContent = unbroken(headline);
    part("reasons").replaceChildren(...reasons.map((text) => {
      const textContent = unbroken(`${text[0].toUpperCase()}${text.slice(1)}.`);
      return Object.assign(document.createElement("li"), { textContent });
    }));
    part("answer").className = `verdict ${label.split(" ")[0]}`;
    part("answer").dataset.changed = unchanged() ? "no" : "yes";
  };

  let waiting = null;
  const readAloud = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      part("live").textContent = `${part("label").textContent}. ${part("headline").textContent}`;
    }, QUIET);
  };

  // --- figures --------------------------------------------------------------------------------

  const exceedance = (cell, colour, label, more) => ({ kind: "line", x: claims, y: cell.above, colour, label, ...more,
    hover: `${label}\nepsilon {x:.3g}: exceeded with probability {y:.3g}` });
  const upright = (x, end, colour, label) => (
    { kind: "line", x: [x, x], y: [0, end], colour, label, dash: "dot", width: 1.2 });

  const drawPosterior = () => {
    const cell = cellAt(state.delta), marks = [];
    if (!unchanged()) marks.push(exceedance(cellAt(own.delta, own.prior), "grey", "as estimated", { dash: "dash" }));
    if (cell) marks.push(exceedance(cell, "blue", "at these settings", { width: 2 }));
    if (cell?.proven > 0) marks.push(upright(cell.proven, 1, "purple", "proven at least"));
    if (state.claim !== null) {
      marks.push({ kind: "reference", x: claims[state.claim], colour: "orange", width: 1.6, dash: "solid",
        label: `claim ${shown(claims[state.claim])}` });
    }
    EpsilometerPlot.draw(part("posterior"), { marks, legend: true,
      x: { title: `epsilon at delta = ${shown(deltas[state.delta])}`, ends: [0, claims.at(-1)] },
      y: { title: "probability that epsilon is larger", ends: [0, 1] } });
  };

  const drawCurve = () => {
    const rows = deltas.map((delta, i) => ({ delta, cell: cellAt(i) }))
      .filter(({ delta, cell }) => delta > 0 && cell && cell.ends[2] !== null);
    part("curve").hidden = rows.length < 2;
    if (rows.length < 2) return;
    const take = (place) => rows.map(({ cell }) => cell.ends[place]);
    const x = rows.map(({ delta }) => delta), claim = state.claim === null ? null : claims[state.claim];
    const top = Math.max(...take(2), 0.1);
    const high = 1.1 * (claim !== null && claim < 2 * top ? Math.max(top, claim) : top);
    const marks = [
      { kind: "band", x, low: take(0), high: take(2), colour: "blue", opacity: 0.25, label: `${data.level} interval` },
      { kind: "line", x, y: take(1), colour: "blue", label: "median", rows: rows.map(({ cell }) => cell.ends),
        marker: "circle", hover: "delta {x:.3g}: median {y:.3g}\ninterval {0:.3g} to {2:.3g}" },
    ];
    if (rows.some(({ cell }) => cell.proven > 0)) {
      marks.push({ kind: "line", x, y: rows.map(({ cell }) => cell.proven), colour: "purple", label: "proven at least",
        hover: "delta {x:.3g}: proven at least {y:.3g}" });
    }
    if (claim !== null) marks.push({ kind: "reference", y: claim, colour: "orange", width: 1.6, dash: "solid" });
    if (deltas[state.delta] > 0) marks.push(upright(deltas[state.delta], high, "green", `delta = ${shown(deltas[state.delta])}`));
    EpsilometerPlot.draw(part("curve"), { marks, legend: true,
      x: { title: "delta", logarithmic: true, powers: true,
        ends: [0.7 * x[0], Math.min(1, 1.4 * x.at(-1))] },
      y: { title: "epsilon", ends: [0, high] } });
  };

  // --- running --------------------------------------------------------------------------------

  const changed = (typed = false) => {
    showSettings(typed);
    showAnswer();
    drawPosterior();
    drawCurve();
    readAloud();
  };

  for (const [name, values] of Object.entries(SLIDERS)) {
    Object.assign(part(name), { min: 0, max: values.length - 1, step: 1, disabled: values.length === 1 });
    part(name).addEventListener("input", () => { state[name] = part(name).valueAsNumber; changed(); });
  }
  const typed = part("claim-number");
  typed.addEventListener("input", () => {
    state.claim = Number.isFinite(typed.valueAsNumber) ? nearest(claims, typed.valueAsNumber) : own.claim;
    changed(true);
  });
  // When typing is over, the field shows the claim that was found.
  typed.addEventListener("change", () => changed());
  part("reset").addEventListener("click", () => { Object.assign(state, own); changed(); });
  changed();
  document.documentElement.dataset.whatIf = "ready";
})();
