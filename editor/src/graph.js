// The graph: boxes are agents, arrows are the ways of messages. It scrolls like a page, so a graph of 300 agents moves
// without being drawn again.

import { agentsOf, argsOf, blockOf, CHAT, connect, describeSenders, hasWebhook, labelOf, listensOn, publishesTo, VIEWER } from "./bundle.js";
import { button, clip, h, iconPath, s } from "./dom.js";
import { BOX, joinPath, layOut, PILL } from "./layout.js";

const ZOOM = { least: 0.25, most: 2, step: 1.25 };
const MAX_MOVING = 80;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const EDGE = 28, DRAG_STEP = 18;

export class Graph {
  // `groups` maps blocks to their groups. `on` has the functions open(at), remove(), drop(choice, at), ask(text).
  constructor(draft, groups, on) {
    Object.assign(this, { draft, groups, on, zoom: 1, boxes: new Map(), lines: new Map(), pills: new Map(), faults: new Map(), connecting: null });
    this.edgeLayer = s("g", { "aria-hidden": "true" });
    this.pillLayer = s("g", { "aria-hidden": "true" });
    this.boxLayer = s("g", {});
    this.draftLine = s("path", { class: "joining", d: "" });
    const arrow = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 9, markerHeight: 9, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z" }));
    // The line that follows the pointer is in a second drawing, so that the first is not painted again.
    this.overlay = s("svg", { class: "overlay", "aria-hidden": "true" }, this.draftLine);
    this.svg = s("svg", { role: "group", "aria-label": "Blocks of the pipeline", "aria-describedby": "graph-keys" }, s("defs", {}, arrow), this.edgeLayer, this.pillLayer, this.boxLayer);
    this.empty = h("p", { class: "empty" }, "This pipeline has no blocks yet. Add a way in first: a chat, a webhook or a timer.");
    this.scroller = h("div", { class: "canvas", tabindex: "-1" }, this.empty, this.svg, this.overlay);
    this.hint = h("p", { id: "graph-keys", class: "visually-hidden" }, "Arrow keys move between blocks, Enter opens the form, Delete removes, a adds, c connects, question mark shows all keys.");
    this.rest = h("p", { class: "rest", hidden: true, "aria-hidden": "true" }, "Scroll to see the rest →");
    this.scroller.addEventListener("scroll", () => { this.rest.hidden = this.rest.hidden || this.scroller.scrollLeft > 24; });
    this.node = h("div", { class: "graph-pane" }, this.scroller, this.rest, this.hint, h("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
      button("−", () => this.setZoom(this.zoom / ZOOM.step), { "aria-label": "Zoom out", class: "quiet" }),
      button("+", () => this.setZoom(this.zoom * ZOOM.step), { "aria-label": "Zoom in", class: "quiet" }),
      button("Fit", () => this.fit(), { class: "quiet" })));
    this.listen();
    draft.addEventListener("change", () => this.draw());
    draft.addEventListener("select", () => this.mark());
  }

  // ---- drawing

  draw() {
    const { draft } = this, agents = agentsOf(draft.bundle);
    this.layout = layOut(agents);
    const { width, height } = this.layout;
    for (const one of [this.svg, this.overlay]) one.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.classList.toggle("moves", agents.length <= MAX_MOVING);
    this.empty.hidden = agents.length > 0;
    this.svg.toggleAttribute("hidden", !agents.length);
    this.resize();
    this.update(this.boxes, this.boxLayer, this.layout.boxes, (box) => box.at, (box) => this.signBox(box, agents[box.at]), (box) => this.makeBox(box, agents[box.at]));
    for (const box of this.layout.boxes) {
      const transform = `translate(${box.x}px, ${box.y}px)`, { node } = this.boxes.get(box.at);
      if (node.style.transform !== transform) node.style.transform = transform;
    }
    this.update(this.lines, this.edgeLayer, this.layout.edges, (edge) => `${edge.from}>${edge.to}`, (edge) => `${edge.path}${edge.label}${edge.kind}`, (edge) => this.makeEdge(edge));
    this.update(this.pills, this.pillLayer, this.layout.pills, (pill) => `${pill.side}${pill.at}`, (pill) => JSON.stringify(pill), (pill) => this.makePill(pill));
    this.mark();
  }

