// Reads and changes bundles. A change returns a new bundle, which shares all other parts with the old one, so keys
// that the editor does not know stay as they are.

export const UID = "${pipeline_uid}";
export const CHAT = "chat_agent", VIEWER = "viewer_agent", AI = "ai_agent";

export const agentsOf = (bundle) => (Array.isArray(bundle.agents) ? bundle.agents.filter((one) => one && typeof one === "object") : []);
export const nameOf = (agent) => agent.wf_agent_name || agent.agent_name || "";
export const labelOf = (agent) => nameOf(agent) || agent.agent_alias || "(no name)";
export const listensOn = (agent) => agent.agent_rec_swarm || "";
const isTrue = (value) => value === true || (typeof value === "string" && value.toLowerCase() === "true");
const isFalse = (value) => value === false || (typeof value === "string" && value.toLowerCase() === "false");
export const publishes = (agent) => isTrue(agent.wf_publish_results) || agent.agent_class === CHAT;
export const publishesTo = (agent) => (publishes(agent) ? agent.agent_send_swarm || "" : "");

// The name of the block that an agent calls, or its class.
export function blockOf(agent) {
  if (agent.agent_class === AI) return "agent";
  if (agent.agent_class === CHAT || agent.agent_class === VIEWER) return agent.agent_class;
  return agent.wf_diagram_webhook || "";
}

export const callsBlock = (agent) => ![CHAT, VIEWER].includes(agent.agent_class) && !isFalse(agent.wf_call_webhook);
export const isTimed = (agent) => Boolean(agent.wf_cron) || Number(agent.wf_interval_secs) > 0;
export const hasWebhook = (agent) => Boolean(agent.wf_webhook_sender || agent.wf_webhook_secret || agent.wf_webhook_token)
  || (!listensOn(agent) && !isTimed(agent) && callsBlock(agent));

