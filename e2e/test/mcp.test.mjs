// Tools that are not cairn's own: of an MCP server, and of the client's host.
import assert from "node:assert/strict";
import path from "node:path";
import { text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

const SERVER = path.join(import.meta.dirname, "../support/mcp_server.mjs");
const client = {
  mcpServers: { dictionary: { command: process.execPath, args: [SERVER] } },
  customTools: true,
};

const offered = (body) => body.tools.map((tool) => tool.function);

scenario("MCP and custom tools are offered by name, called, and their failure is a result", { client }, async (scene) => {
  scene.endpoint.script(text("hello"));
  assert.equal((await scene.client.turn("Hello.")).text, "hello");
  const tools = offered(scene.body(0));
  const named = (description) => tools.find((tool) => tool.description.includes(description));
  const lookUp = named("Looks a word up.");
  assert.equal(lookUp.name, "dictionary__look_up");
  assert.deepEqual(lookUp.parameters.properties.limit, { type: "integer", minimum: 1, maximum: 9 });
  const add = named("Adds two numbers.");
  const run = await scene.round([
    { id: "call_look", name: lookUp.name, arguments: { word: "φάρος", limit: 3 } },
    { id: "call_fail", name: named("Fails.").name, arguments: {} },
    { id: "call_add", name: add.name, arguments: { a: 2, b: 40 } },
  ]);
  const results = scene.results();
  assert.match(results.call_look, /φάρος means lighthouse/);
  assert.match(results.call_look, /"limit":3\b/);
  assert.match(results.call_fail, /the dictionary is shut/);
  assert.match(results.call_add, /the sum is 42/);
  assert.deepEqual(run.tools.map((tool) => tool.name), ["mcp", "mcp", "mcp"]);
  // A new client process lists the same tools again; the prompt must not move.
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("still here"));
  assert.equal((await scene.client.turn("Still here?")).text, "still here");
});

scenario("a server's tools and resources are reached by their names", { client }, async (scene) => {
  const list = { id: "call_list", name: "GetMcpTools", arguments: {} };
  const one = { id: "call_one", name: "GetMcpTools", arguments: { server: "dictionary", tool_name: "look_up" } };
  await scene.round([list, one]);
  assert.match(scene.results().call_list, /^server: dictionary$/m);
  assert.match(scene.results().call_list, /^instructions: Look words up before you guess\.$/m);
  assert.match(scene.results().call_list, /^- tool: always\.fails$/m);
  assert.match(scene.results().call_one, /^ {2}arguments: \{.*"maximum":9,"minimum":1,.*\}$/m);

  const byName = (id, tool_name, args) => ({ id, name: "CallMcpTool", arguments: { server: "dictionary", tool_name, arguments: args } });
  const resource = (id, uri) => ({ id, name: "FetchMcpResource", arguments: { server: "dictionary", uri } });
  await scene.round([
    byName("call_look", "look_up", { word: "φάρος", limit: 3 }),
    byName("call_fail", "always.fails", {}),
    byName("call_none", "gone", {}),
    resource("call_sea", "word://sea"),
    resource("call_sky", "word://sky"),
  ]);
  const results = scene.results();
  assert.match(results.call_look, /^φάρος means lighthouse; arguments \{"limit":3,"word":"φάρος"\}$/);
  assert.match(results.call_fail, /the dictionary is shut/);
  assert.match(results.call_none, /^No tool gone of a server dictionary is known\. GetMcpTools shows/);
  assert.equal(results.call_sea, "sea: a large body of salt water");
  assert.match(results.call_sky, /^word:\/\/sky of the MCP server dictionary could not be read: .*\nThe server has:\n- word:\/\/sea: sea\n- word:\/\/shore: shore$/);
});
