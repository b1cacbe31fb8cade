// The client gives a run up after 30 seconds without a frame; neither a slow model nor a slow command may cost a run.
import assert from "node:assert/strict";
import { describe } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { call, hold, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

const LONGER_THAN_THE_CLIENT_WAITS_MS = 32_000;

describe("silence", { concurrency: true }, () => {
  scenario("a model that thinks for long without a word keeps its run", {}, async (scene) => {
    const held = hold(text("worth the wait"), "data: ");
    scene.endpoint.script(held);
    const run = await scene.client.send("Think hard.");
    await held.reached;
    await pause(LONGER_THAN_THE_CLIENT_WAITS_MS);
    held.release();
    const outcome = await run.ended();
    assert.equal(outcome.text, "worth the wait", outcome.error);
  });

  scenario("a command without output keeps its run", {}, async (scene) => {
    const seconds = LONGER_THAN_THE_CLIENT_WAITS_MS / 1000;
    scene.endpoint.script(call("call_long", "Shell", { command: `sleep ${seconds}; echo awake`, block_until_ms: 60_000 }), text("done"));
    const run = await scene.client.turn("Sleep.");
    assert.equal(run.text, "done", run.error);
    assert.match(scene.results().call_long, /awake/);
  });
});