  // Replaces only the elements that differ.
  update(known, layer, items, keyOf, sign, make) {
    const seen = new Set();
    for (const item of items) {
      const key = keyOf(item), sig = sign(item), old = known.get(key);
      seen.add(key);
      if (old?.sig === sig) continue;
      const node = make(item), hadFocus = old?.node.contains(document.activeElement);
      if (old) old.node.replaceWith(node);
      else layer.append(node);
      known.set(key, { sig, node });
      if (hadFocus) node.focus();
    }
    for (const [key, { node }] of known) {
      if (seen.has(key)) continue;
      node.remove();
      known.delete(key);
    }
  }

  kindOf(agent) { return agent.agent_class === CHAT ? "a person" : blockOf(agent) || "no block"; }

  // Begins with the texts in the box.
  describe(agent) {
    const heard = listensOn(agent), sent = publishesTo(agent), faults = this.faults.get(agentsOf(this.draft.bundle).indexOf(agent)) ?? 0;
    const store = argsOf(agent).memory_id, shown = [labelOf(agent), this.kindOf(agent), typeof store === "string" && store.split("/").at(-1)];
    return [shown.filter(Boolean).join(", "), agent.agent_desc, heard ? `Gets messages on ${heard} from ${describeSenders(this.draft.bundle, agent)}` : hasWebhook(agent) ? "Gets webhooks" : "",
      sent ? `Publishes to ${sent}` : "", faults ? `${faults} fault${faults > 1 ? "s" : ""}` : ""].filter(Boolean).join(". ");
  }

  groupOf(agent) {
    if (agent.agent_class === CHAT) return "chat";
    return agent.agent_class === VIEWER ? "view" : this.groups.get(blockOf(agent)) ?? "own";
  }

  signBox(box, agent) {
    return JSON.stringify([this.describe(agent), this.groupOf(agent), argsOf(agent).memory_id, box.readers.join(), this.faults.get(box.at), box.column]);
  }

  makeBox(box, agent) {
    const group = this.groupOf(agent), { width, height } = BOX, store = argsOf(agent).memory_id;
    const drawing = s("g", {}, s("rect", { class: "sheet", width, height, rx: 8 }), s("rect", { class: "stripe", width: 34, height, rx: 8 }),
      s("g", { transform: "translate(9 9)" }, iconPath(group)),
      s("text", { class: "name", x: 44, y: 24 }, clip(labelOf(agent), 16)), " ", s("text", { class: "block", x: 44, y: 42 }, clip(this.kindOf(agent), 18)));
    const node = s("g", { class: `box g-${group}`, role: "button", tabindex: "-1", "data-at": box.at, "aria-label": this.describe(agent) }, drawing);
    if (typeof store === "string" && store) {
      drawing.append(s("g", { class: "foot", transform: "translate(44 48) scale(.75)" }, iconPath("memory")), " ", s("text", { class: "foot", x: 60, y: 58 }, clip(store.split("/").at(-1), 16)));
    }
    if (hasWebhook(agent) && listensOn(agent)) drawing.append(s("g", { class: "foot", transform: `translate(${width - 40} 48) scale(.75)` }, iconPath("webhook")));
    if (box.readers.length) drawing.append(s("g", { class: "foot", transform: `translate(${width - 22} 48) scale(.75)` }, iconPath("chat")));
    if (this.faults.get(box.at)) drawing.append(s("circle", { class: "fault-mark", cx: width, cy: 0, r: 9 }), s("text", { class: "fault-mark", x: width, y: 5 }, "!"));
    if (agent.agent_class !== VIEWER) drawing.append(s("circle", { class: "port", cx: width, cy: height / 2, r: 7 }));
    return node;
  }

  makeEdge(edge) {
    const names = agentsOf(this.draft.bundle), title = `${labelOf(names[edge.from])} to ${labelOf(names[edge.to])}`;
    const [x, y] = [this.layout.boxes[edge.to].x - 14, this.layout.boxes[edge.to].y + BOX.height / 2 - 8];
    return s("g", { class: `edge ${edge.kind}` }, s("title", {}, title), s("path", { class: "line", d: edge.path, "marker-end": "url(#arrow)" }), edge.label && s("text", { x, y }, clip(edge.label, 8)));
  }

  makePill(pill) {
    const { width, height } = PILL;
    return s("g", { class: `pill ${pill.side} g-${pill.kind}` }, s("title", {}, pill.title), s("path", { class: "line", d: pill.path, "marker-end": "url(#arrow)" }),
      s("g", { transform: `translate(${pill.x} ${pill.y})` }, s("rect", { width, height, rx: 17 }), s("g", { transform: "translate(10 9)" }, iconPath(pill.kind)), s("text", { x: 33, y: 22 }, clip(pill.label, 11))));
  }

