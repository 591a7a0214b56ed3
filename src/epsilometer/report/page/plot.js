// Draws plots as SVG from specifications that `figures/render_page.py` writes.
//
//   EpsilometerPlot.draw(div, spec)      draw, or draw again with another specification
//   EpsilometerPlot.spec(div)            the specification drawn last
//   EpsilometerPlot.format(value, ".3g") a number as Python's format writes it
//   EpsilometerPlot.position(div, x, y)  where a value is on the screen
//   EpsilometerPlot.words(div, mark, i)  the lines shown for value i of a mark
//
// Text is untrusted: it only ever becomes textContent.  Colours are CSS variables of the page.
globalThis.EpsilometerPlot = (() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
  const HEAT = [30, 136, 200];  // serves on a light and on a dark background
  const DASHES = { dash: "6 4", dot: "1.5 3" };
  const REACH = { mouse: 22, pen: 22, touch: 34 };  // pixels from a value that still show it
  const states = new WeakMap();

  // --- elements and text ----------------------------------------------------------------------

  const make = (name, attributes, parent) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  };

  const colour = (name) => `var(--${name})`;

  const ruler = document.createElement("canvas").getContext("2d");
  const widthOf = (text, size, weight = 400) => {
    ruler.font = `${weight} ${size}px ${FONT}`;
    return ruler.measureText(text).width;
  };

  const cut = (text, size, room, weight) => {
    if (widthOf(text, size, weight) <= room) return text;
    const letters = [...text];
    while (letters.length > 1 && widthOf(letters.join("") + "…", size, weight) > room) letters.pop();
    return letters.join("") + "…";
  };

  // Lines of a title that is too long for its axis.
  const wrapped = (text, size, room) => {
    const lines = [];
    for (const part of (text || "").split("\n")) {
      let line = "";
      for (const word of part.split(" ")) {
        const longer = line ? `${line} ${word}` : word;
        if (line && widthOf(longer, size) > room) { lines.push(line); line = word; } else line = longer;
      }
      if (line) lines.push(line);
    }
    return lines;
  };

  const write = (parent, text, x, y, more = {}) => {
    const made = make("text", { x, y, fill: colour("ink"), ...more }, parent);
    made.textContent = text;
    return made;
  };

  // A number in the style of Python's format: "", "g", ".3f", ".4g", ",", ",.0f".
  const format = (value, spec = "") => {
    if (typeof value !== "number") return String(value ?? "");
    const [, comma, digits, kind] = /^(,?)(?:\.(\d+))?([fg]?)$/.exec(spec) || [];
    let text = kind === "f" ? value.toFixed(digits ?? 6) : String(value);
    if (kind === "g") {
      const size = Math.max(1, digits ?? 6), [, power] = value.toExponential(size - 1).split("e");
      const plain = value === 0 || (power >= -4 && power < size);
      const [mantissa] = (plain ? value.toFixed(Math.max(0, size - 1 - power)) : value.toExponential(size - 1)).split("e");
      text = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
      if (!plain) text += `e${power[0]}${power.slice(1).padStart(2, "0")}`;
    }
    if (!comma) return text;
    const [whole, part] = text.split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part === undefined ? "" : `.${part}`);
  };

  // What a value says; whatever is filled in is not read as a template again.
  const say = (template, values) => template.split("\n").map((line) => line.replace(
    /\{(\w+)(?::([^{}]*))?\}/g, (_, name, spec) => format(values[name], spec)));

  // --- axes -----------------------------------------------------------------------------------

  const extent = (axis, values) => {
    if (axis.ends) return axis.ends;
    const usable = values.filter((v) => v !== null && Number.isFinite(v) && !(axis.logarithmic && v <= 0));
    const [low, high] = usable.length ? [Math.min(...usable), Math.max(...usable)] : [0, 1];
    if (axis.logarithmic) {
      const room = Math.max(Math.pow(high / low, 0.05), 1.05);
      return [low / room, high * room];
    }
    const room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
    return [axis.from_zero ? 0 : low - room, high + room];
  };

  // Every number that a mark puts on an axis.
  const valuesOn = (marks, axis) => marks.flatMap((mark) => [
    mark[axis] ?? [], mark[`${axis}_ends`] ?? [], mark.kind === "band" && axis === "y" ? [mark.high, mark.low ?? 0] : []].flat(3));

  const scale = (axis, domain, start, end) => {
    const inner = axis.logarithmic ? Math.log10 : (value) => value;
    const [low, high] = domain.map(inner);
    const at = (value) => start + ((inner(value) - low) / (high - low)) * (end - start);
    const value = (pixel) => {
      const found = low + ((pixel - start) / (end - start)) * (high - low);
      return axis.logarithmic ? 10 ** found : found;
    };
    const inside = (v) => v !== null && Number.isFinite(at(v)) &&
      at(v) > Math.min(start, end) - 3 && at(v) < Math.max(start, end) + 3;
    return { at, value, inside, domain, start, end };
  };

  const superscript = (power) => `10${[...String(power)].map(
    (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;

  const logTicks = (axis, low, high, most) => {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / most));
    const found = [];
    for (let power = last; power >= first; power -= every) {
      const plain = !axis.powers && power >= -3 && power <= 4;
      found.push({ value: 10 ** power, text: plain ? format(10 ** power, ",") : superscript(power) });
    }
    if (found.length > 2) return found;
    const finer = [];
    for (let power = first - 1; power <= last; power++) {
      for (const times of [1, 2, 5]) {
        const value = Number(`${times}e${power}`);
        if (value >= low * 0.999 && value <= high * 1.001) finer.push({ value, text: format(value, ".3g") });
      }
    }
    return finer.length > found.length && finer.length <= most ? finer : found;
  };

  const linearTicks = (axis, low, high, most) => {
    const rough = (high - low) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough * 0.85);
    if (axis.whole) step = Math.max(1, Math.round(step));
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let i = Math.ceil(low / step - 1e-6); i * step <= high + 1e-6 * step; i++) {
      found.push({ value: i * step, text: format(i * step + 0, `,.${Math.min(decimals, 12)}f`).replace(/^-(0(\.0*)?)$/, "$1") });
    }
    return found;
  };

  const ticksOf = (axis, domain, most) => {
    if (axis.names) return axis.names.map((text, value) => ({ value, text }));
    return (axis.logarithmic ? logTicks : linearTicks)(axis, Math.min(...domain), Math.max(...domain), most);
  };

  // As many ticks as have room side by side.
  const ticksAcross = (axis, domain, length, size) => {
    for (let most = Math.max(2, Math.floor(length / 46)); ; most--) {
      const ticks = ticksOf(axis, domain, most);
      const widest = Math.max(0, ...ticks.map((tick) => widthOf(tick.text, size)));
      if (most <= 1 || ticks.length * (widest + 14) <= length) return ticks;
    }
  };

  // --- marks ----------------------------------------------------------------------------------

  const path = (points, step) => {
    let text = "", gap = true;
    for (const point of points) {
      if (!point) { gap = true; continue; }
      const [x, y] = point.map((value) => value.toFixed(1));
      if (gap) text += `M${x} ${y}`;
      else if (step === "post") text += `H${x}V${y}`;
      else text += `L${x} ${y}`;
      gap = false;
    }
    return text;
  };

  const placed = (xs, ys, frame) => xs.map((x, i) => {
    if (x === null || ys[i] === null) return null;
    const point = [frame.x.at(x), frame.y.at(ys[i])];
    if (!point.every(Number.isFinite)) return null;
    return point.map((value) => Math.max(-1e4, Math.min(1e4, value)));
  });

  const SYMBOLS = {
    circle: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
    square: (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    cross: (r) => { const s = r / 3; return `M${-r} ${-s}h${r - s}v${s - r}h${2 * s}v${r - s}h${r - s}v${2 * s}h${s - r}v${r - s}h${-2 * s}v${s - r}h${s - r}z`; },
    end: (r) => `M-0.8 ${-1.3 * r}h1.6v${2.6 * r}h-1.6z`,
    arrow: (r) => `M${-0.6 * r} ${-r}L${r} 0L${-0.6 * r} ${r}z`,
  };

  const radius = (size) => Math.max(3.5, Math.min(14, 1.4 * size)) / 2;

  const stroke = (mark) => {
    const found = { stroke: colour(mark.colour || "grey"), "stroke-width": Math.max(1, 1.25 * (mark.width ?? 1.6)),
      fill: "none", "stroke-linejoin": "round" };
    if (DASHES[mark.dash]) found["stroke-dasharray"] = DASHES[mark.dash];
    if (mark.opacity !== undefined) found["stroke-opacity"] = mark.opacity;
    return found;
  };

  const fillOf = (mark, frame) => {
    const opacity = mark.opacity ?? 0.2;
    if (!mark.hatched) return { fill: colour(mark.colour), "fill-opacity": opacity };
    const id = `${frame.id}-hatch`;
    if (!frame.defs.querySelector("pattern")) {
      const made = make("pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse",
        patternTransform: "rotate(45)" }, frame.defs);
      make("line", { x1: 0, y1: 0, x2: 0, y2: 7, stroke: colour(mark.colour), "stroke-width": 2.4 }, made);
    }
    return { fill: `url(#${id})`, "fill-opacity": opacity };
  };

  const drawLine = (mark, frame, group) => {
    const points = placed(mark.x, mark.y, frame);
    make("path", { d: path(points, mark.step), ...stroke(mark) }, group);
    if (mark.marker) {
      const shape = SYMBOLS[mark.marker](2.8);
      for (const point of points) if (point) make("path", { d: shape, transform: `translate(${point})`, fill: colour(mark.colour) }, group);
    }
  };

  const drawBand = (mark, frame, group) => {
    const floor = mark.low ?? mark.x.map(() => (frame.spec.y.logarithmic ? Math.min(...frame.y.domain) : 0));
    const there = placed(mark.x, mark.high, frame).filter(Boolean);
    const back = placed(mark.x, floor, frame).filter(Boolean).reverse();
    if (there.length) make("path", { d: `${path([...there, ...back])}z`, ...fillOf(mark, frame) }, group);
  };

  const inside = (mark) => (mark.hollow ? { fill: "none", stroke: colour(mark.colour), "stroke-width": 1.5 }
    : { fill: colour(mark.colour), "fill-opacity": mark.opacity ?? 1 });

  const drawPoints = (mark, frame, group) => {
    const shape = SYMBOLS[mark.symbol || "circle"](radius(mark.size ?? 6));
    const bar = { stroke: colour(mark.colour), "stroke-width": 1.25 * (mark.bar ?? 1.2), "stroke-linecap": "butt" };
    placed(mark.x, mark.y, frame).forEach((point, i) => {
      if (!point || !frame.y.inside(mark.y[i])) return;
      if (mark.x_ends) {
        const [from, to] = mark.x_ends.map((ends) => Math.max(frame.left, Math.min(frame.right, frame.x.at(ends[i]))));
        make("line", { x1: from, x2: to, y1: point[1], y2: point[1], ...bar }, group);
      }
      if (!frame.x.inside(mark.x[i])) return;
      const look = inside(mark);
      if (mark.rim) Object.assign(look, { stroke: colour("paper"), "stroke-width": mark.rim });
      make("path", { class: "point", d: shape, transform: `translate(${point.map((v) => v.toFixed(1))})`, ...look }, group);
    });
  };

  // The place of a pixel among the cells of a heat map; a cell reaches half a step beyond its middle.
  const cellAt = (mark, frame, px, py) => {
    const along = (values, scale, pixel) => {
      const [first, last] = [values[0], values.at(-1)].map(scale.at);
      return Math.round(((pixel - first) / (last - first)) * (values.length - 1));
    };
    return mark.z[along(mark.y, frame.y, py)]?.[along(mark.x, frame.x, px)] ?? null;
  };

  // One pixel for each cell; the browser smooths between them.
  const drawHeat = (mark, frame, group) => {
    const columns = mark.x.length, rows = mark.y.length, canvas = document.createElement("canvas");
    Object.assign(canvas, { width: columns, height: rows });
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    mark.z.forEach((row, j) => row.forEach((value, i) => {
      image.data.set([...HEAT, 127 * (value ?? 0)], 4 * ((rows - 1 - j) * columns + i));
    }));
    context.putImageData(image, 0, 0);
    const [left, right] = [mark.x[0], mark.x.at(-1)].map(frame.x.at);
    const [bottom, top] = [mark.y[0], mark.y.at(-1)].map(frame.y.at);
    const [wide, high] = [(right - left) / (columns - 1) / 2, (bottom - top) / (rows - 1) / 2];
    make("image", { x: left - wide, y: top - high, width: right - left + 2 * wide, height: bottom - top + 2 * high,
      preserveAspectRatio: "none", href: canvas.toDataURL() }, group);
  };

  const drawReference = (mark, frame, group) => {
    const upright = mark.x !== undefined;
    const at = upright ? frame.x.at(mark.x) : frame.y.at(mark.y);
    if (!(upright ? frame.x.inside(mark.x) : frame.y.inside(mark.y))) return;
    const ends = upright ? { x1: at, x2: at, y1: frame.top, y2: frame.bottom }
      : { x1: frame.left, x2: frame.right, y1: at, y2: at };
    make("line", { ...ends, ...stroke({ width: 0.8, dash: "dot", ...mark }) }, group);
    if (mark.label && upright) {
      const wide = widthOf(mark.label, frame.size, 600) / 2;
      const x = Math.max(frame.left + wide, Math.min(frame.right - wide, at));
      write(group, mark.label, x, frame.top - 5, { "text-anchor": "middle", "font-weight": 600, fill: colour(mark.colour) });
    }
  };

  const drawNote = (mark, frame, group) => {
    // An outline in the colour of the paper keeps lines behind the text apart from it.
    const soft = { fill: colour("soft"), stroke: colour("paper"), "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" };
    const wide = widthOf(mark.text, frame.size);
    const x = Math.max(frame.left + 2, Math.min(frame.right - wide, frame.x.at(mark.x) - wide / 2));
    write(group, mark.text, x, frame.y.at(mark.y) - 9, soft);
  };

  const DRAW = { line: drawLine, band: drawBand, points: drawPoints, heat: drawHeat,
    reference: drawReference, note: drawNote };
  const UNCLIPPED = new Set(["points", "note", "reference"]);

  // --- legend ---------------------------------------------------------------------------------

  const entriesOf = (spec) => {
    const found = new Map();
    if (spec.legend === false) return [];
    for (const mark of spec.marks) {
      const entry = mark.label && mark.listed !== false && ["line", "band", "points"].includes(mark.kind);
      if (entry && !found.has(mark.label)) found.set(mark.label, mark);
    }
    return [...found];
  };

  // Entries one after the other, in as many lines as they need.
  const legendLines = (entries, size, room) => {
    const lines = [[]];
    let x = 0;
    for (const [label, mark] of entries) {
      const text = cut(label, size, room - 40), wide = 28 + widthOf(text, size) + 18;
      if (x > 0 && x + wide - 18 > room) { lines.push([]); x = 0; }
      lines.at(-1).push({ text, mark, x });
      x += wide;
    }
    return entries.length ? lines : [];
  };

  const drawLegend = (lines, frame, y) => {
    const group = make("g", { class: "legend" }, frame.svg);
    lines.forEach((line, row) => line.forEach(({ text, mark, x }) => {
      const left = frame.indent + x, middle = y + 18 * row;
      if (mark.kind === "line") make("line", { x1: left, x2: left + 20, y1: middle, y2: middle, ...stroke(mark) }, group);
      if (mark.kind === "band") make("rect", { x: left + 2, y: middle - 5, width: 16, height: 10, ...fillOf(mark, frame) }, group);
      if (mark.kind === "points") make("path", { d: SYMBOLS[mark.symbol || "circle"](4), transform: `translate(${left + 10} ${middle})`, ...inside(mark) }, group);
      write(group, text, left + 28, middle + 4);
    }));
  };

  // --- a whole plot ---------------------------------------------------------------------------

  // Margins follow the measured text, so that titles never run into ticks.
  const layout = (spec, width) => {
    const size = width < 460 ? 11.5 : 12.5, marks = spec.marks;
    const domains = { x: extent(spec.x, valuesOn(marks, "x")), y: extent(spec.y, valuesOn(marks, "y")) };
    let plotHeight = spec.height || (width < 460 ? 250 : 290);
    const labels = marks.some((mark) => mark.kind === "reference" && mark.label && mark.x !== undefined);
    const top = (spec.title ? 26 : 8) + (labels ? 18 : 0);
    const yTicks = ticksOf(spec.y, domains.y, Math.max(2, Math.floor(plotHeight / 38)));
    if (spec.y.names) for (const tick of yTicks) tick.text = cut(tick.text, size, 0.38 * width);
    const yTitle = wrapped(spec.y.title, size, plotHeight);
    const left = Math.max(14, Math.max(0, ...yTicks.map((tick) => widthOf(tick.text, size))) + 12) + yTitle.length * 17;
    const plotWidth = Math.max(60, Math.min(width - left - 16, spec.square ? 460 : Infinity));
    if (spec.square) plotHeight = plotWidth;
    const xTicks = ticksAcross(spec.x, domains.x, plotWidth, size);
    const xTitle = wrapped(spec.x.title, size, plotWidth + 20);
    const indent = Math.min(left, 24);
    const legend = legendLines(entriesOf(spec), size, width - indent - 8);
    const below = 26 + 17 * xTitle.length + (legend.length ? 10 + 18 * legend.length : 0) + 4;
    return { size, domains, left, top, plotWidth, plotHeight, yTicks, yTitle, xTicks, xTitle,
      indent, legend, height: top + plotHeight + below };
  };

  const drawAxes = (spec, frame, plan) => {
    const { svg, left, right, top, bottom } = frame, grid = make("g", { class: "grid" }, svg);
    const line = (ends, parent = grid) => make("line", { ...ends, stroke: colour("line"), "stroke-width": 1 }, parent);
    const xAxis = make("g", { class: "x-axis" }, svg), yAxis = make("g", { class: "y-axis" }, svg);
    for (const tick of plan.xTicks) {
      const x = frame.x.at(tick.value);
      if (!frame.x.inside(tick.value)) continue;
      line({ x1: x, x2: x, y1: top, y2: bottom + 4 });
      write(xAxis, tick.text, x, bottom + 19, { class: "tick", "text-anchor": "middle", fill: colour("soft") });
    }
    for (const tick of plan.yTicks) {
      const y = frame.y.at(tick.value);
      if (!frame.y.inside(tick.value)) continue;
      line({ x1: left - 4, x2: right, y1: y, y2: y });
      write(yAxis, tick.text, left - 8, y + 4, { class: "tick", "text-anchor": "end", fill: colour(spec.y.names ? "ink" : "soft") });
    }
    plan.xTitle.forEach((text, i) => write(xAxis, text, (left + right) / 2, bottom + 39 + 17 * i, { class: "title", "text-anchor": "middle" }));
    plan.yTitle.forEach((text, i) => {
      const x = 13 + 17 * i, y = (top + bottom) / 2;
      write(yAxis, text, x, y, { class: "title", "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})` });
    });
  };

  const render = (div, state) => {
    const { spec } = state, width = state.width, plan = layout(spec, width);
    const svg = make("svg", { viewBox: `0 0 ${width} ${plan.height}`, width: "100%", role: "img",
      "aria-label": div.dataset.title || spec.title || "", "font-family": FONT, "font-size": plan.size });
    const right = plan.left + plan.plotWidth, bottom = plan.top + plan.plotHeight;
    const defs = make("defs", {}, svg);
    const frame = { id: div.id, spec, svg, defs, ...plan, right, bottom, width,
      x: scale(spec.x, plan.domains.x, plan.left, right), y: scale(spec.y, plan.domains.y, bottom, plan.top) };
    const clip = make("clipPath", { id: `${div.id}-clip` }, defs);
    make("rect", { x: frame.left, y: frame.top, width: plan.plotWidth, height: plan.plotHeight }, clip);
    if (spec.title) {
      write(svg, cut(spec.title, plan.size + 0.5, width - 8, 600), (plan.left + right) / 2, 15,
        { class: "heading", "text-anchor": "middle", "font-weight": 600 });
    }
    drawAxes(spec, frame, plan);
    // Notes in front of everything else.
    const front = (mark) => Number(mark.kind === "note");
    for (const mark of [...spec.marks].sort((one, other) => front(one) - front(other))) {
      const group = make("g", { class: mark.kind, "data-mark": spec.marks.indexOf(mark) }, svg);
      if (!UNCLIPPED.has(mark.kind)) group.setAttribute("clip-path", `url(#${div.id}-clip)`);
      DRAW[mark.kind](mark, frame, group);
    }
    drawLegend(plan.legend, frame, bottom + 26 + 17 * plan.xTitle.length + 14);
    frame.ring = make("circle", { class: "ring", r: 7, fill: "none", stroke: colour("ink"), "stroke-width": 1.5, visibility: "hidden" }, svg);
    if (state.svg) state.svg.replaceWith(svg); else div.prepend(svg);
    Object.assign(state, { frame, svg, targets: null });
    hide(state);
  };

  // --- values under the mouse, the finger or the arrow keys -----------------------------------

  const targetsOf = (state) => {
    if (state.targets) return state.targets;
    const { spec, frame } = state;
    state.targets = spec.marks.filter((mark) => mark.hover && (mark.kind === "line" || mark.kind === "points")).map((mark) => ({
      mark,
      found: placed(mark.x, mark.y, frame).flatMap((point, i) => (
        point && frame.x.inside(mark.x[i]) && frame.y.inside(mark.y[i]) ? [{ mark, i, point }] : [])),
    })).filter((each) => each.found.length);
    return state.targets;
  };

  const wordsOf = ({ mark, i }) => say(
    mark.hover, { ...(mark.rows?.[i] ?? []), x: mark.x[i], y: mark.y[i], label: mark.label || "" });

  const nearest = (state, px, py, reach) => {
    let best = null, least = reach;
    for (const { mark, found } of targetsOf(state)) {
      for (const target of found) {
        // Points lie on top of lines and come first.
        const away = Math.hypot(target.point[0] - px, target.point[1] - py) + (mark.kind === "line" ? 4 : 0);
        if (away < least) { best = target; least = away; }
      }
    }
    return best;
  };

  const shadeAt = (state, px, py) => {
    const { spec, frame } = state, mark = spec.marks.find((each) => each.kind === "heat");
    if (!mark || px < frame.left || px > frame.right || py < frame.top || py > frame.bottom) return null;
    const z = cellAt(mark, frame, px, py);
    return z === null ? null : say(mark.hover, { x: frame.x.value(px), y: frame.y.value(py), z });
  };

  const hide = (state) => {
    state.tip.hidden = true;
    state.current = null;
    if (state.frame) state.frame.ring.setAttribute("visibility", "hidden");
  };

  const show = (state, lines, px, py, target) => {
    const { tip, frame, svg } = state;
    tip.replaceChildren(...lines.map((text, i) => {
      const className = i === 0 && lines.length > 1 ? "first" : "";
      return Object.assign(document.createElement("div"), { textContent: text, className });
    }));
    tip.hidden = false;
    const ratio = svg.getBoundingClientRect().width / frame.width || 1;
    const x = px * ratio + 12, y = py * ratio, room = svg.parentNode.clientWidth;
    tip.style.left = `${Math.max(0, x + tip.offsetWidth > room ? Math.max(0, Math.min(room - tip.offsetWidth, x - tip.offsetWidth - 24)) : x)}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight - 10)}px`;
    frame.ring.setAttribute("visibility", target ? "visible" : "hidden");
    if (target) { frame.ring.setAttribute("cx", target.point[0]); frame.ring.setAttribute("cy", target.point[1]); }
    state.current = target;
  };

  const follow = (state, event) => {
    const box = state.svg.getBoundingClientRect(), ratio = state.frame.width / box.width;
    const px = (event.clientX - box.left) * ratio, py = (event.clientY - box.top) * ratio;
    const target = nearest(state, px, py, (REACH[event.pointerType] || REACH.mouse));
    if (target) { show(state, wordsOf(target), ...target.point, target); return; }
    const lines = shadeAt(state, px, py);
    if (lines) show(state, lines, px, py, null); else hide(state);
  };

  // Left and right go along a mark, up and down to another one.
  const onKey = (state, event) => {
    const all = targetsOf(state);
    if (event.key === "Escape") { hide(state); return; }
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      Home: [0, -Infinity], End: [0, Infinity] };
    const move = moves[event.key];
    if (!move || !all.length) return;
    event.preventDefault();
    let row = 0, place = 0;
    if (state.current) {
      row = all.findIndex((each) => each.mark === state.current.mark);
      place = all[row].found.findIndex((each) => each.i === state.current.i);
      if (move[0]) {
        row = (row + move[0] + all.length) % all.length;
        const x = state.current.point[0], away = all[row].found.map((each) => Math.abs(each.point[0] - x));
        place = away.indexOf(Math.min(...away));
      } else {
        place = Math.max(0, Math.min(all[row].found.length - 1, place + move[1]));
      }
    }
    const target = all[row].found[place];
    show(state, wordsOf(target), ...target.point, target);
  };

  const listen = (div, state) => {
    div.addEventListener("pointermove", (event) => { if (event.pointerType !== "touch") follow(state, event); });
    div.addEventListener("pointerdown", (event) => follow(state, event));
    div.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(state); });
    div.addEventListener("keydown", (event) => onKey(state, event));
    div.addEventListener("blur", () => hide(state));
    document.addEventListener("pointerdown", (event) => { if (!div.contains(event.target)) hide(state); });
    new ResizeObserver(() => {
      const width = Math.round(div.clientWidth);
      if (width && width !== state.width) { state.width = width; render(div, state); }
    }).observe(div);
  };

  const draw = (div, spec) => {
    let state = states.get(div);
    if (!state) {
      const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
      tip.setAttribute("role", "status");
      div.append(tip);
      state = { tip, width: 0, frame: null, svg: null };
      states.set(div, state);
      listen(div, state);
    }
    state.spec = spec;
    state.width = Math.round(div.clientWidth) || state.width || 640;
    if (spec.marks.some((mark) => mark.hover)) div.tabIndex = 0; else div.removeAttribute("tabindex");
    render(div, state);
  };

  const position = (div, x, y) => {
    const { frame, svg } = states.get(div), box = svg.getBoundingClientRect(), ratio = box.width / frame.width;
    return [box.left + ratio * frame.x.at(x), box.top + ratio * frame.y.at(y)];
  };

  const words = (div, mark, i) => wordsOf({ mark: states.get(div).spec.marks[mark], i });

  return { draw, format, position, words, spec: (div) => states.get(div)?.spec };
})();
