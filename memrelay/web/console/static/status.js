// Records the figures of the pipelines in the table while the page is open, and draws them as charts of 10 minutes.
"use strict";

(() => {
  const SPAN_MS = 600_000, MAX_POINTS = 400, STEP_MS = SPAN_MS / MAX_POINTS, GAP_MS = 4 * STEP_MS, MAX_CHARTS = 20;
  const WIDTH = 600, HEIGHT = 60, SVG = "http://www.w3.org/2000/svg";
  const section = document.getElementById("charts"), list = section.querySelector(".charts");
  const faultLine = document.getElementById("refresh-fault"), cards = new Map();   // uid -> {node, charts}

  function makeChart(title, format) {
    const node = section.querySelector("template").content.firstElementChild.cloneNode(true);
    const [svg, now, most, label] = ["svg", "b", ".most", ".label"].map((one) => node.querySelector(one));
    label.textContent = title;
    return { node, svg, now, most, title, format, points: [] };
  }

  function makeCard(row) {
    const charts = { waiting: makeChart("Waiting", (value) => value.toLocaleString("en-US")),
      rate: makeChart("Rate", (value) => `${value.toLocaleString("en-US", { maximumFractionDigits: 1 })}/s`) };
    const title = dom.make("h3", dom.make("bdi", row.dataset.name));
    const node = dom.make("article", [title, charts.waiting.node, charts.rate.node], "chart-card");
    list.append(node);
    return { node, charts };
  }

  function draw({ svg, now, most, title, format, points }, at) {
    const top = Math.max(...points.map(([, value]) => value)), lines = [];
    points.forEach(([time, value], index) => {
      if (!index || time - points[index - 1][0] > GAP_MS) lines.push([]);
      const x = WIDTH * (1 - (at - time) / SPAN_MS), y = HEIGHT - 1 - (top ? (HEIGHT - 4) * value / top : 0);
      lines.at(-1).push(`${x.toFixed(1)},${y.toFixed(1)}`);
    });
    svg.replaceChildren(...lines.map((line) => {
      const node = document.createElementNS(SVG, "polyline");
      node.setAttribute("points", (line.length > 1 ? line : [line[0], line[0]]).join(" "));
      return node;
    }));
    now.textContent = format(points.at(-1)[1]);
    most.textContent = `at most ${format(top)}`;
    svg.setAttribute("aria-label", `${title}: now ${now.textContent}, ${most.textContent} in the last 10 minutes`);
  }

  function record() {
    if (!faultLine.hidden) return;   // the figures are old
    const at = Date.now(), rows = [...document.querySelectorAll("#status [data-chart]")].slice(0, MAX_CHARTS), shown = new Set();
    for (const row of rows) {
      const uid = row.dataset.chart, card = cards.get(uid) ?? makeCard(row);
      cards.set(uid, card);
      shown.add(uid);
      for (const [name, chart] of Object.entries(card.charts)) {
        chart.points.push([at, Number(row.dataset[name])]);
        while (chart.points.length > MAX_POINTS || chart.points[0][0] < at - SPAN_MS) chart.points.shift();
        if (!document.hidden) draw(chart, at);
      }
    }
    for (const [uid, { node }] of cards) {
      if (shown.has(uid)) continue;
      node.remove();
      cards.delete(uid);
    }
    section.hidden = !cards.size;
  }

  record();
  setInterval(() => { if (!document.hidden) record(); }, STEP_MS);
})();
