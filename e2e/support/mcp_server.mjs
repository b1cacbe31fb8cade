// A small MCP server over stdio, as a person might have configured one: a tool that answers, one that fails, and resources.
// With --turned it says the same in another order: its tools, and the keys of their schemas. With --dies it ends at its first call.
import readline from "node:readline";

const TOOLS = [
  {
    name: "look_up",
    description: "Looks a word up.",
    inputSchema: {
      type: "object",
      properties: { word: { type: "string", description: "The word." }, limit: { type: "integer", minimum: 1, maximum: 9 } },
      required: ["word"],
    },
  },
  { name: "always.fails", description: "Fails.", inputSchema: { type: "object", properties: {} } },
];

const RESOURCES = [
  { uri: "word://sea", name: "sea", text: "sea: a large body of salt water" },
  { uri: "word://shore", name: "shore", text: "shore: where the sea ends" },
];
const TURNED = process.argv.includes("--turned");

function turned(value) {
  if (Array.isArray(value)) return value.map(turned);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).reverse().map(([key, inner]) => [key, turned(inner)]));
}

function answer(method, params) {
  if (method === "initialize") {
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {}, resources: {} },
      serverInfo: { name: "dictionary", version: "1" },
      instructions: "Look words up before you guess.",
    };
  }
  if (method === "resources/list") return { resources: RESOURCES.map(({ uri, name }) => ({ uri, name })) };
  const resource = RESOURCES.find(({ uri }) => method === "resources/read" && uri === params.uri);
  if (resource) return { contents: [{ uri: resource.uri, mimeType: "text/plain", text: resource.text }] };
  if (method === "tools/list") return { tools: TURNED ? TOOLS.map(turned).reverse() : TOOLS };
  if (method === "tools/call" && params.name === "look_up") {
    return { content: [{ type: "text", text: `${params.arguments.word} means lighthouse; arguments ${JSON.stringify(params.arguments)}` }] };
  }
  if (method === "tools/call") return { isError: true, content: [{ type: "text", text: "the dictionary is shut" }] };
  return undefined;
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "tools/call" && process.argv.includes("--dies")) process.exit(1);
  const result = answer(method, params);
  const reply = result === undefined ? { error: { code: -32601, message: `no method ${method}` } } : { result };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...reply })}\n`);
});
