// Turns without tools: what is shown, what the endpoint gets, and what survives a restart.
import assert from "node:assert/strict";
import { call, inPiecesOf, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

/** Text of a user message, whether plain or in parts. */
const contentOf = (message) =>
  typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join("");

scenario("an answer in text is shown as it comes, with the usage that the endpoint reported", {}, async (scene) => {
  scene.endpoint.script(text(["Hel", "lo — ", "世界"], { usage: { prompt_tokens: 321, completion_tokens: 7, total_tokens: 328 } }));
  const run = await scene.client.turn("Say hello.");
  assert.equal(run.status, "finished", run.error);
  assert.equal(run.text, "Hello — 世界");
  assert.equal(run.shown, "Hello — 世界");
  const ended = run.updates.find((update) => update.type === "turn-ended");
  assert.equal(ended.usage.inputTokens, 321);
  assert.equal(ended.usage.outputTokens, 7);
  assert.equal(scene.body(0).model, "scripted");
  assert.match(contentOf(scene.body(0).messages.at(-1)), /Say hello\./);
});

scenario("text, reasoning and arguments arrive whole however the stream is cut", {}, async (scene) => {
  const contents = "naïve — 世界 🌍\n";
  scene.endpoint.script(
    inPiecesOf(1, call("call_1", "Write", { path: scene.path("a.txt"), contents }, { reasoning: ["думаю 🤔"], before: "Ich schäle 🍎 " })),
    inPiecesOf(3, text(["fertig ✅", "🏁"])),
  );
  const run = await scene.client.turn("Go.");
  assert.equal(run.text, "fertig ✅🏁", run.error);
  assert.equal(run.shown, "Ich schäle 🍎 fertig ✅🏁");
  assert.equal(scene.read("a.txt"), contents);
  assert.equal(scene.body(1).messages.find((message) => message.role === "assistant").reasoning_content, "думаю 🤔");
});

scenario("an answer of 200 kB is shown whole and kept whole", {}, async (scene) => {
  const pieces = Array.from({ length: 2000 }, (_, index) => `${index} `.padEnd(100, "·x"));
  const whole = pieces.join("");
  scene.endpoint.script(text(pieces), text("two"));
  const run = await scene.client.turn("Write much.");
  assert.equal(run.shown, whole);
  await scene.restart({ emptyData: true });
  assert.equal((await scene.client.turn("And now?")).text, "two");
  assert.equal(scene.body(1).messages.find((message) => message.role === "assistant").content, whole);
});

scenario("every turn extends the one before", {}, async (scene) => {
  scene.endpoint.script(text("one"), text("two"), text("three"));
  for (const [index, answer] of ["one", "two", "three"].entries()) {
    const run = await scene.client.turn(`Question ${index}`);
    assert.equal(run.text, answer, run.error);
  }
  assert.equal(scene.endpoint.requests.length, 3);
  const { messages } = scene.body(2);
  assert.deepEqual(
    messages.filter((message) => message.role === "assistant").map((message) => message.content),
    ["one", "two"],
  );
  assert.match(contentOf(messages.at(-1)), /Question 2/);
});

for (const [name, options] of [
  ["a restart of both sides", {}],
  ["a kill of cairn", { kill: true }],
  ["a restart with an empty data folder", { emptyData: true }],
]) {
  scenario(`the conversation goes on after ${name}`, {}, async (scene) => {
    scene.endpoint.script(text("first answer"), text("second answer"), text("third answer"));
    assert.equal((await scene.client.turn("First")).status, "finished");
    await scene.restart(options);
    assert.equal((await scene.client.turn("Second")).text, "second answer");
    await scene.restart(options);
    const run = await scene.client.turn("Third");
    assert.equal(run.text, "third answer", run.error);
    assert.deepEqual(
      scene.body(2).messages.filter((message) => message.role === "assistant").map((message) => message.content),
      ["first answer", "second answer"],
    );
  });
}

scenario(
  "a rule of the workspace reaches the model and stays where it was put",
  {
    files: {
      ".cursor/rules/always.mdc": "---\nalwaysApply: true\n---\nAlways mention the lighthouse.\n",
      ...Object.fromEntries(
        ["quartz", "basalt", "granite", "marble", "slate"].map((name) => [
          `.cursor/rules/${name}.mdc`,
          `---\nalwaysApply: true\n---\nRule about ${name}.\n`,
        ]),
      ),
      "AGENTS.md": "Agents here speak of the harbour.\n",
    },
  },
  async (scene) => {
    scene.endpoint.script(text("one"), text("two"), text("three"));
    assert.equal((await scene.client.turn("First")).status, "finished");
    for (const words of ["Always mention the lighthouse.", "Rule about marble.", "Agents here speak of the harbour."]) {
      assert.equal(scene.endpoint.requests[0].text.split(words).length - 1, 1, `"${words}" stands once in the prompt`);
    }
    // The client lists rules in another order in each process; the prompt must not follow it.
    await scene.restart();
    assert.equal((await scene.client.turn("Second")).status, "finished");
    await scene.restart({ emptyData: true });
    assert.equal((await scene.client.turn("Third")).status, "finished");
    const latest = scene.endpoint.requests[2].text;
    assert.equal(latest.split("Always mention the lighthouse.").length - 1, 1, "the rule is not repeated");
  },
);

scenario("a rule that changes is appended once and rewrites nothing", {
  files: { ".cursor/rules/mood.mdc": "---\nalwaysApply: true\n---\nMood: calm.\n" },
}, async (scene) => {
  scene.endpoint.script(text("one"), text("two"), text("three"));
  await scene.client.turn("First");
  scene.write(".cursor/rules/mood.mdc", "---\nalwaysApply: true\n---\nMood: stormy.\n");
  // A new client process reads its rules anew.
  await scene.restart();
  await scene.client.turn("Second");
  await scene.client.turn("Third");
  assert.ok(scene.endpoint.requests[0].text.includes("Mood: calm."));
  assert.ok(!scene.endpoint.requests[0].text.includes("Mood: stormy."));
  assert.equal(scene.endpoint.requests[2].text.split("Mood: stormy.").length - 1, 1);
});

scenario("a wrong client key and an unlisted model are refused before any run", {}, async (scene) => {
  await assert.rejects(scene.openOther({ key: "wrong" }), { name: "AuthenticationError" });
  await assert.rejects(scene.openOther({ model: "nowhere" }), (error) => {
    assert.equal(error.name, "ConfigurationError");
    assert.match(error.message, /default/);
    return true;
  });
  assert.equal(scene.endpoint.requests.length, 0);
});