// The arguments of the block: an object. A text of JSON is parsed.
export function argsOf(agent) {
  if (agent.agent_class === AI) {
    return Object.fromEntries(Object.entries(agent).filter(([key]) => key.startsWith("ai_")).map(([key, value]) => [key.slice(3), value]));
  }
  const given = agent.wf_webhook_args;
  if (typeof given !== "string") return given && typeof given === "object" ? given : {};
  try {
    const parsed = JSON.parse(given || "{}");
    return parsed && typeof parsed === "object" && !Array.isArray(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

// Returns the object with a key, or without it for undefined.
export function withKey(object, key, value) {
  if (value !== undefined) return { ...object, [key]: value };
  const { [key]: _, ...rest } = object;
  return rest;
}

export function withArg(agent, key, value) {
  if (agent.agent_class === AI) return withKey(agent, `ai_${key}`, value);
  return { ...agent, wf_webhook_args: withKey(argsOf(agent), key, value) };
}

export function setAgent(bundle, at, change) {
  return { ...bundle, agents: agentsOf(bundle).map((agent, index) => (index === at ? change(agent) : agent)) };
}

// The names in agent_from: [] for all senders.
export function sendersOf(agent) {
  const given = agent.agent_from;
  const names = Array.isArray(given) ? given.filter((one) => typeof one === "string") : [given ?? ""];
  return names.filter((one) => one && one !== "*");
}

export function accepts(agent, name) {
  const names = sendersOf(agent);
  if (names.includes(`!${name}`)) return false;
  const chosen = names.filter((one) => !one.startsWith("!"));
  return !chosen.length || chosen.includes(name);
}

export function setSenders(agent, names) {
  return withKey(agent, "agent_from", names.length > 1 ? names : names.length ? names[0] : undefined);
}

// The names of all agents that publish on a swarm, and of those of them that call a block.
export function publishersOn(bundle, swarm, isCommand = () => true) {
  return [...new Set(agentsOf(bundle).filter((one) => swarm && publishesTo(one) === swarm && nameOf(one) && isCommand(one)).map(nameOf))];
}

const commandsOn = (bundle, swarm) => publishersOn(bundle, swarm, callsBlock);

// Which senders an agent accepts: everyone, commands (everyone but all agents that call a block), others
// (everyone but some), or chosen.
export function senderMode(bundle, agent) {
  const names = sendersOf(agent);
  if (!names.length) return "everyone";
  if (!names.every((one) => one.startsWith("!"))) return "chosen";
  const commands = commandsOn(bundle, listensOn(agent));
  return commands.length && commands.every((one) => names.includes(`!${one}`)) ? "commands" : "others";
}

export function describeSenders(bundle, agent) {
  const names = sendersOf(agent), excluded = names.filter((one) => one.startsWith("!"));
  if (!names.length) return "everyone";
  if (excluded.length < names.length) return names.filter((one) => !one.startsWith("!")).join(", ");
  if (senderMode(bundle, agent) === "commands" || excluded.length > 1) return "everyone but commands";
  return `everyone but ${excluded[0].slice(1)}`;
}

export function setSenderMode(bundle, agent, mode) {
  if (mode === "everyone") return setSenders(agent, []);
  if (mode === "commands") return setSenders(agent, commandsOn(bundle, listensOn(agent)).map((one) => `!${one}`));
  return agent;
}

// Agents that excluded all commands before a change exclude the new ones too.
export function keepExclusions(before, after) {
  if (!Array.isArray(before.agents) || !Array.isArray(after.agents)) return after;
  const complete = new Set(before.agents.filter((agent) => senderMode(before, agent) === "commands"));
  if (!complete.size) return after;
  const agents = after.agents.map((agent) => (complete.has(agent) && senderMode(after, agent) !== "commands"
    ? setSenders(agent, [...new Set([...sendersOf(agent), ...commandsOn(after, listensOn(agent)).map((one) => `!${one}`)])]) : agent));
  return { ...after, agents };
}

export function listSwarms(bundle) {
  const names = agentsOf(bundle).flatMap((agent) => [listensOn(agent), agent.agent_send_swarm || ""]);
  const declared = (Array.isArray(bundle.swarms) ? bundle.swarms : []).map((one) => one?.name ?? "");
  return [...new Set([...names, ...declared])].filter((one) => typeof one === "string" && one);
}

export function listStores(bundle) {
  const named = agentsOf(bundle).map((agent) => argsOf(agent).memory_id);
  return [...new Set([...named, `instances/${UID}/memories`])].filter((one) => typeof one === "string" && one);
}

// A name that no agent, alias or swarm has.
export function freeName(bundle, wish) {
  const used = new Set([...agentsOf(bundle).flatMap((one) => [nameOf(one), one.agent_alias]), ...listSwarms(bundle)]);
  let name = wish;
  for (let number = 2; used.has(name); number += 1) name = `${wish}_${number}`;
  return name;
}

// Connects the output of an agent with the input of another: sets the swarm and the senders.
export function connect(bundle, from, to) {
  const agents = agentsOf(bundle);
  let [source, target] = [agents[from], agents[to]];
  if (!source || !target || from === to) return bundle;
  const heard = publishesTo(source), wanted = listensOn(target);
  const isFree = !heard || !agents.some((one, at) => at !== from && at !== to && listensOn(one) === heard && accepts(one, nameOf(source)));
  if (!nameOf(source)) source = { ...source, wf_agent_name: freeName(bundle, source.agent_alias || "agent") };
  const swarm = wanted && wanted !== heard && isFree ? wanted : heard || freeName(bundle, `${nameOf(source)}_out`);
  if (publishesTo(source) !== swarm) source = { ...source, agent_send_swarm: swarm, ...(publishes(source) ? {} : { wf_publish_results: true }) };
  const moved = wanted !== swarm, names = moved ? [] : sendersOf(target), name = nameOf(source);
  if (moved) target = { ...target, agent_rec_swarm: swarm };
  if (moved || !accepts(target, name)) {
    const isExclusion = names.length > 0 && names.every((one) => one.startsWith("!"));
    const next = isExclusion ? names.filter((one) => one !== `!${name}`) : [...names, name];
    target = setSenders(target, next.length ? next : [name]);
  }
  const place = (agent, at) => (at === from ? source : at === to ? target : agent);
  return { ...bundle, agents: agents.map(place) };
}

// Makes an agent no longer accept the messages of another.
export function disconnect(bundle, from, to) {
  const agents = agentsOf(bundle), name = nameOf(agents[from] ?? {}), target = agents[to];
  if (!target || !name) return bundle;
  const names = sendersOf(target);
  if (!names.includes(name)) return setAgent(bundle, to, (agent) => setSenders(agent, [...names, `!${name}`]));
  const rest = names.filter((one) => one !== name);
  if (rest.some((one) => !one.startsWith("!"))) return setAgent(bundle, to, (agent) => setSenders(agent, rest));
  return setAgent(bundle, to, (agent) => setSenders(withKey(agent, "agent_rec_swarm", ""), []));
}

export function removeAgent(bundle, at) {
  const gone = agentsOf(bundle)[at], rest = agentsOf(bundle).filter((_, index) => index !== at);
  const name = nameOf(gone), isNamed = rest.some((one) => nameOf(one) === name);
  const agents = isNamed ? rest : rest.map((agent) => dropSender(agent, name));
  const order = bundle.display_order;
  return { ...bundle, agents, ...(Array.isArray(order) ? { display_order: order.filter((one) => one !== gone.agent_alias) } : {}) };
}

function dropSender(agent, name) {
  const names = sendersOf(agent), rest = names.filter((one) => one !== name && one !== `!${name}`);
  // An agent that accepted only this one must not accept everyone now.
  return rest.length === names.length || !rest.length && names[0] === name ? agent : setSenders(agent, rest);
}

export function duplicateAgent(bundle, at) {
  const agent = agentsOf(bundle)[at], name = freeName(bundle, `${agent.agent_alias || "agent"}_copy`);
  const copy = { ...structuredClone(agent), agent_alias: name };
  for (const key of ["wf_agent_name", "agent_name"]) if (copy[key]) copy[key] = name;
  return { ...bundle, agents: [...agentsOf(bundle).slice(0, at + 1), copy, ...agentsOf(bundle).slice(at + 1)] };
}

// A new name in all places that name the agent as a sender.
export function renameAgent(bundle, at, name) {
  const old = nameOf(agentsOf(bundle)[at]), key = agentsOf(bundle)[at].wf_agent_name || !agentsOf(bundle)[at].agent_name ? "wf_agent_name" : "agent_name";
  const isShared = agentsOf(bundle).some((one, index) => index !== at && nameOf(one) === old);
  const swap = (one) => (one === old ? name : one === `!${old}` ? `!${name}` : one);
  const renamed = (agent) => (old && name && !isShared && sendersOf(agent).some((one) => swap(one) !== one) ? setSenders(agent, sendersOf(agent).map(swap)) : agent);
  return { ...bundle, agents: agentsOf(bundle).map((agent, index) => (index === at ? { ...renamed(agent), [key]: name } : renamed(agent))) };
}

// First values of arguments, so that a new block works at once where that is possible.
const FIRST = {
  regex_match: { pattern: "^/note\\s+(.*)" }, regex_filter: { pattern: "." }, json_match: { expression: "@" }, json_map: { expression: "@" },
  template: { template: "{{ text }}" },
};
// What the palette offers besides blocks: the ways in, and a person.
export const ENTRANCES = [
  { name: "Chat", icon: "chat", summary: "A person who writes messages and reads the answers.", agent: { agent_class: CHAT, agent_rec_swarm: "chat", agent_send_swarm: "chat" }, wish: "User" },
  { name: "Webhook", icon: "webhook", summary: "Receives messages from another service at a URL, and passes them on.",
    agent: { agent_class: "wf_agent", agent_rec_swarm: "", wf_diagram_webhook: "regex_filter", wf_webhook_args: { pattern: "." } }, wish: "webhook" },
  { name: "Timer", icon: "timer", summary: "Sends a text at fixed times, such as each day at nine.",
    agent: { agent_class: "wf_agent", agent_rec_swarm: "", wf_cron: "0 9 * * *", wf_diagram_webhook: "template", wf_webhook_args: { template: "What happened yesterday?" } }, wish: "timer" },
  { name: "Viewer", icon: "view", summary: "Only shows the messages of a swarm.", agent: { agent_class: VIEWER, agent_rec_swarm: "chat" }, wish: "viewer" },
];

export function newAgent(bundle, { name, agent, wish, args_schema }) {
  const alias = freeName(bundle, wish ?? name), isPerson = agent?.agent_class === CHAT;
  if (agent) {
    const named = isPerson || agent.agent_class === VIEWER ? { agent_name: alias } : { wf_agent_name: alias, agent_send_swarm: freeName(bundle, `${alias}_out`), wf_publish_results: true };
    return { ...structuredClone(agent), agent_alias: alias, ...named };
  }
  const store = args_schema?.properties?.memory_id ? { memory_id: listStores(bundle)[0] } : {};
  return {
    agent_class: "wf_agent", agent_alias: alias, wf_agent_name: alias, agent_rec_swarm: "", agent_send_swarm: "",
    wf_diagram_webhook: name, wf_publish_results: true, wf_webhook_args: { ...store, ...FIRST[name] },
  };
}

// Adds an agent behind another one, or with no connection.
export function addAgent(bundle, choice, behind) {
  const agent = newAgent(bundle, choice), agents = [...agentsOf(bundle), agent];
  let next = { ...bundle, agents };
  const before = agentsOf(bundle)[behind];
  if (before && before.agent_class !== VIEWER && !choice.agent) next = connect(next, behind, agents.length - 1);
  // Without a sender it waits on a swarm for one: an empty name would make it a receiver of webhooks.
  if (!choice.agent) next = setAgent(next, agents.length - 1, (one) => (listensOn(one) ? one : { ...one, agent_rec_swarm: freeName(next, `${one.agent_alias}_in`) }));
  if (!choice.agent) next = setAgent(next, agents.length - 1, (one) => ({ ...one, agent_send_swarm: listensOn(one) === "chat" ? "chat" : freeName(next, `${one.agent_alias}_out`) }));
  return next;
}

export function slug(name) {
  return name.toLowerCase().normalize("NFKD").replace(/[^a-z0-9_-]+/g, "_").replace(/^_+|_+$/g, "").slice(0, 64);
}
