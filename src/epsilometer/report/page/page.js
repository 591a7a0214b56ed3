// Draws the plots of the page.
(() => {
  "use strict";
  if (!globalThis.EpsilometerPlot) return;  // the images stay
  document.documentElement.classList.add("live");
  for (const div of document.querySelectorAll(".panel")) {
    EpsilometerPlot.draw(div, JSON.parse(document.getElementById(`${div.id}-data`).textContent));
    div.dataset.drawn = "yes";
  }
  document.documentElement.dataset.ready = "yes";
})();
