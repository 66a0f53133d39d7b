"use strict";
// Figures name colours as var(--x); their values are put in here, again when light and dark change.
const text = document.getElementById("figures").textContent;
function draw() {
  const style = getComputedStyle(document.documentElement);
  const figures = JSON.parse(text.replace(/var\((--[a-z-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
  for (const [id, figure] of Object.entries(figures)) {
    Plotly.react(id, figure.data, figure.layout, { responsive: true, displayModeBar: false });
  }
}
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