  // Marks the selection. One box is in the tab order.
  mark() {
    const { selected } = this.draft, reachable = this.boxes.has(selected) ? selected : 0;
    for (const [at, { node }] of this.boxes) {
      node.classList.toggle("selected", at === selected);
      node.classList.toggle("joins", at === this.connecting?.from);
      node.setAttribute("tabindex", at === reachable ? "0" : "-1");
      if (at === selected) node.setAttribute("aria-current", "true");
      else node.removeAttribute("aria-current");
    }
  }

  setFaults(faults) {
    this.faults = faults;
    this.draw();
  }

  // ---- the view

  resize() {
    const { width, height } = this.layout;
    for (const one of [this.svg, this.overlay]) {
      one.setAttribute("width", width * this.zoom);
      one.setAttribute("height", height * this.zoom);
    }
  }

  // Tells that the graph is wider than its place, until it was scrolled.
  hintAtRest() {
    const { scroller, rest } = this;
    rest.hidden = scroller.scrollLeft > 24 || this.layout.width * this.zoom < scroller.clientWidth + 40;
  }

  setZoom(zoom) {
    const { scroller } = this, next = Math.min(ZOOM.most, Math.max(ZOOM.least, zoom)), by = next / this.zoom;
    const [x, y] = [scroller.scrollLeft + scroller.clientWidth / 2, scroller.scrollTop + scroller.clientHeight / 2];
    this.zoom = next;
    this.resize();
    scroller.scrollTo(x * by - scroller.clientWidth / 2, y * by - scroller.clientHeight / 2);
  }

  // Fits the width, but not below `least`.
  fit(least = ZOOM.least) {
    const { width } = this.layout, { clientWidth } = this.scroller;
    this.setZoom(Math.max(least, Math.min(1.1, clientWidth / width)));
    this.scroller.scrollTo(0, 0);
  }

  focus(at = this.draft.selected) {
    const node = (this.boxes.get(at) ?? this.boxes.get(0))?.node;
    node?.focus({ preventScroll: true });
    this.reveal(at);
  }

  reveal(at) {
    const box = this.layout.boxes[at], { scroller, zoom } = this;
    if (!box) return;
    const [x, y] = [box.x * zoom, box.y * zoom], [right, bottom] = [x + BOX.width * zoom, y + BOX.height * zoom];
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = scroller;
    const left = x < scrollLeft ? x - EDGE : right > scrollLeft + clientWidth ? right - clientWidth + EDGE : scrollLeft;
    const top = y < scrollTop ? y - EDGE : bottom > scrollTop + clientHeight ? bottom - clientHeight + EDGE : scrollTop;
    scroller.scrollTo(left, top);
  }

  // ---- pointer

