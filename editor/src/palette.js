// The palette: the ways in and all blocks, by group, with a search field. A block is added by click, Enter or drag.

import { ENTRANCES } from "./bundle.js";
import { h, icon, prose } from "./dom.js";

export const GROUPS = {
  relay: "Choose messages", memory: "Store", recall: "Find", model: "Ask a model", transform: "Change the text", send: "Send", own: "Your blocks",
};
// Names that begin with the words come first, then names that contain them.
const rank = (choice, words) => (choice.name.toLowerCase().startsWith(words[0]) ? 0 : words.every((word) => choice.name.toLowerCase().includes(word)) ? 1 : 2);
const matches = (choice, words) => words.every((word) => `${choice.name} ${choice.summary} ${choice.title}`.toLowerCase().includes(word));

export class Palette {
  // `add(choice)` adds a block behind the selected one.
  constructor(blocks, add) {
    this.add = add;
    const hidden = new Set(["chat_agent", "viewer_agent"]);
    this.choices = [
      ...ENTRANCES.map((one) => ({ ...one, title: "Ways in" })),
      ...Object.keys(GROUPS).flatMap((group) => blocks.filter((one) => one.group === group && !hidden.has(one.name)).map((one) => ({ ...one, icon: group, title: GROUPS[group] }))),
    ];
    this.search = h("input", { type: "search", placeholder: "Search blocks", "aria-label": "Search blocks", oninput: () => this.list(), onkeydown: (event) => this.press(event) });
    this.box = h("div", { class: "choices-list" });
    this.none = h("p", { class: "note", role: "status" });
    this.node = h("section", { class: "palette", "aria-label": "Add a block" }, h("h2", {}, "Add a block"), this.search, this.none, this.box);
    this.list();
  }

  find(name) { return this.choices.find((one) => one.name === name); }

  list() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean), found = this.choices.filter((one) => matches(one, words));
    if (words.length) found.sort((a, b) => rank(a, words) - rank(b, words));
    const titles = [...new Set(found.map((one) => one.title))];
    this.box.replaceChildren(...titles.flatMap((title) => [h("h3", {}, title), h("ul", {}, found.filter((one) => one.title === title).map((one) => h("li", {}, this.makeChoice(one))))]));
    this.none.textContent = found.length ? "" : "No block matches.";
  }

  makeChoice(choice) {
    return h("button", {
      type: "button", class: "choice", draggable: "true", "data-block": choice.name, onclick: () => this.add(choice), onkeydown: (event) => this.press(event),
      ondragstart: (event) => event.dataTransfer.setData("text/x-block", choice.name),
    }, icon(choice.icon), h("span", {}, h("strong", {}, choice.name), h("span", { class: "note" }, prose(choice.summary))));
  }

  // Arrow keys move through the choices. Enter in the search field adds the first one.
  press(event) {
    const choices = [...this.box.querySelectorAll(".choice")], at = choices.indexOf(event.target);
    if (event.key === "Enter" && event.target === this.search) choices[0]?.click();
    else if (event.key === "ArrowDown") (choices[at + 1] ?? choices.at(-1))?.focus();
    else if (event.key === "ArrowUp") (choices[at - 1] ?? this.search).focus();
    else return;
    event.preventDefault();
  }
}
