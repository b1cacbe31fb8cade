// A conversation that outgrows its model goes on from a summary, once, and wherever it is taken up again.
import assert from "node:assert/strict";
import { hold, say, status } from "../support/answers.mjs";
import { every } from "../support/apis.mjs";
import { scenario } from "../support/scenario.mjs";

/** Above what cairn lets a context of 128,000 tokens fill up to. */
const LARGE = 110_000;

/** What stands behind the instructions; that those stay as they were is what the endpoint judges. */
const messages = (scene) => scene.said().filter(({ kind }) => kind !== "system");
const beginnings = (scene) => messages(scene).map(({ kind, text }) => `${kind} ${text.match(/^<\w+>/)?.[0] ?? text}`);

for (const api of every) {
  /** An answer after thinking; a full one says that the prompt has grown `LARGE`. */
  const thought = (answer, tokens = 100) => say({ reasoning: `I say ${answer}`, text: answer, usage: api.usage(tokens) });
  const full = (answer) => thought(answer, LARGE);
  const read = (scene, id, tokens = 100) =>
    say({
      reasoning: `I need ${id}.`,
      calls: [{ id, name: "Read", arguments: { path: scene.path("a.txt") } }],
      usage: api.usage(tokens),
    });

  for (const emptyData of [false, true]) {
    const data = emptyData ? "with nothing" : "with its data";
    scenario(`${api.name}: a full conversation is summarised and goes on after a restart ${data}`, { api, files: { "a.txt": "alpha\n" } }, async (scene) => {
      scene.endpoint.script(read(scene, "call_a"), full("alpha is in it"));
      assert.equal((await scene.client.turn("What is in a.txt?")).text, "alpha is in it");
      // It is full, and only the client's state says so.
      await scene.restart({ emptyData });
      scene.endpoint.script(full("The first gist."), thought("one"));
      const run = await scene.client.turn("One?");
      assert.equal(run.text, "one", run.error);
      assert.deepEqual(run.events.filter((event) => event.type === "task").map((event) => event.text), ["The first gist."]);
      assert.deepEqual(beginnings(scene), [
        "user <request_context>",
        "user <conversation_summary>",
        "user <turn_info>",
      ]);
      assert.match(messages(scene)[1].text, /The first gist\./);
      await scene.restart({ emptyData });
      scene.endpoint.script(thought("two"), full("three"));
      for (const said of ["two", "three"]) {
        const next = await scene.client.turn(`${said}?`);
        assert.equal(next.text, said, next.error);
      }
      assert.deepEqual(scene.endpoint.resets, [3]);
      // The summary and its archive came back from the client.
      await scene.logged(/state of the client.* archives=1/);
      scene.endpoint.script(thought("The second gist."), thought("four"));
      assert.equal((await scene.client.turn("four?")).text, "four");
      assert.deepEqual(scene.endpoint.resets, [3, 7]);
      assert.equal(messages(scene).length, 3);
      assert.match(messages(scene)[1].text, /The second gist\./);
      scene.endpoint.script(thought("five"));
      assert.equal((await scene.client.turn("five?")).text, "five");
      await scene.logged(/state of the client.* archives=2/);
    });

    scenario(`${api.name}: cairn is killed while it summarises and comes back ${data}`, { api }, async (scene) => {
      const held = hold(scene.endpoint.rendered(say({ text: "never read" })), '" read"');
      scene.endpoint.script(full("zero"), held);
      assert.equal((await scene.client.turn("Zeroth")).text, "zero");
      const run = await scene.client.send("One?");
      await held.reached;
      await scene.restartCairn({ kill: true, emptyData });
      assert.equal((await run.ended()).status, "error");
      scene.endpoint.script(thought("The gist."), thought("two"));
      const next = await scene.client.turn("Two?");
      assert.equal(next.text, "two", next.error);
      assert.deepEqual(scene.endpoint.resets, [3]);
      // Nobody has answered the first question, so it still stands.
      const asked = scene.userTexts().slice(-2).map((said) => said.match(/<user_query>\n(.*)\n/)[1]);
      assert.deepEqual(asked, ["One?", "Two?"]);
    });
  }

  scenario(`${api.name}: between two rounds the conversation is summarised and the turn goes on`, { api, files: { "a.txt": "alpha\n" } }, async (scene) => {
    scene.endpoint.script(
      read(scene, "call_a"),
      read(scene, "call_b", LARGE),
      thought("The gist."),
      read(scene, "call_c"),
      thought("done"),
    );
    const run = await scene.client.turn("Read it thrice.");
    assert.equal(run.text, "done", run.error);
    assert.deepEqual(scene.endpoint.resets, [3]);
    assert.deepEqual(scene.resultOrder(), ["call_c"]);
    // The turn that the client shows has all of its calls.
    const shown = run.events.filter((event) => event.type === "tool_call" && event.status === "completed");
    assert.deepEqual(shown.map((event) => event.call_id), ["call_a", "call_b", "call_c"]);
  });

  scenario(`${api.name}: an endpoint that refuses a conversation as too long gets it summarised`, { api }, async (scene) => {
    scene.endpoint.script(
      thought("zero"),
      status(400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."),
      thought("The gist."),
      thought("one"),
    );
    assert.equal((await scene.client.turn("Zeroth")).text, "zero");
    const run = await scene.client.turn("One?");
    assert.equal(run.text, "one", run.error);
    assert.deepEqual(scene.endpoint.resets, [3]);
  });

  scenario(`${api.name}: without a summary the conversation stays as it was and the person reads why`, { api }, async (scene) => {
    scene.endpoint.script(full("zero"), status(403, "no summaries today"), full("one"));
    assert.equal((await scene.client.turn("Zeroth")).text, "zero");
    const run = await scene.client.turn("One?");
    assert.equal(run.status, "finished", run.error);
    assert.match(run.shown, /could not be summarised and stays as it is: .*no summaries today.*one$/s);
    assert.deepEqual(scene.endpoint.resets, []);
    assert.deepEqual(messages(scene).slice(-2).map(({ kind }) => kind), ["assistant", "user"]);
  });
}
