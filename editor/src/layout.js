// Places agents from left to right along the way of a message. The order of the bundle decides, so a new agent moves
// only what lies below it. An agent is in the row of the first agent whose messages it gets, as in web/console/graph.py.

import { argsOf, blockOf, callsBlock, CHAT, hasWebhook, isTimed, labelOf, listensOn, nameOf, publishesTo, sendersOf } from "./bundle.js";

export const BOX = { width: 184, height: 66 };
export const PILL = { width: 132, height: 34 };
const MARGIN = 16, GAP = 64, ROW = 90, EXIT_GAP = 44;
const MAX_CROSSING = 120;
const SEND_BLOCKS = ["webhook_send", "http_request"];

// Returns for each agent the indexes of the agents whose messages it gets, persons first.
function findSenders(agents) {
  const bySwarm = new Map();
  agents.forEach((agent, at) => {
    const swarm = publishesTo(agent);
    if (swarm) bySwarm.set(swarm, [...(bySwarm.get(swarm) ?? []), at]);
  });
  return agents.map((agent, at) => {
    if (agent.agent_class === CHAT || !listensOn(agent)) return [];
    const names = new Set(sendersOf(agent)), isChosen = [...names].some((one) => !one.startsWith("!"));
    const isHeard = (other) => other !== at && !names.has(`!${nameOf(agents[other])}`) && (!isChosen || names.has(nameOf(agents[other])));
    const heard = (bySwarm.get(listensOn(agent)) ?? []).filter(isHeard);
    return [...heard.filter((one) => agents[one].agent_class === CHAT), ...heard.filter((one) => agents[one].agent_class !== CHAT)];
  });
}

// Returns for each agent the one that it is placed behind, -1 for none.
function findParents(senders, isNamed) {
  const parents = senders.map(() => -1);
  const isBehind = (at, other) => {
    for (let current = at; current >= 0; current = parents[current]) if (current === other) return true;
    return false;
  };
  const depthOf = (at) => {
    let depth = 0;
    for (let current = parents[at]; current >= 0; current = parents[current]) depth += 1;
    return depth;
  };
  senders.forEach((heard, at) => { parents[at] = heard.find((other) => !isBehind(other, at)) ?? -1; });
  // An agent that names its senders is to the right of all of them.
  senders.forEach((heard, at) => {
    if (!isNamed(at)) return;
    for (const other of heard) if (!isBehind(other, at) && depthOf(other) > depthOf(parents[at])) parents[at] = other;
  });
  return parents;
}

function place(parents, isPerson) {
  const children = parents.map(() => []), roots = [], places = [];
  parents.forEach((parent, at) => (parent < 0 ? roots : children[parent]).push(at));
  let row = -1;
  // Column 0 has the ways in: persons, and the labels of webhooks, timers and swarms.
  const pending = roots.map((at) => [at, isPerson(at) ? 0 : 1, true]).reverse();
  while (pending.length) {
    const [at, column, isNewRow] = pending.pop();
    row += isNewRow ? 1 : 0;
    places[at] = { column, row };
    pending.push(...children[at].map((child, number) => [child, column + 1, number > 0]).reverse());
  }
  return { children, roots, places, rows: row + 1 };
}

const namesSenders = (agent) => sendersOf(agent).some((one) => !one.startsWith("!"));
const columnX = (column) => MARGIN + column * (BOX.width + GAP);
const rowY = (row) => MARGIN + row * ROW;

// The way in of an agent that no other agent sends messages: an icon, a label and a longer explanation.
function findEntrance(agent) {
  if (agent.agent_class === CHAT) return null;
  if (isTimed(agent)) return { kind: "timer", label: agent.wf_cron || `each ${agent.wf_interval_secs} s`, title: "A timer calls it" };
  const sender = typeof agent.wf_webhook_sender === "string" ? agent.wf_webhook_sender : "";
  if (hasWebhook(agent)) return { kind: "webhook", label: sender || "Webhook", title: `Webhooks come in at /webhooks/UID/${agent.agent_alias ?? ""}` };
  if (listensOn(agent)) return { kind: "swarm", label: listensOn(agent), title: `Messages of the swarm ${listensOn(agent)}` };
  return null;
}

