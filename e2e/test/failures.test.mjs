// Faults of the endpoint: each is an error that the person can read, and nothing of it enters the history.
import assert from "node:assert/strict";
import { call, cutBefore, cutBeforeHeaders, endBefore, finishing, status, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

/** What the client keeps of a fault that may pass by itself: the Connect code and the message. */
const PASSING = /^\[unavailable\] model "default": \S/;
/** What it keeps of one that needs a mend: title and detail. */
const LASTING = /^The model endpoint \w[^.]*\. model "default": \S/;

/**
 * A good turn, then the failing one, then a good one whose body extends all before it and holds nothing of the failure.
 * `fresh` asks a server that knows only what the client holds: it must come to the very same history.
 */
async function failsOnce(scene, { answers, kind = PASSING, expected = /\S/, never, fresh = false }) {
  scene.endpoint.script(text("good one"));
  assert.equal((await scene.client.turn("First")).text, "good one");
  scene.endpoint.script(...answers);
  const failed = await scene.client.turn("Second");
  assert.equal(failed.status, "error");
  assert.match(failed.error ?? "", kind);
  assert.ok(!failed.error.includes(scene.endpointKey), "no key is shown");
  assert.match(failed.error, expected);
  assert.equal(scene.endpoint.left, 0, "the endpoint was asked as often as expected");
  assert.ok(!failed.updates.some((update) => update.type === "turn-ended"), "a failed run has no end of turn");
  const asked = scene.endpoint.requests.length;
  scene.endpoint.script(text("good two"));
  const next = await scene.client.turn("Third");
  assert.equal(next.text, "good two", next.error);
  assert.equal(scene.endpoint.requests.length, asked + 1);
  assert.deepEqual(
    scene.body(-1).messages.filter((message) => message.role === "assistant").map((message) => message.content),
    ["good one"],
  );
  if (never) assert.ok(!scene.endpoint.requests.at(-1).text.includes(never));
  if (fresh) {
    await scene.restart({ emptyData: true });
    scene.endpoint.script(text("good three"));
    assert.equal((await scene.client.turn("Fourth")).text, "good three");
  }
  return failed;
}

scenario("401 is asked once, says what the endpoint said and what to mend, and shows no key", {}, (scene) =>
  failsOnce(scene, {
    answers: [status(401, `the key ${scene.endpointKey} is not known here`)],
    kind: LASTING,
    expected: /401.*is not known here.*api_key_env/s,
    fresh: true,
  }));

scenario("400 is asked once and says what the endpoint said", {}, (scene) =>
  failsOnce(scene, {
    answers: [status(400, "this model takes no such parameter")],
    kind: LASTING,
    expected: /400.*this model takes no such parameter/s,
  }));

scenario("429 is waited out and asked again with the very same body", {}, async (scene) => {
  scene.endpoint.script(status(429, "slow down", { "retry-after": "1" }), text("after all"));
  const started = Date.now();
  const run = await scene.client.turn("Hello");
  assert.equal(run.text, "after all", run.error);
  assert.ok(Date.now() - started >= 1000, "retry-after is honoured");
  assert.equal(scene.endpoint.requests[0].text, scene.endpoint.requests[1].text);
});

scenario("a connection that closes before any answer is tried again with the very same body", {}, async (scene) => {
  scene.endpoint.script(cutBeforeHeaders(), text("second try"));
  const run = await scene.client.turn("Hello");
  assert.equal(run.text, "second try", run.error);
  assert.equal(scene.endpoint.requests[0].text, scene.endpoint.requests[1].text);
});

scenario("500 without end becomes an error after a bounded number of equal tries", {}, async (scene) => {
  scene.endpoint.otherwise(status(500, "the engine is on fire"));
  const run = await scene.client.turn("Hello");
  assert.equal(run.status, "error");
  assert.match(run.error ?? "", /the engine is on fire/);
  const bodies = scene.endpoint.requests.map((request) => request.text);
  assert.ok(bodies.length <= 6, `${bodies.length} tries`);
  assert.equal(new Set(bodies).size, 1);
});

scenario("a cut inside the text is an error", {}, async (scene) => {
  const failed = await failsOnce(scene, {
    answers: [cutBefore(text(["the first half ", "the second half"]), '"the second half"')],
    never: "the first half",
    fresh: true,
  });
  assert.equal(failed.shown, "the first half ");
});

for (const [name, cut] of [["a cut", cutBefore], ["an early end", endBefore]]) {
  scenario(`${name} inside the arguments of a call runs nothing`, {}, async (scene) => {
    const answer = call("call_cut", "Write", { path: scene.path("never.txt"), contents: "x".repeat(400) });
    await failsOnce(scene, { answers: [cut(answer, 'x"}')], never: "call_cut", fresh: true });
    assert.ok(!scene.exists("never.txt"));
  });

  scenario(`${name} after whole arguments and before the terminal event runs nothing`, {}, async (scene) => {
    const answer = call("call_cut", "Write", { path: scene.path("never.txt"), contents: "x" });
    await failsOnce(scene, { answers: [cut(answer, finishing("tool_calls"))], never: "call_cut" });
    assert.ok(!scene.exists("never.txt"));
  });
}

scenario("a body that ends after text without a terminal event is an error", {}, (scene) =>
  failsOnce(scene, {
    answers: [endBefore(text("looks complete"), finishing("stop"))],
    never: "looks complete",
  }));

scenario("an error object inside the stream is an error with its message", {}, (scene) => {
  const answer = text(["half-said ", "text"]);
  const body = answer.body.replace(/data: \[DONE\]\n\n$/, "").split("\n\n").slice(0, 2).join("\n\n");
  return failsOnce(scene, {
    answers: [{ ...answer, body: `${body}\n\ndata: {"error":{"message":"quota of the day is used up"}}\n\ndata: [DONE]\n\n` }],
    expected: /quota of the day is used up/,
    never: "half-said ",
  });
});

scenario("a failure after a settled round keeps the round", { files: { "a.txt": "kept\n" } }, async (scene) => {
  scene.endpoint.script(call("call_kept", "Shell", { command: "echo run >> runs.log; cat a.txt" }), status(401, "expired"));
  const failed = await scene.client.turn("Go.");
  assert.equal(failed.status, "error");
  assert.match(failed.error ?? "", /expired/);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("went on"));
  const next = await scene.client.turn("Go on.");
  assert.equal(next.text, "went on", next.error);
  assert.match(scene.results().call_kept, /kept/);
  assert.equal(scene.read("runs.log"), "run\n", "the command ran once");
});

scenario("the log at its finest holds no prompt, no result, no answer and no key", { files: { "note.txt": "RESULT-CANARY\n" } }, async (scene) => {
  scene.endpoint.script(
    call("call_read", "Read", { path: scene.path("note.txt") }, { reasoning: ["THOUGHT-CANARY"], before: "ANSWER-CANARY" }),
    call("call_run", "Shell", { command: "echo OUTPUT-CANARY" }),
    status(400, `no: PROMPT-CANARY with ${scene.endpointKey}`),
  );
  const run = await scene.client.turn("Say PROMPT-CANARY.");
  assert.equal(run.status, "error");
  assert.match(run.error ?? "", /no: PROMPT-CANARY/);
  const log = scene.cairn.log;
  // It says enough to follow the run: the call and the exec that carries it out.
  assert.match(log, /call=call_run exec_id=\d+/);
  for (const secret of ["CANARY", "note.txt", scene.endpointKey]) assert.ok(!log.includes(secret), `the log holds ${secret}`);
});
