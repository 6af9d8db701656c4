// Charts: shows times in the viewer's zone, and the values of all charts at the place of the pointer.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg", part = document.getElementById("figures");

  function localize(root) {
    const isWeek = part.dataset.refresh.endsWith("week");
    const format = isWeek ? { weekday: "short" } : { hour: "2-digit", minute: "2-digit" };
    for (const text of root.querySelectorAll("text[data-time]")) {
      text.textContent = new Date(text.dataset.time).toLocaleString("en-GB", format);
    }
  }

  function show(index) {
    const row = part.querySelectorAll("#figure-values tbody tr")[index];
    if (!row) return;
    for (const chart of part.querySelectorAll(".chart")) {
      const plot = chart.querySelector(".plot"), line = plot.querySelector(".at") ?? plot.appendChild(document.createElementNS(SVG, "path"));
      line.setAttribute("class", "at");
      line.setAttribute("d", `M${index + 0.5} 0V100`);
      const most = chart.closest("figure").querySelector(".most");
      most.dataset.text ??= most.textContent;
      most.textContent = `${row.cells[0].textContent}: ${row.cells[Number(chart.dataset.column)].textContent}`;
    }
  }

  function hide() {
    for (const line of part.querySelectorAll(".at")) line.remove();
    for (const most of part.querySelectorAll(".most[data-text]")) {
      most.textContent = most.dataset.text;
      delete most.dataset.text;
    }
  }

  function follow(event) {
    const chart = event.target.closest?.(".chart");
    if (!chart) return hide();
    const box = chart.getBoundingClientRect(), columns = chart.querySelector(".plot").viewBox.baseVal.width;
    show(Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns))));
  }

  part.addEventListener("pointermove", follow);
  part.addEventListener("pointerdown", follow);
  part.addEventListener("pointerleave", hide);
  part.addEventListener("refreshing", ({ detail }) => localize(detail));
  localize(part);
})();
