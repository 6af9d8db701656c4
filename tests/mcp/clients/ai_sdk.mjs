// Calls tools with the client of Vercel's AI SDK. Its input and output are those of n8n.mjs.
const [url, key] = process.argv.slice(2);
const { createMCPClient } = await import(`${process.env.NPM_PACKAGES}/@ai-sdk/mcp/dist/index.js`);

let input = "";
for await (const piece of process.stdin) input += piece;
const headers = { Authorization: `Bearer ${key}` };
const client = await createMCPClient({ transport: { type: "http", url, headers } });
const tools = await client.tools();
console.log(JSON.stringify(Object.keys(tools)));
let guid = "";
for (const [name, given] of JSON.parse(input)) {
  const sent = JSON.parse(JSON.stringify(given).replaceAll("$GUID", guid));
  const result = await tools[name].execute(sent, { toolCallId: "call_1", messages: [] });
  const text = result.content.map((one) => one.text).join("");
  guid ||= /"guid":"([^"]+)"/.exec(text)?.[1] ?? "";
  console.log(JSON.stringify({ error: Boolean(result.isError), text }));
}
await client.close();
