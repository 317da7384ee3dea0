// Holds calls as tasks with the client of the TypeScript SDK 2 and its package for tasks:
// node typescript_tasks.mjs URL begin TOOL ARGS prints a reference of the task, and ends without waiting.
// node typescript_tasks.mjs URL settle REFERENCE prints the result of the task.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.MODULES + "/");
const load = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/" + name)));
const { Client, StreamableHTTPClientTransport } = await load("client");
const folder = require.resolve("@modelcontextprotocol/client").replace(/client\/dist.*/, "");
const { createTaskSessionFromClient, resultFromTaskOutcome } = await import(
  pathToFileURL(folder + "ext-tasks/dist/client/index.js")
);

const [url, action, ...rest] = process.argv.slice(2);
const protocolVersion = "2026-07-28";
const clientInfo = { name: "typescript", version: "2" };
const clientCapabilities = { extensions: { "io.modelcontextprotocol/tasks": {} } };
const authorization = `Bearer ${process.env.TOKEN}`;

// The package leaves the requests about tasks to its host, because the SDK does not know them.
let number = 1000;
const rawDispatch = async (request) => {
  const name = request.params.taskId ?? request.params.name;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      authorization,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": protocolVersion,
      "mcp-method": request.method,
      "mcp-name": name,
    },
    body: JSON.stringify({ ...request, jsonrpc: "2.0", id: number++ }),
  });
  const answer = await response.json();
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
};

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { authorization } },
});
const client = new Client(clientInfo, {
  capabilities: clientCapabilities,
  versionNegotiation: { mode: { pin: protocolVersion } },
});
await client.connect(transport);
const session = createTaskSessionFromClient(client, {
  endpointId: "tests",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
});
if (action === "begin") {
  const execution = await session.callTool(rest[0], JSON.parse(rest[1]));
  if (execution.kind !== "task") throw new Error(`not a task: ${JSON.stringify(execution)}`);
  console.log(JSON.stringify(execution.serializeReference()));
  process.exit(0); // as a host that ends: closing the session would cancel the task
} else {
  const execution = await session.resumeTask(JSON.parse(rest[0]));
  const { outcome } = await execution.settle();
  console.log(JSON.stringify(resultFromTaskOutcome(outcome)));
}
await session.close();
await client.close();
