// The person stops a run: the provider call ends too, and the conversation goes on from a valid history.
import assert from "node:assert/strict";
import { call, calls, hold, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

scenario("a stop in the middle of the text ends the provider call and the next turn works", {}, async (scene) => {
  const held = hold(text(["beginning-of-the-stopped ", "end-of-the-stopped"]), '"end-of-the-stopped"');
  scene.endpoint.script(text("before"), held, text("after"));
  await scene.client.turn("First");
  const run = await scene.client.send("Second");
  await run.seen((update) => update.type === "text-delta");
  await run.cancel();
  assert.equal((await run.ended()).status, "cancelled");
  await held.closed;
  const next = await scene.client.turn("Third");
  assert.equal(next.text, "after", next.error);
  assert.ok(!scene.endpoint.requests.at(-1).text.includes("of-the-stopped"), "nothing of a stopped answer is history");
  assert.deepEqual(scene.userTexts().filter((content) => /First|Second|Third/.test(content)).length, 3);
});

scenario("a stop while arguments stream runs nothing", {}, async (scene) => {
  const held = hold(call("call_half", "Write", { path: scene.path("never.txt"), contents: "y".repeat(300) }), 'y"}');
  scene.endpoint.script(held, text("after"));
  const run = await scene.client.send("Go.");
  await held.reached;
  await run.cancel();
  assert.equal((await run.ended()).status, "cancelled");
  await held.closed;
  const next = await scene.client.turn("Never mind.");
  assert.equal(next.text, "after", next.error);
  assert.ok(!scene.exists("never.txt"));
  assert.ok(!scene.endpoint.requests.at(-1).text.includes("call_half"));
});

scenario("a stop during a command leaves a history that every endpoint takes", {}, async (scene) => {
  scene.endpoint.script(
    calls([
      { id: "call_quick", name: "Shell", arguments: { command: "until [ -e go ]; do sleep 0.05; done; echo quick" } },
      { id: "call_slow", name: "Shell", arguments: { command: "echo started; sleep 30" } },
    ]),
    text("after"),
  );
  const run = await scene.client.send("Go.");
  // The state that shows both calls as pending is out before the first one ends: the client reads it first.
  await scene.logged(/checkpoint published pending=true/);
  scene.write("go", "");
  await run.seen((event) => event.type === "tool_call" && event.status === "completed" && event.call_id === "call_quick");
  await run.cancel();
  assert.equal((await run.ended()).status, "cancelled");
  const next = await scene.client.turn("Something else.");
  assert.equal(next.text, "after", next.error);
  assert.deepEqual(scene.resultOrder(), ["call_quick", "call_slow"]);
  const { call_quick: quick, call_slow: slow } = scene.results();
  assert.match(quick, /^quick$/m);
  assert.doesNotMatch(quick, /interrupted/);
  assert.match(slow, /call was interrupted/);
  assert.doesNotMatch(slow, /started/);
  // Pairing and extension are checked by the endpoint; a fresh server must come to the same history.
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("still fine"));
  assert.equal((await scene.client.turn("And now?")).text, "still fine");
});
