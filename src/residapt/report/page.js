"use strict";
// Draws the charts of the page in the colours of the reader's theme, folds long sections on narrow screens, and makes
// the copy buttons work.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Strings such as "--source" stand for CSS variables of the page.
  function resolve(value, style) {
    if (typeof value === "string") return value.startsWith("--") ? style.getPropertyValue(value).trim() || value : value;
    if (Array.isArray(value)) return value.map((one) => resolve(one, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolve(one, style)]));
    }
    return value;
  }

  const COLOURS = new Set(["color", "line", "marker", "bgcolor", "bordercolor", "font", "colorscale"]);

  // Only what can hold a colour is looked at: a layer may be called "--x".
  function paint(item, style) {
    const result = { ...item };
    for (const key of Object.keys(result)) if (COLOURS.has(key)) result[key] = resolve(result[key], style);
    return result;
  }

  function axis(own, style) {
    const grid = style.getPropertyValue("--grid").trim();
    // An empty title would still take its room.
    const title = own.title && own.title.text ? { ...own.title, standoff: 8 } : undefined;
    const lines = { gridcolor: grid, linecolor: grid, zerolinecolor: grid };
    return { ...lines, automargin: true, fixedrange: true, minexponent: 5, ...own, title };
  }

  function layout(own, style, width) {
    const text = style.getPropertyValue("--muted").trim();
    const family = style.getPropertyValue("font-family");
    const titled = own.xaxis && own.xaxis.title && own.xaxis.title.text;
    return {
      margin: { l: 46, r: 10, t: 8, b: titled ? 40 : 24 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: family, size: 12, color: text },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", font: { size: 12 } },
      hoverlabel: {
        bgcolor: style.getPropertyValue("--surface").trim(),
        bordercolor: style.getPropertyValue("--line").trim(),
        font: { color: style.getPropertyValue("--text").trim(), family: family },
      },
      ...own,
      width: width,
      shapes: (own.shapes || []).map((shape) => paint(shape, style)),
      xaxis: axis(own.xaxis || {}, style),
      yaxis: axis(own.yaxis || {}, style),
    };
  }

  const charts = Array.from(document.querySelectorAll("script.chart-data")).map((script) => ({
    place: script.previousElementSibling,
    spec: JSON.parse(script.textContent),
  }));

  function draw() {
    const style = getComputedStyle(document.body);
    for (const chart of charts) {
      if (chart.place.closest("details:not([open])")) continue; // drawn when it is opened
      const traces = chart.spec.data.map((trace) => paint(trace, style));
      Plotly.react(chart.place, traces, layout(chart.spec.layout, style, chart.place.clientWidth), { displayModeBar: false });
    }
  }

  const folding = document.querySelectorAll("details.folds");

  function open(anchor) {
    const section = anchor.length > 1 && document.getElementById(anchor.slice(1));
    if (section) for (const part of section.querySelectorAll(":scope > details")) part.open = true;
  }

  if (window.matchMedia("(max-width: 600px)").matches) for (const part of folding) part.open = false;
  open(location.hash);
  window.addEventListener("hashchange", () => open(location.hash));
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", () => open(link.getAttribute("href")));
  }

  if (charts.length) {
    draw();
    document.addEventListener("toggle", draw, true);
    dark.addEventListener("change", draw);
    let waiting = 0;
    window.addEventListener("resize", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(draw);
    });
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A page opened from a file may not use the clipboard; the old way still works there.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  window.addEventListener("beforeprint", () => folding.forEach((part) => (part.open = true)));

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      await copy(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  }
})();
