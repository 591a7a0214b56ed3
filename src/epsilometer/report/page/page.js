// Draws the plots of the page and saves them as files.
(() => {
  "use strict";
  const root = document.documentElement;

  // A file of its own needs the colours of the page written into it.
  const saveable = (svgs) => {
    const look = getComputedStyle(root), boxes = svgs.map((svg) => svg.viewBox.baseVal);
    const whole = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    whole.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const width = Math.max(...boxes.map((box) => box.width));
    const height = boxes.reduce((sum, box) => sum + box.height, 0);
    for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) {
      whole.setAttribute(key, value);
    }
    for (const name of root.dataset.colours.split(" ")) {
      whole.style.setProperty(`--${name}`, look.getPropertyValue(`--${name}`).trim());
    }
    whole.style.background = "var(--paper)";
    let y = 0;
    svgs.forEach((svg, i) => {
      const copy = svg.cloneNode(true);
      for (const [key, value] of Object.entries({ y, width: boxes[i].width, height: boxes[i].height })) {
        copy.setAttribute(key, value);
      }
      whole.append(copy);
      y += boxes[i].height;
    });
    return new XMLSerializer().serializeToString(whole);
  };

  const save = (figure) => {
    const text = saveable([...figure.querySelectorAll(".panel > svg")]);
    const link = document.createElement("a");
    link.download = `${figure.id.replace(/^figure-/, "")}.svg`;
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  if (!globalThis.EpsilometerPlot) return;  // the images stay
  root.classList.add("live");
  for (const div of document.querySelectorAll(".panel")) {
    EpsilometerPlot.draw(div, JSON.parse(document.getElementById(`${div.id}-data`).textContent));
    div.dataset.drawn = "yes";
  }
  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => save(button.closest("figure")));
  }
  root.dataset.ready = "yes";
})();
