// Makes elements of HTML and SVG. Texts are always text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// An HTML element: h("p", { class: "note", onclick: act }, "text", node).
export const h = (name, props = {}, ...children) => fill(document.createElement(name), props, children);

// An SVG element.
export const s = (name, props = {}, ...children) => fill(document.createElementNS(SVG, name), props, children);

export function button(text, act, props = {}) {
  return h("button", { type: "button", onclick: act, ...props }, text);
}

// A text as nodes: what is between backticks is code.
export const prose = (text) => text.split("`").map((part, at) => (at % 2 && at < text.split("`").length - 1 ? h("code", {}, part) : part)).filter((part) => part !== "");

// Shortens a text for a label.
export function clip(text, letters) {
  const points = [...text];
  return points.length > letters ? `${points.slice(0, letters - 1).join("")}…` : text;
}

const PATHS = {
  relay: "M2 8h9M8 4l4 4-4 4M14 3v10",
  memory: "M3 4c0-2.7 10-2.7 10 0v8c0 2.7-10 2.7-10 0zM3 4c0 2.7 10 2.7 10 0M3 8c0 2.7 10 2.7 10 0",
  recall: "M7 2a5 5 0 1 1 0 10A5 5 0 0 1 7 2zM10.8 10.8L14 14",
  model: "M8 1.5l1.6 4.9 4.9 1.6-4.9 1.6L8 14.5 6.4 9.6 1.5 8l4.9-1.6z",
  transform: "M6 2C3 2 5 8 2.5 8 5 8 3 14 6 14M10 2c3 0 1 6 3.5 6C11 8 13 14 10 14",
  send: "M14 2L2 7l5 2 2 5zM14 2L7 9",
  own: "M6 2h4v2a1.5 1.5 0 1 0 0 3h4v7H2V7h3a1.5 1.5 0 1 1 0-3h1z",
  chat: "M2 3h12v8H7l-3 3v-3H2z",
  webhook: "M8 5L5 11M8 5l3 6M5 11h6M8 5m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M5 11m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M11 11m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  timer: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 5v3.5l2.5 1.5",
  swarm: "M1.5 8h3M4 5.5L6.5 8 4 10.5M9 3v10M13 3v10",
  view: "M1.5 8C4 3.5 12 3.5 14.5 8 12 12.5 4 12.5 1.5 8zM8 6a2 2 0 1 1 0 4a2 2 0 0 1 0-4z",
  empty: "M3 2h7l3 3v9H3zM8 6v5M5.5 8.5h5",
};

// The drawing of an icon, 16 px square.
export const iconPath = (name, props = {}) => s("path", { class: "glyph", d: PATHS[name] ?? PATHS.own, ...props });

export const icon = (name) => s("svg", { class: `icon g-${name}`, viewBox: "0 0 16 16", width: 18, height: 18, "aria-hidden": "true" }, iconPath(name));
