// Connects a client by OAuth. Arguments: `sdk` or `ai`, the URL, and the URL of a metadata document
// or "". It prints each authorization URL, and reads the parameters at the redirect URI from stdin
// as a line of JSON. At last it prints the answers of two tools.
import { createInterface } from "node:readline";

const [kind, url, documentUrl] = process.argv.slice(2);
const packages = process.env.NPM_PACKAGES;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const kept = { client: undefined, tokens: undefined, verifier: "", state: "", server: undefined };
if (kind === "ai" && documentUrl) kept.client = { client_id: documentUrl };
const provider = {
  redirectUrl: "http://127.0.0.1:50002/callback",
  clientMetadataUrl: documentUrl || undefined,
  clientMetadata: { client_name: "TypeScript", redirect_uris: ["http://127.0.0.1:50002/callback"] },
  state: () => "state-1",
  saveState: (state) => { kept.state = state; },
  storedState: () => kept.state,
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  authorizationServerInformation: () => kept.server,
  saveAuthorizationServerInformation: (server) => { kept.server = server; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (asked) => { console.log(JSON.stringify({ asked: String(asked) })); },
};

async function readCallback() {
  const answer = JSON.parse((await lines.next()).value);
  if (answer.state !== "state-1") throw new Error("the state differs");
  return answer;
}

function print(first, second) {
  const ids = { client: kept.client.client_id, scope: kept.tokens.scope };
  console.log(JSON.stringify({ ...ids, first, second }));
}

async function runSdk() {
  const base = `${packages}/@modelcontextprotocol/sdk/dist/esm/client`;
  const { Client } = await import(`${base}/index.js`);
  const { StreamableHTTPClientTransport } = await import(`${base}/streamableHttp.js`);
  const { UnauthorizedError } = await import(`${base}/auth.js`);
  let transport, client;
  const connect = async () => {
    transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
  };
  const call = async (name, given) => (await client.callTool({ name, arguments: given })).content[0].text;
  const authorized = async (run) => {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await transport.finishAuth((await readCallback()).code);
      return null;
    }
  };
  if (await authorized(connect) === null) await connect();
  const first = await call("memory_remember", { text: "Ben likes coffee" });
  // With a refresh token, the SDK refreshes instead of asking the user, and gets no more scopes.
  kept.tokens = { ...kept.tokens, refresh_token: undefined };
  let second = await authorized(() => call("memory_read", { memory: "*" }));
  if (second === null) {
    await connect();
    second = await call("memory_read", { memory: "*" });
  }
  print(first, second);
  await client.close();
}

async function runAi() {
  const { auth, createMCPClient, UnauthorizedError } = await import(`${packages}/@ai-sdk/mcp/dist/index.js`);
  const connect = () => createMCPClient({ transport: { type: "http", url, authProvider: provider } });
  let client;
  try {
    client = await connect();
  } catch (error) {
    if (!(error instanceof UnauthorizedError || error.cause instanceof UnauthorizedError)) throw error;
    const { code, state, iss } = await readCallback();
    await auth(provider, { serverUrl: url, authorizationCode: code, callbackState: state, callbackIssuer: iss });
    client = await connect();
  }
  const tools = await client.tools();
  const call = async (name, given) => {
    const result = await tools[name].execute(given, { toolCallId: "call_1", messages: [] });
    return result.content.map((one) => one.text).join("");
  };
  const first = await call("memory_remember", { text: "Ben likes coffee" });
  print(first, await call("memory_recall", { query: "coffee" }));
  await client.close();
}

await (kind === "sdk" ? runSdk() : runAi());
process.exit(0);
