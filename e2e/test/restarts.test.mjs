// Ends that nobody prepared: cairn or the client is gone in the middle, and the conversation goes on.
import assert from "node:assert/strict";
import { call, calls, hold, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

const REASONING = ["  First \"think\",\r\n", "then\tact — 考える 🧠 \\u0041 ", "\n\n "];

scenario("reasoning and odd argument texts come back byte for byte after a restart with an empty data folder", {
  files: { "a.txt": "alpha\n" },
}, async (scene) => {
  const path = JSON.stringify(scene.path("a.txt"));
  const raw = `{ "offset":1,\t"path" : ${path.replace("a.txt", "\\u0061.txt")} ,"limit": 10 }\n`;
  scene.endpoint.script(
    calls([{ id: "call|1\n2", name: "Read", arguments: raw }], { reasoning: REASONING, before: "Let me see. " }),
    text("done", { reasoning: ["short"] }),
  );
  const run = await scene.client.turn("Go.");
  assert.equal(run.text, "done", run.error);
  for (const emptyData of [false, true]) {
    await scene.restart({ emptyData });
    scene.endpoint.script(text("again"));
    const next = await scene.client.turn("And now?");
    assert.equal(next.text, "again", next.error);
  }
  const assistants = scene.body(-1).messages.filter((message) => message.role === "assistant");
  assert.equal(assistants[0].reasoning_content, REASONING.join(""));
  assert.equal(assistants[0].content, "Let me see. ");
  assert.equal(assistants[0].tool_calls[0].function.arguments, raw);
  assert.equal(assistants[1].reasoning_content, "short");
});

scenario("the client lives on while cairn is replaced beneath it", {}, async (scene) => {
  scene.endpoint.script(text("one"), text("two"), text("three"));
  assert.equal((await scene.client.turn("First")).text, "one");
  await scene.restartCairn();
  const second = await scene.client.turn("Second");
  assert.equal(second.text, "two", second.error);
  await scene.restartCairn({ kill: true, emptyData: true });
  const third = await scene.client.turn("Third");
  assert.equal(third.text, "three", third.error);
});

for (const emptyData of [false, true]) {
  scenario(`cairn is killed in the middle of a round and comes back ${emptyData ? "with nothing" : "with its data"}`, {}, async (scene) => {
    scene.endpoint.script(
      calls([
        { id: "call_quick", name: "Shell", arguments: { command: "echo quick >> quick.log" } },
        { id: "call_slow", name: "Shell", arguments: { command: "echo slow >> slow.log; until [ -e go ]; do sleep 0.05; done" } },
      ]),
    );
    const run = await scene.client.send("Go.");
    await run.seen((event) => event.type === "tool_call" && event.status === "completed" && event.call_id === "call_quick");
    await scene.appears("slow.log");
    await scene.restartCairn({ kill: true, emptyData });
    assert.equal((await run.ended()).status, "error");
    scene.write("go", "");
    scene.endpoint.script(text("went on"));
    const next = await scene.client.turn("Go on.");
    assert.equal(next.text, "went on", next.error);
    assert.deepEqual(scene.resultOrder().toSorted(), ["call_quick", "call_slow"], "each call has one result");
    assert.equal(scene.read("quick.log") + scene.read("slow.log"), "quick\nslow\n", "no command ran twice");
  });
}

scenario("cairn is stopped in the middle of an answer: the run ends at once and the next one works", {}, async (scene) => {
  const held = hold(text(["half-of-it ", "rest-of-it"]), '"rest-of-it"');
  scene.endpoint.script(text("one"), held);
  assert.equal((await scene.client.turn("First")).text, "one");
  const run = await scene.client.send("Second");
  await run.seen((update) => update.type === "text-delta");
  await scene.restartCairn();
  const cut = await run.ended();
  assert.equal(cut.status, "error");
  await held.closed;
  scene.endpoint.script(text("three"));
  const next = await scene.client.turn("Third");
  assert.equal(next.text, "three", next.error);
  assert.ok(!scene.endpoint.requests.at(-1).text.includes("half-of-it"));
});

scenario("the client is killed in the middle of a round and a new process goes on", {}, async (scene) => {
  scene.endpoint.script(text("zero"), call("call_slow", "Shell", { command: "echo slow >> slow.log; until [ -e go ]; do sleep 0.05; done" }));
  assert.equal((await scene.client.turn("Zeroth")).text, "zero");
  await scene.client.send("Go.");
  await scene.appears("slow.log");
  await scene.client.kill();
  scene.write("go", "");
  await scene.openClient();
  // What the client had on its disk by then decides where it goes on: in any case after the whole turn.
  scene.endpoint.allowReset({ base: 0 });
  scene.endpoint.script(text("went on"));
  const next = await scene.client.turn("Go on.");
  assert.equal(next.text, "went on", next.error);
  assert.equal(scene.read("slow.log"), "slow\n", "the command did not run twice");
});

scenario("two sends at once: one wins, nothing hangs, and the history stays whole", {}, async (scene) => {
  const held = hold(text("first answer"), '"first answer"');
  scene.endpoint.script(text("zero"), held);
  assert.equal((await scene.client.turn("Zeroth")).text, "zero");
  const first = await scene.client.send("First");
  await held.reached;
  // Both start from the same state, so that the second extends the zeroth turn and not the first.
  scene.endpoint.allowReset({ base: 0 });
  scene.endpoint.script(text("second answer"));
  const second = await scene.client.send("Second");
  await held.closed;
  assert.equal((await second.ended()).shown, "second answer");
  await first.ended();
  scene.endpoint.script(text("third answer"));
  const third = await scene.client.turn("Third");
  assert.equal(third.text, "third answer", third.error);
  assert.deepEqual(
    scene.body(-1).messages.filter((message) => message.role === "assistant").map((message) => message.content),
    ["zero", "second answer"],
  );
});
