// What cairn knows of a conversation's size travels in the client's own state: a new client process beside a cairn with an
// empty folder goes by it as if nothing had happened.
import assert from "node:assert/strict";
import path from "node:path";
import { say } from "../support/answers.mjs";
import { every } from "../support/apis.mjs";
import { scenario } from "../support/scenario.mjs";

/** From here on cairn summarises a context of 128,000 tokens, whatever its answers may take of it. */
const THRESHOLD = 108_800;
const SERVER = path.join(import.meta.dirname, "../support/mcp_server.mjs");
const tooLarge = /no summary brings it below the \d+ from which on cairn summarises/;
const told = (run) => run.events.filter((event) => event.type === "task").map((event) => event.text);

for (const api of every) {
  const thought = (answer, tokens) => say({ reasoning: `I say ${answer}.`, text: answer, usage: tokens && api.usage(tokens) });
  const growth = Math.ceil(((128_000 - (api.model.max_output_tokens ?? 0)) * 0.85) / 16);

  scenario(`${api.name}: a summary that did not help is not repeated by who comes back with nothing`, { api }, async (scene) => {
    const turn = async (answer, ...answers) => {
      scene.endpoint.script(...answers);
      const run = await scene.client.turn(`Say ${answer}.`);
      assert.equal(run.status, "finished", run.error);
      await scene.restart({ emptyData: true });
      return run;
    };
    await turn("zero", thought("zero", THRESHOLD));
    const first = await turn("one", thought("The gist."), thought("one", THRESHOLD));
    assert.deepEqual(told(first), ["The gist."]);
    assert.match(first.shown, tooLarge);
    // The figure alone would have it summarised again.
    const second = await turn("two", thought("two", THRESHOLD + 100));
    assert.deepEqual(told(second), []);
    assert.doesNotMatch(second.shown, tooLarge);
    await turn("three", thought("three", THRESHOLD + growth));
    const grown = await turn("four", thought("The second gist."), thought("four", 900));
    assert.deepEqual(told(grown), ["The second gist."]);
    await turn("five", thought("five", 1_000));
    assert.deepEqual(scene.endpoint.resets, [2, 6]);
  });

  scenario(`${api.name}: the tools of a server that is gone are known from the client's own copy`, {
    api,
    client: { mcpServers: { alpha: { command: process.execPath, args: [SERVER] }, beta: { command: process.execPath, args: [SERVER] } } },
  }, async (scene) => {
    scene.endpoint.script(thought("one"));
    assert.equal((await scene.client.turn("Say one.")).text, "one");
    const tools = scene.endpoint.requests[0].rest.get("tools");
    assert.match(tools, /"beta__look_up"/);
    for (const answer of ["two", "three"]) {
      await scene.restart({ emptyData: true });
      await scene.client.close();
      await scene.openClient({ mcpServers: { alpha: { command: process.execPath, args: [SERVER] } } });
      scene.endpoint.script(thought(answer));
      const run = await scene.client.turn(`Say ${answer}.`);
      assert.equal(run.text, answer, run.error);
      assert.equal(scene.endpoint.requests.at(-1).rest.get("tools"), tools);
    }
  });
}

scenario("without counts the conversation is summarised by an estimate, by who comes back with nothing too", {}, async (scene) => {
  const uncounted = (text) => say({ text, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } });
  scene.endpoint.script(uncounted("言".repeat(THRESHOLD)));
  const long = await scene.client.turn("Tell me.");
  assert.equal(long.status, "finished", long.error);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(uncounted("The gist."), uncounted("short"));
  const run = await scene.client.turn("In short?");
  assert.equal(run.text, "short", run.error);
  assert.deepEqual(told(run), ["The gist."]);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(uncounted("sure"));
  assert.equal((await scene.client.turn("Sure?")).text, "sure");
  assert.deepEqual(scene.endpoint.resets, [2]);
});
