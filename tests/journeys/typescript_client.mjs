// Calls tools of an MCP server with the client of the TypeScript SDK, which checks structured content:
// node typescript_client.mjs TARGET CALLS, where TARGET is a URL or a JSON list with a command, and CALLS is [[name, arguments], ...].
// A call whose name has a slash is a request of an extension, such as ["skills/list", {}].
// It prints a list with the result, or the error of the client, of each call.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.MODULES + "/");
const load = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await load("client/index.js");
const { ResultSchema } = await load("types.js");
const [target, calls] = process.argv.slice(2);
let transport;
if (target.startsWith("http")) {
  const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
  const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
  transport = new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
} else {
  const { StdioClientTransport } = await load("client/stdio.js");
  const [command, ...args] = JSON.parse(target);
  transport = new StdioClientTransport({ command, args, env: process.env });
}
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);
await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  try {
    const result = name.includes("/")
      ? await client.request({ method: name, params: args }, ResultSchema)
      : await client.callTool({ name, arguments: args });
    results.push({ result });
  } catch (error) {
    results.push({ error: String(error) });
  }
}
console.log(JSON.stringify(results));
await client.close();
