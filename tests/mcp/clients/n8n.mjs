// Calls tools as n8n's MCP nodes do, with the SDK that they use.
//
// Arguments: the URL and the key. NPM_PACKAGES names the folder of the packages. Standard input is
// a JSON list of calls [tool, arguments, node]; each answer is a line of JSON. The nodes are those
// of @n8n/n8n-nodes-langchain 2.41.1:
//   "client": the node MCP Client sends its parameters as they are
//   "agent":  an agent's call passes a zod schema, which fills in defaults
//   "tool":   the node MCP Client Tool sends the item without `tool`, with the schema's fields only
//   "before": earlier versions of that node also sent all other fields of the item
const [url, key] = process.argv.slice(2);
const sdk = `${process.env.NPM_PACKAGES}/@modelcontextprotocol/sdk/dist/esm`;
const { Client } = await import(`${sdk}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
const { CallToolResultSchema } = await import(`${sdk}/types.js`);

function argumentsOf(node, given, schema) {
  if (node === "client") return given;
  const { tool, ...fields } = given;
  if (node === "before") return fields;
  const known = Object.entries(schema.properties).filter(
    ([name, one]) => name in fields || (node === "agent" && one.default !== undefined),
  );
  return Object.fromEntries(known.map(([name, one]) => [name, fields[name] ?? one.default]));
}

let input = "";
for await (const piece of process.stdin) input += piece;
const client = new Client(
  { name: "@n8n/n8n-nodes-langchain.mcpClientTool", version: "1.4" },
  { capabilities: {} },
);
const headers = { Authorization: `Bearer ${key}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();
console.log(JSON.stringify(tools.map((tool) => tool.name)));
let guid = "";
for (const [name, given, node] of JSON.parse(input)) {
  const { inputSchema } = tools.find((tool) => tool.name === name);
  const filled = JSON.parse(JSON.stringify(given).replaceAll("$GUID", guid));
  const sent = argumentsOf(node, filled, inputSchema);
  const result = await client.callTool({ name, arguments: sent }, CallToolResultSchema);
  const text = result.content.map((one) => one.text).join("");
  guid ||= /"guid":"([^"]+)"/.exec(text)?.[1] ?? "";
  console.log(JSON.stringify({ error: Boolean(result.isError), text }));
}
await client.close();
