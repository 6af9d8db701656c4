// Calls the public API below the root of the server.

// `json` is sent as JSON, `text` as it is. The status is 0 if there is no complete answer.
export async function ask(method, path, { json, text, headers = {} } = {}) {
  const body = text ?? (json === undefined ? undefined : JSON.stringify(json));
  try {
    const response = await fetch(calls.root + path, {
      method, body, headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    });
    const content = await response.text();
    return { ok: response.ok, status: response.status, etag: (response.headers.get("ETag") ?? "").replaceAll('"', ""), body: content ? JSON.parse(content) : null };
  } catch {
    return { ok: false, status: 0, etag: "", body: null };
  }
}
