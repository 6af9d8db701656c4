// The page "Graph": fills the body of a form by its fields, and zooms and moves the picture.
"use strict";

(() => {
  const WHOLE = [0, 0, 1000, 680], MOST = 8;
  let box = WHOLE, drag = null;
  const find = () => document.getElementById("entity-picture");

  // A text "\0name" in the body is the value of the field `name`.
  document.addEventListener("submit", ({ target: form }) => {
    const { shape, goto } = form.dataset;
    if (!shape) return;
    const fill = (key, value) => typeof value === "string" && value.startsWith("\0") ? form.elements[value.slice(1)].value : value;
    form.dataset.body = JSON.stringify(JSON.parse(shape, fill));
    if (goto) form.dataset.then = goto + encodeURIComponent(form.elements.name.value);
  }, true);
  document.addEventListener("acted", ({ target }) => { if (target.dataset?.shape) target.reset(); });

  function show(next) {
    box = next;
    find()?.setAttribute("viewBox", box.join(" "));
  }

  // Keeps the point (x, y), in parts of the picture, where it is.
  function zoom(factor, x = .5, y = .5) {
    const width = Math.min(WHOLE[2], Math.max(WHOLE[2] / MOST, box[2] * factor)), height = width * WHOLE[3] / WHOLE[2];
    show(width === WHOLE[2] ? WHOLE : [box[0] + (box[2] - width) * x, box[1] + (box[3] - height) * y, width, height]);
  }

  function place({ clientX, clientY }) {
    const { left, top, width, height } = find().getBoundingClientRect();
    return [(clientX - left) / width, (clientY - top) / height];
  }

  function reveal() {
    for (const one of document.querySelectorAll(".zoom")) one.hidden = false;
    if (box !== WHOLE) show(box);
  }

  document.addEventListener("click", (event) => {
    const { zoom: wanted } = event.target.dataset ?? {};
    if (wanted) return wanted === "all" ? show(WHOLE) : zoom(wanted === "in" ? .7 : 1 / .7);
    if (drag?.moved) event.preventDefault();   // the end of a move opens no entity
    return undefined;
  }, true);
  document.addEventListener("wheel", (event) => {
    if (!event.ctrlKey || !event.target.closest?.("#entity-picture")) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? .85 : 1 / .85, ...place(event));
  }, { passive: false });
  document.addEventListener("pointerdown", (event) => {
    drag = event.button === 0 && event.target.closest?.("#entity-picture") ? { from: place(event), box, moved: false } : null;
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons || drag.box === WHOLE) return;
    const [x, y] = place(event), [dx, dy] = [drag.from[0] - x, drag.from[1] - y];
    drag.moved ||= Math.hypot(dx, dy) > .01;
    if (drag.moved) show([drag.box[0] + dx * drag.box[2], drag.box[1] + dy * drag.box[3], drag.box[2], drag.box[3]]);
  });
  document.addEventListener("dragstart", (event) => { if (event.target.closest?.("#entity-picture")) event.preventDefault(); });
  new MutationObserver(reveal).observe(document.querySelector("[data-refresh*='/graph/view']"), { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"] });
  reveal();
})();
