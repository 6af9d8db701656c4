// Shows times in the viewer's time zone, with UTC in the title.
"use strict";

(() => {
  const DAY = { year: "numeric", month: "short", day: "numeric" }, CLOCK = { hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  const MONTH = { month: "short", day: "numeric" }, SHORT = { hour: "2-digit", minute: "2-digit" };   // of time.short

  function localize(root) {
    const now = new Date();
    for (const time of root.querySelectorAll("time.local")) {
      const at = new Date(time.dateTime);
      if (time.title || Number.isNaN(at.getTime())) continue;
      const isToday = at.toDateString() === now.toDateString();
      const isShort = time.matches(".short");
      const clock = at.toLocaleTimeString("en-GB", isShort ? SHORT : isToday ? { ...CLOCK, second: "2-digit" } : CLOCK);
      time.title = at.toISOString().replace("T", " ").replace("Z", " UTC");
      time.textContent = isToday ? clock : `${at.toLocaleDateString("en-GB", isShort ? MONTH : DAY)}, ${clock}`;
    }
  }

  localize(document);
  document.addEventListener("refreshing", ({ detail }) => localize(detail));
})();