// The host to which a block sends requests, "" for none.
function findHost(agent) {
  if (!SEND_BLOCKS.includes(blockOf(agent))) return "";
  const url = String(argsOf(agent).url ?? "");
  return url.match(/^https?:\/\/([^/?#]+)/i)?.[1] ?? (url || "no URL yet");
}

function findExit(agent, readers, hasListeners) {
  const host = findHost(agent), swarm = publishesTo(agent);
  if (host) return { kind: "send", label: host, title: `Sends requests to ${host}` };
  if (readers.length) return { kind: "chat", label: readers[0], title: `${readers.join(", ")} can read it on ${swarm}` };
  if (swarm && !hasListeners) return { kind: "swarm", label: swarm, title: `Published on ${swarm}; no agent listens` };
  return null;
}

function findReaders(agents, at) {
  const swarm = publishesTo(agents[at]);
  if (!swarm || !callsBlock(agents[at])) return [];
  return agents.filter((one) => one.agent_class === CHAT && listensOn(one) === swarm && isAccepted(one, nameOf(agents[at]))).map(labelOf);
}

function isAccepted(agent, name) {
  const names = sendersOf(agent), chosen = names.filter((one) => !one.startsWith("!"));
  return !names.includes(`!${name}`) && (!chosen.length || chosen.includes(name));
}

const bend = (x, y, toX, toY) => {
  // A way back runs between the rows.
  if (toX <= x) {
    const between = y + (toY < y ? -1 : 1) * ROW / 2;
    return `M${x} ${y}h16V${between}H${toX - 24}V${toY}H${toX}`;
  }
  const half = Math.max(30, Math.abs(toX - x) / 2);
  return y === toY && toX > x ? `M${x} ${y}H${toX}` : `M${x} ${y}C${x + half} ${y} ${toX - half} ${toY} ${toX} ${toY}`;
};

// The line that follows the pointer.
export const joinPath = (x, y, toX, toY) => {
  const half = Math.max(30, Math.abs(toX - x) / 2);
  return `M${x} ${y}C${x + half} ${y} ${toX - half} ${toY} ${toX} ${toY}`;
};

// Returns {boxes, edges, pills, width, height}: the boxes in the order of the agents, in px.
export function layOut(agents) {
  const senders = findSenders(agents), parents = findParents(senders, (at) => namesSenders(agents[at])), { children, places, rows } = place(parents, (at) => agents[at].agent_class === CHAT);
  const boxes = agents.map((agent, at) => ({ at, x: columnX(places[at].column), y: rowY(places[at].row), ...places[at] }));
  const left = (at) => [boxes[at].x, boxes[at].y + BOX.height / 2], right = (at) => [boxes[at].x + BOX.width, boxes[at].y + BOX.height / 2];
  const edges = [], pills = [];
  // Only the first arrow of a fan has the name of its swarm.
  const isFirst = (at, parent) => children[parent].find((one) => listensOn(agents[one]) === listensOn(agents[at])) === at;
  agents.forEach((agent, at) => {
    const parent = parents[at], isNamed = namesSenders(agent);
    for (const other of senders[at]) {
      const isMain = other === parent;
      if (!isMain && (!isNamed || edges.length > agents.length + MAX_CROSSING)) continue;
      edges.push({ from: other, to: at, label: isMain && isFirst(at, parent) ? listensOn(agent) : "", kind: isMain ? "main" : "crosses", path: bend(...right(other), ...left(at)) });
    }
    const y = boxes[at].y + BOX.height / 2, readers = findReaders(agents, at), box = boxes[at];
    box.readers = readers;
    const entrance = parent < 0 ? findEntrance(agent) : null;
    if (entrance) pills.push({ ...entrance, at, side: "in", x: box.x - GAP - PILL.width, y: y - PILL.height / 2, path: bend(box.x - GAP, y, box.x, y) });
    const exit = children[at].length ? null : findExit(agent, readers, false);
    if (exit) pills.push({ ...exit, at, side: "out", x: box.x + BOX.width + EXIT_GAP, y: y - PILL.height / 2, path: bend(box.x + BOX.width, y, box.x + BOX.width + EXIT_GAP, y) });
  });
  const widest = Math.max(0, ...boxes.map((box) => box.x + BOX.width)), furthest = Math.max(0, ...pills.map((pill) => pill.x + PILL.width));
  return { boxes, edges, pills, parents, width: Math.max(widest, furthest) + MARGIN, height: rowY(Math.max(1, rows)) };
}