  listen() {
    const { scroller } = this, boxAt = (target) => target.closest?.(".box");
    scroller.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.dragged = false;
      const box = boxAt(event.target);
      if (event.target.closest(".port")) return this.dragLine(event, Number(box.dataset.at));
      if (!box && event.pointerType === "mouse") this.dragView(event);
    });
    scroller.addEventListener("click", ({ target }) => {
      const box = boxAt(target);
      if (!box) return target.closest(".pill") || this.dragged ? undefined : this.draft.select(-1, "graph");
      const at = Number(box.dataset.at);
      if (this.connecting) return this.join(at);
      this.draft.select(at, "graph");
      this.on.open(at, false);
    });
    scroller.addEventListener("focusin", ({ target }) => { if (boxAt(target)) this.draft.select(Number(boxAt(target).dataset.at), "graph"); });
    scroller.addEventListener("keydown", (event) => this.press(event));
    scroller.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.setZoom(this.zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
    }, { passive: false });
    scroller.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("text/x-block")) event.preventDefault(); });
    scroller.addEventListener("drop", (event) => {
      event.preventDefault();
      const box = boxAt(event.target);
      this.on.drop(event.dataTransfer.getData("text/x-block"), box ? Number(box.dataset.at) : -1);
    });
  }

  // Follows the pointer until it is released.
  follow(event, move, end) {
    const { scroller } = this, stop = new AbortController(), { signal } = stop;
    scroller.setPointerCapture(event.pointerId);
    scroller.addEventListener("pointermove", move, { signal });
    for (const name of ["pointerup", "pointercancel"]) {
      scroller.addEventListener(name, (last) => { stop.abort(); end(name === "pointerup" ? last : null); }, { signal });
    }
  }

  dragView(event) {
    const { scroller } = this, from = [event.clientX + scroller.scrollLeft, event.clientY + scroller.scrollTop];
    this.dragged = false;
    this.follow(event, (at) => {
      this.dragged ||= Math.abs(at.clientX - event.clientX) + Math.abs(at.clientY - event.clientY) > 4;
      scroller.scrollTo(from[0] - at.clientX, from[1] - at.clientY);
    }, () => {});
  }

  dragLine(event, from) {
    event.preventDefault();
    const box = this.layout.boxes[from], start = [box.x + BOX.width, box.y + BOX.height / 2], { scroller } = this;
    const target = (at) => document.elementFromPoint(at.clientX, at.clientY)?.closest?.(".box");
    let over = null;
    this.follow(event, (at) => {
      const view = scroller.getBoundingClientRect();
      this.draftLine.setAttribute("d", joinPath(...start, (at.clientX - view.left + scroller.scrollLeft) / this.zoom, (at.clientY - view.top + scroller.scrollTop) / this.zoom));
      const step = (value, low, high) => (value < low + EDGE ? -DRAG_STEP : value > high - EDGE ? DRAG_STEP : 0);
      scroller.scrollBy(step(at.clientX, view.left, view.right), step(at.clientY, view.top, view.bottom));
      const next = target(at);
      if (next === over) return;
      over?.classList.remove("over");
      over = next;
      over?.classList.add("over");
    }, (last) => {
      this.draftLine.setAttribute("d", "");
      over?.classList.remove("over");
      this.dragged = true;   // the click that follows does not select
      const to = last && target(last);
      if (to) this.link(from, Number(to.dataset.at));
    });
  }

  link(from, to) {
    if (from === to) return;
    const agents = agentsOf(this.draft.bundle);
    this.draft.change((bundle) => connect(bundle, from, to), { select: to, by: "graph" });
    this.on.tell(`Connected ${labelOf(agents[from])} to ${labelOf(agents[to])}.`);
  }

  // ---- keyboard

  startConnecting(from = this.draft.selected) {
    const agent = agentsOf(this.draft.bundle)[from];
    if (!agent) return;
    this.connecting = { from };
    this.mark();
    this.focus(from);
    this.on.tell(`Connect ${labelOf(agent)}: choose the block that gets its messages, then press Enter. Escape cancels.`);
  }

  stopConnecting() {
    this.connecting = null;
    this.mark();
    this.on.tell("");
  }

  join(to) {
    const { from } = this.connecting;
    this.stopConnecting();
    this.link(from, to);
    this.focus(to);
  }

  press(event) {
    const { key } = event, at = Number(event.target.closest(".box")?.dataset.at ?? -1);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEYS[key]) this.move(at, ...KEYS[key]);
    else if (key === "Home") this.focus(0);
    else if (key === "End") this.focus(this.layout.boxes.length - 1);
    else if (key === "Escape" && this.connecting) this.stopConnecting();
    else if ((key === "Enter" || key === " ") && at >= 0) this.connecting ? this.join(at) : this.on.open(at, true);
    else if ((key === "Delete" || key === "Backspace") && at >= 0) this.on.remove();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Focuses the nearest box in a direction.
  move(at, dx, dy) {
    const { boxes } = this.layout, from = boxes[at];
    if (!from) return this.focus(0);
    let best = -1, least = Infinity;
    for (const box of boxes) {
      const ahead = (box.x - from.x) * dx + (box.y - from.y) * dy, aside = Math.abs((box.x - from.x) * dy) + Math.abs((box.y - from.y) * dx);
      const cost = ahead + aside * 3;
      if (ahead > 0 && cost < least) [best, least] = [box.at, cost];
    }
    return best >= 0 ? this.focus(best) : undefined;
  }

  // ---- the way of a message that was tried

  // Lights the boxes and arrows of the steps in their order. Each has {at, from, isBad}.
  async light(steps, pauseMs) {
    this.dim();
    const run = {};
    this.lighting = run;
    for (const { at, from, isBad } of steps) {
      if (this.lighting !== run) return;
      this.boxes.get(at)?.node.classList.add(isBad ? "broken" : "lit");
      this.lines.get(`${from}>${at}`)?.node.classList.add("lit");
      this.pills.get(`in${at}`)?.node.classList.add("lit");
      if (!isBad) this.pills.get(`out${at}`)?.node.classList.add("lit");
      if (pauseMs) await new Promise((done) => { setTimeout(done, pauseMs); });
    }
  }

  dim() {
    this.lighting = null;
    for (const node of this.svg.querySelectorAll(".lit, .broken")) node.classList.remove("lit", "broken");
  }
}
