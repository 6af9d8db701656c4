// The JSON view: CodeMirror with completion from the bundle's schema and faults at their lines. It is loaded when its
// tab opens. It lies in a shadow root, whose adopted style sheets the content security policy allows.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { completeBundle } from "./json_completion.js";

const COLORS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" }, { tag: tags.string, color: "var(--c1-ink, var(--ink))" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--ink)", fontWeight: "600" },
]);
const THEME = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "var(--ink)", backgroundColor: "var(--sheet)" },
  ".cm-scroller": { fontFamily: "var(--mono)", overflow: "auto" }, "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--soft)", border: "0" }, ".cm-activeLine": { backgroundColor: "transparent" }, ".cm-cursor": { borderLeftColor: "var(--ink)" },
  // Without the images of CodeMirror, which the content security policy blocks.
  ".cm-lint-marker": { content: "normal", width: ".7em", height: ".7em", margin: ".25em 0 0", borderRadius: "50%", backgroundColor: "var(--bad)" }, ".cm-lint-marker-error, .cm-lint-marker-warning, .cm-lint-marker-info": { content: "normal" },
  ".cm-lint-marker-warning": { backgroundColor: "var(--c2-line)" }, ".cm-lintRange": { backgroundImage: "none", textDecoration: "underline wavy var(--c2-line)" }, ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-lintRange-warning, .cm-lintRange-info, .cm-lintRange-hint, .cm-lintRange-active": { backgroundImage: "none" },
  ".cm-tooltip": { backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--rule)" }, ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--note)" },
});

export class JsonView {
  // `host` gets the shadow root. `sources` has schema, blocks (by name) and bundle(). `type(text)` is called for each
  // change that the user makes.
  constructor(host, sources, type) {
    const root = host.attachShadow({ mode: "open" }), box = document.createElement("div");
    box.style.height = "100%";
    root.append(box);
    const listen = EditorView.updateListener.of((update) => { if (update.docChanged && !this.isFilling) type(update.state.doc.toString()); });
    this.lint = jsonParseLinter();
    this.view = new EditorView({
      root, parent: box,
      state: EditorState.create({
        extensions: [
          lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), closeBrackets(), json(), syntaxHighlighting(COLORS), THEME,
          EditorView.lineWrapping, EditorView.contentAttributes.of({ "aria-label": "Bundle as JSON" }), listen,
          autocompletion({ override: [(context) => completeBundle(context, syntaxTree(context.state), sources)] }),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
        ],
      }),
    });
    this.view.scrollDOM.tabIndex = 0;   // it scrolls by keyboard
  }

  get text() { return this.view.state.doc.toString(); }

  // Shows another text, and replaces only the part that differs, so the cursor stays.
  fill(text) {
    const old = this.text;
    if (old === text) return;
    let from = 0, end = 0;
    while (from < Math.min(old.length, text.length) && old[from] === text[from]) from += 1;
    while (end < Math.min(old.length, text.length) - from && old[old.length - 1 - end] === text[text.length - 1 - end]) end += 1;
    this.isFilling = true;
    this.view.dispatch({ changes: { from, to: old.length - end, insert: text.slice(from, text.length - end) } });
    this.isFilling = false;
  }

  // Marks faults of the check, {line, severity, message}, and a text that is not JSON.
  mark(faults) {
    const { state } = this.view, { doc } = state, broken = this.lint(this.view);
    const found = faults.filter((one) => one.line >= 1 && one.line <= doc.lines).map(({ line, severity, message }) => {
      const { from, to, text } = doc.line(line);
      return { from: from + text.length - text.trimStart().length, to, severity: severity === "warning" ? "warning" : "error", message };
    });
    this.view.dispatch(setDiagnostics(state, broken.length ? broken : found));
  }

  open(line) {
    const { doc } = this.view.state, { from } = doc.line(Math.min(Math.max(1, line), doc.lines));
    this.view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
    this.view.focus();
  }

  focus() { this.view.focus(); }
}
