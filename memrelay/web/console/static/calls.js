// Calls the public API, and describes answers that are no success.
"use strict";

const calls = (() => {
  const { root } = document.documentElement.dataset;   // the path below which the server lies, "" for none
  const LOGGED_OUT = "You are logged out. Log in again.";
  const SILENT = "The server does not respond. The change may still be applied; send it again to be sure.";

  // Sends a call. GET and DELETE have their fields in the URL. The status is 0 if there is no complete answer.
  async function call(line, body = {}, headers = {}, signal = null) {
    const [method, path] = line.split(" "), isBodiless = method === "GET" || method === "DELETE";
    const fields = isBodiless ? new URLSearchParams(Object.entries(body)).toString() : "";
    try {
      const response = await fetch(fields ? `${path}${path.includes("?") ? "&" : "?"}${fields}` : path, {
        method, signal,
        headers: { Accept: "application/json", ...(method === "GET" ? {} : { "Content-Type": "application/json" }), ...headers },
        body: isBodiless ? undefined : JSON.stringify(body),
      });
      const text = await response.text();
      return { ok: response.ok, status: response.status, body: text ? JSON.parse(text) : null };
    } catch {
      return { ok: false, status: 0, body: null };
    }
  }

  function describe({ status, body }) {
    if (!status) return SILENT;
    if (status === 401) return LOGGED_OUT;
    if (status === 403) return `Permission denied: ${body?.detail ?? "use another key"}.`;
    if (status === 504) return "No response in time. The change may still be applied.";
    return body?.detail ?? `The server answers with error ${status}.`;
  }

  return { call, describe, root };
})();
