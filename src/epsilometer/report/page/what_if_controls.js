// The sliders of the what-if section: reads settings, shows the recomputed verdict and figures.
(() => {
  "use strict";
  const source = document.getElementById("what-if-data");
  if (!source || !globalThis.EpsilometerPlot) return;
  const data = JSON.parse(source.textContent);
  const model = EpsilometerWhatIf.create(data);
  EpsilometerWhatIf.compute = model.compute;

  const QUIET = 400;  // milliseconds without a change before the verdict is read aloud
  const PRIOR_STEPS = 60, CURVE_POINTS = 160;
  const { original, scale, deltas } = data;
  const own = { claim: original.claim, priorScale: scale.value, place: data.own };
  const state = { ...own };
  const part = (name) => document.getElementById(`what-if-${name}`);
  const PERCENT = "\u00a0%";  // does not break across lines
  const shown = (value) => EpsilometerPlot.format(value, ".3g");
  const plain = (value) => String(Number(value.toPrecision(4)));
  const written = (value) => (value > 0 && value < 1e-3 ? value.toExponential() : String(value));

  // --- settings ---------------------------------------------------------------------------------------

  const proven = data.proven ? Math.max(...data.proven) : 0;
  const wanted = Math.max(2 * (original.claim ?? 0), 1.6 * (original.high ?? 0), 1.5 * proven, 1);
  const unit = 10 ** Math.floor(Math.log10(wanted / 100));
  const longest = Math.ceil(wanted / (10 * unit)) * 10 * unit;

  const [smallest, largest] = scale.factors;
  const factorAt = (i) => (i < 0 ? smallest ** (-i / PRIOR_STEPS) : largest ** (i / PRIOR_STEPS));
  const stepOf = (priorScale) => {
    const log = Math.log(priorScale / scale.value);
    if (log === 0) return 0;
    return Math.round(PRIOR_STEPS * (log < 0 ? -log / Math.log(smallest) : log / Math.log(largest)));
  };
  const between = (value, low, high) => Math.max(low, Math.min(high, value));

  const setUp = () => {
    Object.assign(part("claim"), { min: 0, max: longest, step: unit });
    Object.assign(part("prior"), { min: -PRIOR_STEPS, max: largest > 1 ? PRIOR_STEPS : 0, step: 1 });
    Object.assign(part("delta"), { min: 0, max: deltas.length - 1, step: 1 });
    part("delta").disabled = part("delta-number").disabled = deltas.length === 1;
    part("prior-number").min = smallest * scale.value;
    part("prior-number").max = largest * scale.value;
  };

  // Puts the settings into sliders and number fields, except the field that is being typed into.
  const showSettings = (typed) => {
    const put = (name, value) => { if (part(name) !== typed) part(name).value = value; };
    put("claim", state.claim ?? 0);
    put("claim-number", state.claim === null ? "" : plain(state.claim));
    part("claim").classList.toggle("unset", state.claim === null);
    put("prior", stepOf(state.priorScale));
    put("prior-number", plain(state.priorScale));
    put("delta", state.place);
    put("delta-number", written(deltas[state.place]));
    part("claim").setAttribute("aria-valuetext", state.claim === null ? "no claim" : plain(state.claim));
    part("prior").setAttribute("aria-valuetext", plain(state.priorScale));
    part("delta").setAttribute("aria-valuetext", shown(deltas[state.place]));
    part("reset").disabled = unchanged();
  };

  const unchanged = () => Object.keys(own).every((key) => state[key] === own[key]);

  const READ = {
    // The slider stops at the original claim, wherever that is between its steps.
    "claim": (value) => {
      const near = own.claim !== null && Math.abs(value - own.claim) < unit / 2;
      state.claim = near ? own.claim : Number(value.toPrecision(12));
    },
    // The field shows rounded numbers; the original claim stays exact.
    "claim-number": (value) => {
      const near = own.claim !== null && value === Number(plain(own.claim));
      state.claim = !near && Number.isFinite(value) && value >= 0 ? value : own.claim;
    },
    "prior": (value) => { state.priorScale = value === 0 ? scale.value : scale.value * factorAt(value); },
    "prior-number": (value) => {
      if (!(value > 0)) return;
      const near = plain(value) === plain(scale.value);
      state.priorScale = near ? scale.value : between(value, smallest * scale.value, largest * scale.value);
    },
    "delta": (value) => { state.place = value; },
    "delta-number": (value) => { if (value >= 0 && value < 1) state.place = EpsilometerWhatIf.nearest(deltas, value); },
  };

  // --- the answer -------------------------------------------------------------------------------------

  const settings = (place = state.place) => (
    { claim: state.claim, priorScale: state.priorScale, delta: deltas[place] });

  const headline = (found) => {
    const at = `at delta = ${shown(found.delta)}`;
    if (!found.possible) return `No epsilon ${at} is possible under this prior.`;
    const level = `${EpsilometerPlot.format(100 * data.level, ".3g")}${PERCENT}`;
    let text = `Epsilon ${at}: median ${shown(found.median)}, ${level} interval ${shown(found.low)} to `
      + `${shown(found.high)}.`;
    if (found.claim !== null) {
      text += ` It exceeds the claim of ${plain(found.claim)} with probability ${probability(found.above)}.`;
    }
    if (found.provenAtLeast > 0) text += ` Proven: at least ${down(found.provenAtLeast)}.`;
    if (found.extrapolated) text += " Extrapolated: no scores reach the error rates that decide epsilon at this delta.";
    return text;
  };

  const probability = (value) => (value < 1e-4 ? "below 0.0001" : value > 0.9999 ? "above 0.9999" : shown(value));
  const down = (value) => (Math.floor(100 * value) / 100).toFixed(2);

  const showAnswer = (found) => {
    const same = unchanged();
    const label = (same ? original.label : found.label) ?? "ESTIMATE";
    const reasons = same ? original.reasons : found.reasons ?? [];
    part("source").textContent = same ? "As estimated; nothing was changed." : "Recomputed in this page.";
    part("label").textContent = label;
    part("headline").textContent = headline(same ? { ...found, ...numbersOf(original) } : found);
    part("reasons").replaceChildren(...reasons.map((text) => {
      const item = document.createElement("li");
      item.textContent = `${text[0].toUpperCase()}${text.slice(1)}.`.replace(/(\d) %/g, `$1${PERCENT}`);
      return item;
    }));
    part("answer").className = `verdict ${label.split(" ")[0]}`;
    part("answer").dataset.changed = same ? "no" : "yes";
  };

  const numbersOf = ({ low, median, high }) => (high === null ? {} : { low, median, high });

  let waiting = null;
  const readAloud = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      part("live").textContent = `${part("label").textContent}. ${part("headline").textContent}`;
    }, QUIET);
  };

  // --- figures ----------------------------------------------------------------------------------------

  const grid = (end) => Array.from({ length: CURVE_POINTS + 1 }, (_, i) => (i * end) / CURVE_POINTS);
  const wasEstimated = model.compute({ claim: null });

  const exceedance = (found, end, colour, label, more) => {
    const x = grid(end);
    return { kind: "line", x, y: x.map(found.probabilityAbove), colour, label, ...more,
      hover: `${label}\nepsilon {x:.3g}: exceeded with probability {y:.3g}` };
  };

  const upright = (x, end, colour, label) => (
    { kind: "line", x: [x, x], y: [0, end], colour, label, dash: "dot", width: 1.2 });

  const drawPosterior = (found) => {
    const sides = [found, wasEstimated].filter((each) => each.possible);
    const end = 1.25 * Math.max(...sides.map((each) => each.quantile(0.98)), state.claim ?? 0,
      found.provenAtLeast ?? 0, 0.1);
    const marks = [];
    if (!unchanged()) marks.push(exceedance(wasEstimated, end, "grey", "as estimated", { dash: "dash" }));
    if (found.possible) marks.push(exceedance(found, end, "blue", "at these settings", { width: 2 }));
    if (found.provenAtLeast > 0) marks.push(upright(found.provenAtLeast, 1, "purple", "proven at least"));
    if (state.claim !== null) {
      marks.push({ kind: "reference", x: state.claim, colour: "orange", width: 1.6, dash: "solid",
        label: `claim ${plain(state.claim)}` });
    }
    EpsilometerPlot.draw(part("posterior"), { marks, legend: true, square: false,
      x: { title: `epsilon at delta = ${shown(found.delta)}`, ends: [0, end] },
      y: { title: "probability that epsilon is larger", ends: [0, 1] } });
  };

  const drawnPlaces = deltas.map((_, place) => place).filter((place) => deltas[place] > 0);
  const curves = new Map();
  const curveAt = (priorScale) => {
    if (!curves.has(priorScale)) {
      if (curves.size > 30) curves.clear();
      curves.set(priorScale, drawnPlaces.map((place) => model.compute({ priorScale, delta: deltas[place] })));
    }
    return curves.get(priorScale);
  };

  const drawCurve = (found) => {
    const now = curveAt(state.priorScale).filter((each) => each.possible), before = curveAt(scale.value);
    if (before.length < 2) { part("curve").hidden = true; return; }
    const take = (rows, name) => rows.map((each) => each[name]);
    const x = take(now, "delta"), top = Math.max(...take(now, "high"), ...take(before, "high"), 0.1);
    const high = 1.1 * (state.claim !== null && state.claim < 2 * top ? Math.max(top, state.claim) : top);
    const rows = now.map((each) => [each.low, each.high]);
    const level = EpsilometerPlot.format(100 * data.level, ".3g");
    const marks = [
      { kind: "band", x, low: take(now, "low"), high: take(now, "high"), colour: "blue", opacity: 0.25,
        label: `${level} % interval` },
      { kind: "line", x, y: take(now, "median"), colour: "blue", label: "median", rows, marker: "circle",
        hover: "delta {x:.3g}: median {y:.3g}\ninterval {0:.3g} to {1:.3g}" },
    ];
    if (state.priorScale !== scale.value) {
      for (const name of ["low", "median", "high"]) {
        marks.push({ kind: "line", x: take(before, "delta"), y: take(before, name), colour: "grey", dash: "dash",
          width: 1, label: "as estimated" });
      }
    }
    if (data.proven) {
      marks.push({ kind: "line", x: drawnPlaces.map((place) => deltas[place]),
        y: drawnPlaces.map((place) => data.proven[place]), colour: "purple", label: "proven at least",
        hover: "delta {x:.3g}: proven at least {y:.3g}" });
    }
    if (state.claim !== null) marks.push({ kind: "reference", y: state.claim, colour: "orange", width: 1.6, dash: "solid" });
    if (found.delta > 0) marks.push(upright(found.delta, high, "green", `delta = ${shown(found.delta)}`));
    EpsilometerPlot.draw(part("curve"), { marks, legend: true, square: false,
      x: { title: "delta", logarithmic: true, powers: true,
        ends: [0.7 * before[0].delta, Math.min(1, 1.4 * before.at(-1).delta)] },
      y: { title: "epsilon", ends: [0, high] } });
  };

  // --- running ----------------------------------------------------------------------------------------

  let planned = false;
  const update = () => {
    planned = false;
    const found = model.compute(settings());
    showAnswer(found);
    drawPosterior(found);
    drawCurve(found);
    readAloud();
  };

  const changed = (typed) => {
    showSettings(typed);
    if (!planned) requestAnimationFrame(update);
    planned = true;
  };

  setUp();
  for (const [name, read] of Object.entries(READ)) {
    const field = part(name), typed = field.type === "number" ? field : null;
    field.addEventListener("input", () => { read(field.valueAsNumber); changed(typed); });
    // When typing is over, the field shows what was made of it.
    field.addEventListener("change", () => changed(null));
  }
  part("reset").addEventListener("click", () => { Object.assign(state, own); changed(null); });
  showSettings(null);
  update();
  EpsilometerWhatIf.settings = settings;
  document.documentElement.dataset.whatIf = "ready";
})();
