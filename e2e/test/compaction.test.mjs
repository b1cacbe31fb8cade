// A conversation that outgrows its model goes on from a summary, once, and wherever it is taken up again.
import assert from "node:assert/strict";
import { call, hold, status, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

/** Above what cairn lets a context of 128,000 tokens fill up to. */
const LARGE = { usage: { prompt_tokens: 110_000, completion_tokens: 1_000, total_tokens: 111_000 } };

const beginnings = (scene) => scene.body(-1).messages.map(({ role, content }) => `${role} ${content.match(/^<\w+>/)?.[0] ?? content}`);

for (const emptyData of [false, true]) {
  const data = emptyData ? "with nothing" : "with its data";
  scenario(`a full conversation is summarised and goes on after a restart ${data}`, { files: { "a.txt": "alpha\n" } }, async (scene) => {
    scene.endpoint.script(call("call_a", "Read", { path: scene.path("a.txt") }), text("alpha is in it", LARGE));
    assert.equal((await scene.client.turn("What is in a.txt?")).text, "alpha is in it");
    // It is full, and only the client's state says so.
    await scene.restart({ emptyData });
    scene.endpoint.script(text("The first gist.", LARGE), text("one"));
    const run = await scene.client.turn("One?");
    assert.equal(run.text, "one", run.error);
    assert.deepEqual(run.events.filter((event) => event.type === "task").map((event) => event.text), ["The first gist."]);
    assert.deepEqual(beginnings(scene), [
      `system ${scene.body(0).messages[0].content}`,
      "user <request_context>",
      "user <conversation_summary>",
      "user <turn_info>",
    ]);
    assert.match(scene.body(-1).messages[2].content, /The first gist\./);
    await scene.restart({ emptyData });
    scene.endpoint.script(text("two"), text("three", LARGE));
    for (const said of ["two", "three"]) {
      const next = await scene.client.turn(`${said}?`);
      assert.equal(next.text, said, next.error);
    }
    assert.deepEqual(scene.endpoint.resets, [3]);
    // The summary and its archive came back from the client.
    await scene.logged(/state of the client.* archives=1/);
    scene.endpoint.script(text("The second gist."), text("four"));
    assert.equal((await scene.client.turn("four?")).text, "four");
    assert.deepEqual(scene.endpoint.resets, [3, 7]);
    assert.equal(scene.body(-1).messages.length, 4);
    assert.match(scene.body(-1).messages[2].content, /The second gist\./);
    scene.endpoint.script(text("five"));
    assert.equal((await scene.client.turn("five?")).text, "five");
    await scene.logged(/state of the client.* archives=2/);
  });

  scenario(`cairn is killed while it summarises and comes back ${data}`, {}, async (scene) => {
    const held = hold(text("never read"), '"never read"');
    scene.endpoint.script(text("zero", LARGE), held);
    assert.equal((await scene.client.turn("Zeroth")).text, "zero");
    const run = await scene.client.send("One?");
    await held.reached;
    await scene.restartCairn({ kill: true, emptyData });
    assert.equal((await run.ended()).status, "error");
    scene.endpoint.script(text("The gist."), text("two"));
    const next = await scene.client.turn("Two?");
    assert.equal(next.text, "two", next.error);
    assert.deepEqual(scene.endpoint.resets, [3]);
    // Nobody has answered the first question, so it still stands.
    const asked = scene.userTexts().slice(-2).map((said) => said.match(/<user_query>\n(.*)\n/)[1]);
    assert.deepEqual(asked, ["One?", "Two?"]);
  });
}

scenario("between two rounds the conversation is summarised and the turn goes on", { files: { "a.txt": "alpha\n" } }, async (scene) => {
  const read = (id, options) => call(id, "Read", { path: scene.path("a.txt") }, options);
  scene.endpoint.script(read("call_a"), read("call_b", LARGE), text("The gist."), read("call_c"), text("done"));
  const run = await scene.client.turn("Read it thrice.");
  assert.equal(run.text, "done", run.error);
  assert.deepEqual(scene.endpoint.resets, [3]);
  assert.deepEqual(scene.resultOrder(), ["call_c"]);
  // The turn that the client shows has all of its calls.
  const shown = run.events.filter((event) => event.type === "tool_call" && event.status === "completed");
  assert.deepEqual(shown.map((event) => event.call_id), ["call_a", "call_b", "call_c"]);
});

scenario("an endpoint that refuses a conversation as too long gets it summarised", {}, async (scene) => {
  scene.endpoint.script(
    text("zero"),
    status(400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."),
    text("The gist."),
    text("one"),
  );
  assert.equal((await scene.client.turn("Zeroth")).text, "zero");
  const run = await scene.client.turn("One?");
  assert.equal(run.text, "one", run.error);
  assert.deepEqual(scene.endpoint.resets, [3]);
});

scenario("without a summary the conversation stays as it was and the person reads why", {}, async (scene) => {
  scene.endpoint.script(text("zero", LARGE), status(403, "no summaries today"), text("one", LARGE));
  assert.equal((await scene.client.turn("Zeroth")).text, "zero");
  const run = await scene.client.turn("One?");
  assert.equal(run.status, "finished", run.error);
  assert.match(run.text, /could not be summarised and stays as it is: .*no summaries today.*one$/s);
  assert.deepEqual(scene.endpoint.resets, []);
  assert.deepEqual(scene.body(-1).messages.slice(-2).map(({ role }) => role), ["assistant", "user"]);
});
