// What changes around a conversation, and what of it the endpoint may see: something appended, or a declared reset.
import assert from "node:assert/strict";
import path from "node:path";
import { say } from "../support/answers.mjs";
import { every } from "../support/apis.mjs";
import { scenario } from "../support/scenario.mjs";

const SERVER = path.join(import.meta.dirname, "../support/mcp_server.mjs");
const server = (...args) => ({ command: process.execPath, args: [SERVER, ...args] });
const mood = (word) => `---\nalwaysApply: true\n---\nMood: ${word}.\n`;
const resets = (scene) => scene.cairn.prefix(scene.client.agentId).map((call) => call.reset?.name ?? (call.broken ? "broken" : null));
const contexts = (scene) => scene.userTexts().filter((content) => content.includes("<request_context>"));
/** One pixel. */
const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** An answer after thinking, which goes back where the API takes it. */
const thought = (answer) => say({ reasoning: `I say ${answer}.`, text: answer });
const use = (id, name, args) => say({ reasoning: `I need ${id}.`, calls: [{ id, name, arguments: args }] });

for (const api of every) {
  scenario(`${api.name}: a rule changed and changed back, and a skill added, are appended where they came up`, {
    api,
    files: { ".cursor/rules/mood.mdc": mood("calm") },
  }, async (scene) => {
    const turn = async (answer) => {
      scene.endpoint.script(thought(answer));
      const run = await scene.client.turn(`Say ${answer}.`);
      assert.equal(run.text, answer, run.error);
    };
    await turn("one");
    await turn("two");
    assert.equal(contexts(scene).length, 1, "two equal turns have one context");
    // A new client process reads the workspace anew.
    scene.write(".cursor/rules/mood.mdc", mood("stormy"));
    await scene.restart();
    await turn("three");
    scene.write(".cursor/rules/mood.mdc", mood("calm"));
    await scene.restart({ emptyData: true });
    await turn("four");
    scene.write(".cursor/skills/tides/SKILL.md", "---\nname: tides\ndescription: When ships may leave.\n---\nLook at the moon.\n");
    await scene.restart({ kill: true });
    await turn("five");
    await turn("six");
    const said = contexts(scene);
    assert.equal(said.length, 4);
    assert.equal(said[2], said[0], "from A to B and back to A");
    assert.match(said[1], /Mood: stormy\./);
    assert.match(said[3], /tides\/SKILL\.md/);
    const order = scene.userTexts().map((content) => (content.includes("<request_context>") ? "context" : /Say (\w+)\./.exec(content)[1]));
    assert.deepEqual(order, ["context", "one", "two", "context", "three", "context", "four", "context", "five", "six"]);
  });

  scenario(`${api.name}: MCP servers that come back in another order, or not at all for a while, move no byte of the tools`, {
    api,
    client: { mcpServers: { alpha: server(), beta: server() } },
  }, async (scene) => {
    const again = async (mcpServers, answer) => {
      await scene.client.close();
      await scene.openClient({ mcpServers });
      scene.endpoint.script(thought(answer));
      const run = await scene.client.turn(`Say ${answer}.`);
      assert.equal(run.text, answer, run.error);
    };
    scene.endpoint.script(thought("one"));
    assert.equal((await scene.client.turn("Say one.")).text, "one");
    const tools = scene.endpoint.requests[0].rest.get("tools");
    assert.match(tools, /"alpha__look_up"/);
    await again({ beta: server("--turned"), alpha: server("--turned") }, "two");
    await again({ alpha: server() }, "three");
    // The list and the schemas of a server that is not there are known from the client's state alone.
    await scene.restartCairn({ emptyData: true });
    const run = await scene.round([{ id: "call_gone", name: "beta__look_up", arguments: { word: "x" } }]);
    assert.equal(run.status, "finished");
    assert.match(scene.results().call_gone, /MCP server beta is not connected/);
    await scene.restartCairn();
    await again({ alpha: server(), beta: server() }, "four");
    await scene.round([{ id: "call_back", name: "beta__look_up", arguments: { word: "x" } }]);
    assert.match(scene.results().call_back, /x means lighthouse/);
    for (const { rest } of scene.endpoint.requests) assert.equal(rest.get("tools"), tools);
    assert.equal(scene.endpoint.requests.length, 8);
    assert.deepEqual(resets(scene), Array(5).fill(null), "of the requests after the folder was emptied");
    // A server that was never there brings new tools: one reset, and it is declared.
    scene.endpoint.allowReset({ except: ["tools"] });
    await again({ alpha: server(), beta: server(), aardvark: server() }, "five");
    await again({ aardvark: server(), beta: server("--turned"), alpha: server() }, "six");
    assert.deepEqual(resets(scene).slice(5), ["tools-changed", null]);
  });

  scenario(`${api.name}: a switch of mode is declared, and said once, also after a restart`, { api }, async (scene) => {
    const turn = async (answer, mode) => {
      scene.endpoint.script(thought(answer));
      const run = await scene.client.turn(`Say ${answer}.`, { mode });
      assert.equal(run.text, answer, run.error);
    };
    const switched = () => scene.userTexts().map((content) => /<mode_change>\n.* is in (\w+) mode:/.exec(content)?.[1] ?? null).slice(1);
    await turn("one");
    scene.endpoint.allowReset({ except: api.head });
    await turn("two", "plan");
    await scene.restart();
    await turn("three", "plan");
    scene.endpoint.allowReset({ except: api.head });
    await turn("four", "agent");
    await turn("five");
    assert.deepEqual(resets(scene), [null, "mode-switch", null, "mode-switch", null]);
    assert.deepEqual(switched(), [null, "plan", null, "agent", null]);
    await scene.restart({ emptyData: true });
    await turn("six");
    scene.endpoint.allowReset({ except: api.head });
    await turn("seven", "plan");
    assert.deepEqual(switched(), [null, "plan", null, "agent", null, null, "plan"]);
  });

  scenario(`${api.name}: forty rounds of long outputs and repeated reads, with restarts in between, only grow`, {
    api,
    model: { vision: true },
    files: { "a.txt": "0123456789 line\n".repeat(400), "big.txt": "0123456789 line\n".repeat(13_000) },
  }, async (scene) => {
    scene.write("p.png", PICTURE);
    const rounds = Array.from({ length: 10 }, (_, round) => round);
    const file = (leg, round) => (leg === 0 && round === 4 ? "p.png" : "a.txt");
    for (const leg of [0, 1, 2, 3]) {
      if (leg > 0) await scene.restart({ kill: leg === 2, emptyData: leg === 3 });
      scene.endpoint.script(
        ...rounds.map((round) =>
          round % 2 === 0
            ? use(`call_${leg}_${round}`, "Read", { path: scene.path(file(leg, round)) })
            : use(`call_${leg}_${round}`, "Shell", { command: round === 5 && leg === 1 ? "cat big.txt" : "cat a.txt" }),
        ),
        thought(`leg ${leg}`),
      );
      const run = await scene.client.turn(`Go, leg ${leg}.`);
      assert.equal(run.text, `leg ${leg}`, run.error);
    }
    assert.equal(scene.resultOrder().length, 40);
    assert.equal(scene.endpoint.requests.at(-1).text.split(PICTURE.toString("base64")).length, 2, "the picture is in it once");
    assert.equal(scene.endpoint.requests.length, 44);
    // The last leg began with an empty folder: what came before it is the client's to know.
    const shown = scene.cairn.prefix(scene.client.agentId);
    assert.equal(shown.length, 11);
    shown.forEach((call, index) => {
      assert.equal(call.broken, null);
      assert.equal(call.reset, null);
      if (index > 0) assert.equal(call.shared_items, shown[index - 1].items, "all of the request before is in the next");
    });
  });
}
