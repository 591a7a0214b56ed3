// Draws the plots whose numbers are in the page.  Text in them was escaped when the page was made.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const COLOURED = new Set(["color", "fillcolor", "bgcolor"]);
  const named = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  // Only where a colour is meant: a base may well be called @blue.
  const themed = (value, key) => {
    if (Array.isArray(value)) return key === "customdata" ? value : value.map((v) => themed(v, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, k)]));
    }
    return typeof value === "string" && value[0] === "@" && COLOURED.has(key)
      ? named(value.slice(1)) : value;
  };

  const axis = (own) => Object.assign(
    { gridcolor: named("line"), zerolinecolor: named("line"), linecolor: named("line"),
      ticks: "outside", tickcolor: named("line"), fixedrange: touch },
    themed(own || {}),
    { title: Object.assign({ standoff: 8 }, (own || {}).title) });

  const layoutOf = (spec, div) => {
    const own = themed(spec.layout);
    const narrow = div.clientWidth < 460;
    return Object.assign({}, own, {
      xaxis: axis(spec.layout.xaxis), yaxis: axis(spec.layout.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif",
              size: narrow ? 11.5 : 12.5, color: named("ink") },
      title: Object.assign({ x: 0.5, font: { size: 13.5 } }, own.title),
      margin: { l: narrow ? 48 : 60, r: 14, t: own.title ? 40 : 16, b: 48 },
      legend: { orientation: "h", x: 0, y: -0.2, yanchor: "top", bgcolor: "rgba(0,0,0,0)" },
      hoverlabel: { bgcolor: named("ground"), bordercolor: named("soft"),
                    font: { color: named("ink") }, align: "left" },
      dragmode: touch ? false : "zoom",
      autosize: true,
    });
  };

  const config = (name) => ({
    displaylogo: false, responsive: true, displayModeBar: touch ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg", filename: name },
  });

  const specs = new Map();
  const draw = (div) => {
    const spec = specs.get(div);
    if (spec.layout.height) div.style.height = spec.layout.height + "px";
    return Plotly.react(div, themed(spec.data), layoutOf(spec, div), config(div.id));
  };

  const start = async () => {
    if (typeof Plotly === "undefined") return;
    root.classList.add("live");
    // Before the first plot: the scheme may change while the others are drawn.
    dark.addEventListener("change", () => { for (const div of specs.keys()) draw(div); });
    for (const div of document.querySelectorAll(".panel")) {
      specs.set(div, JSON.parse(document.getElementById(div.id + "-data").textContent));
      await draw(div);
      div.dataset.drawn = "yes";
      // Give the browser its turn, so that the page can be read while it draws.
      await new Promise((resolve) => setTimeout(resolve));
    }
    root.dataset.ready = "yes";
  };
  start();
})();
