// Subagents of the official client: each works behind an endpoint of its own, so that each history is judged by itself.
import assert from "node:assert/strict";
import { call, calls, hold, status, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

const UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";

const task = (id, more = {}) => ({
  id,
  name: "Task",
  arguments: { description: "look", prompt: "Where is it?", subagent_type: "generalPurpose", model: "child", ...more },
});

/** The kinds that need no definition, in the order of the refusal. */
const KINDS =
  "generalPurpose, explore, shell, bash, debug, browserUse, computerUse, mediaReview, watchVideo, vmSetupHelper";

/** The messages of an endpoint's latest body. */
const messages = (endpoint) => endpoint.requests.at(-1).json.messages;
const contentOf = ({ content }) => (typeof content === "string" ? content : content.map((part) => part.text ?? "").join(""));
const toolNames = (endpoint) => endpoint.requests.at(-1).json.tools.map((tool) => tool.function.name);

/** The id of the child that a result names. */
function childOf(result) {
  const found = new RegExp(`subagent (${UUID}) `).exec(result);
  assert.ok(found, result);
  return found[1];
}

scenario("a subagent works with its own tools and its words are the result", { others: ["child"], files: { "a.txt": "treasure\n" } }, async (scene) => {
  const child = scene.others.child;
  child.script(
    calls([
      { id: "step_1", name: "UpdateCurrentStep", arguments: { current_step: "reading a.txt" } },
      { id: "read_1", name: "Read", arguments: { path: scene.path("a.txt") } },
    ]),
    text("It is in a.txt."),
  );
  const run = await scene.round([task("call_task")]);
  const result = scene.results().call_task;
  assert.match(result, new RegExp(`^The generalPurpose subagent ${UUID} has finished and says:\nIt is in a\\.txt\\.$`));
  assert.deepEqual(run.tools.map(({ name, result: { status } }) => [name, status]), [["task", "success"]]);
  assert.match(contentOf(messages(child).find((message) => message.tool_call_id === "read_1")), /treasure/);

  const [agents, childs] = [toolNames(scene.endpoint), toolNames(child)];
  assert.ok(childs.includes("UpdateCurrentStep") && !agents.includes("UpdateCurrentStep"));
  const parameters = (endpoint) => endpoint.requests.at(-1).json.tools.find((tool) => tool.function.name === "Task").function.parameters.properties;
  assert.ok("environment" in parameters(scene.endpoint) && !("environment" in parameters(child)));
  assert.match(contentOf(messages(child)[1]), /^<subagent kind="generalPurpose">\n/);
  assert.deepEqual(messages(child)[0], messages(scene.endpoint)[0]);

  // The parent goes on with the same child, after everything was started anew: the client forgot it, cairn did not.
  await scene.restart();
  child.script(text("Still there."));
  await scene.round([task("call_again", { resume: childOf(result), prompt: "Look again." })], "Again.");
  assert.equal(childOf(scene.results().call_again), childOf(result));
  assert.match(contentOf(messages(child).at(-1)), /Look again\./);
});

scenario("several subagents work at once and a failed one is a tool error that names it", { others: ["child", "sick"] }, async (scene) => {
  scene.others.child.script(text("found"));
  scene.others.sick.script(status(400, "this model is out of order"));
  const unknown = task("call_unknown", { subagent_type: "nobody" });
  const unlisted = task("call_unlisted", { model: "elsewhere" });
  const forgotten = task("call_forgotten", { resume: "00000000-0000-4000-8000-000000000000" });
  const run = await scene.round([task("call_well"), task("call_sick", { model: "sick" }), unknown, unlisted, forgotten]);
  const results = scene.results();
  assert.match(results.call_well, /has finished and says:\nfound$/);
  assert.match(results.call_sick, new RegExp(`^The generalPurpose subagent ${UUID} failed: .*this model is out of order`));
  assert.equal(results.call_unknown, `There is no kind of subagent named nobody. The kinds are: ${KINDS}.`);
  assert.match(results.call_forgotten, /^The subagent was not started: this conversation has no subagent 00000000-0000-4000-8000-000000000000 that could go on\. It has none yet\. /);
  assert.match(results.call_unlisted, /a subagent cannot run on the model "elsewhere"; it can run on default, child, sick\.$/);
  const shown = Object.fromEntries(run.tools.map((tool) => [tool.call, tool.result.status]));
  assert.deepEqual(shown, { call_well: "success", call_sick: "error", call_unknown: "error", call_unlisted: "error", call_forgotten: "error" });
});

scenario("one of the client's own kinds has words of its own, and one that may only look writes nothing", { others: ["child"], files: { "a.txt": "treasure\n" } }, async (scene) => {
  const child = scene.others.child;
  const write = call("write_1", "Write", { path: scene.path("b.txt"), contents: "x" });
  child.script(call("read_1", "Read", { path: scene.path("a.txt") }), write, text("In a.txt; I may not write."));
  const run = await scene.round([task("call_explore", { subagent_type: "explore", readonly: true })]);
  assert.match(scene.results().call_explore, new RegExp(`^The explore subagent ${UUID} has finished and says:\nIn a\\.txt; I may not write\\.$`));
  assert.deepEqual(run.tools.map(({ name, result: { status } }) => [name, status]), [["task", "success"]]);
  const identity = contentOf(messages(child)[1]);
  assert.match(identity, /^<subagent kind="explore">\n[^]*\n<instructions>\nYou look and change nothing[^]*\n<\/instructions>\n<\/subagent>$/);
  assert.match(contentOf(messages(child).find((message) => message.tool_call_id === "read_1")), /treasure/);
  assert.match(contentOf(messages(child).find((message) => message.tool_call_id === "write_1")), /readonly/);
  assert.ok(!scene.exists("b.txt"));
  // The model is told of the kinds where it chooses one.
  const chosen = scene.endpoint.requests.at(-1).json.tools.find((tool) => tool.function.name === "Task").function.parameters.properties.subagent_type;
  for (const kind of KINDS.split(", ")) assert.ok(chosen.description.includes(`\`${kind}\``), kind);
});

const REVIEWER = "---\nname: Reviewer\ndescription: reviews\nmodel: child\nreadonly: true\n---\nBe severe.\n";

scenario("a kind that the project defines brings its words, its model and its limits", { others: ["child", "grandchild"], files: { ".cursor/agents/reviewer.md": REVIEWER } }, async (scene) => {
  const child = scene.others.child;
  const write = { path: scene.path("b.txt"), contents: "x" };
  child.script(calls([{ id: "write_1", name: "Write", arguments: write }, task("task_1", { model: "grandchild" })]), text("Not allowed to write."));
  // Whoever it asks to write instead may not do so either.
  const grandchild = scene.others.grandchild;
  grandchild.script(calls([{ id: "write_2", name: "Write", arguments: write }, { id: "shell_1", name: "Shell", arguments: { command: "echo x > b.txt" } }]), text("Neither am I."));
  await scene.round([task("call_review", { subagent_type: "Reviewer", model: undefined })]);
  assert.match(scene.results().call_review, /^The Reviewer subagent .* says:\nNot allowed to write\.$/);
  assert.match(contentOf(messages(child)[1]), /^<subagent kind="Reviewer">\n[^]*<instructions>\nBe severe\.\n<\/instructions>\n<\/subagent>$/);
  assert.match(contentOf(messages(child).find((message) => message.tool_call_id === "write_1")), /readonly/);
  for (const id of ["write_2", "shell_1"]) {
    assert.match(contentOf(messages(grandchild).find((message) => message.tool_call_id === id)), /readonly/);
  }
  assert.ok(!scene.exists("b.txt"));
});

const ended = (child, words) => `<background_task kind="subagent" id="${child}" status="success">\n${words}\n</background_task>`;

scenario("a background subagent's end is told once: to a parent at work after its round", { others: ["child"] }, async (scene) => {
  const held = hold(text("It was under the stone."), '"finish_reason":"stop"');
  scene.others.child.script(held);
  scene.endpoint.script(
    calls([task("call_task", { run_in_background: true })]),
    calls([{ id: "call_wait", name: "Shell", arguments: { command: "until test -e go; do sleep 0.05; done" } }]),
    text("Under the stone, then."),
  );
  const run = await scene.client.send("Go.");
  await run.seen((event) => event.type === "tool_call" && event.call_id === "call_wait");
  assert.match(scene.results().call_task, /works in the background/);
  const child = childOf(scene.results().call_task);
  held.release();
  // The parent is at work: the run that completes is the child's.
  await scene.logged(/run completed/);
  scene.write("go", "");
  const { status: outcome, text: answer } = await run.ended();
  assert.deepEqual([outcome, answer], ["finished", "Under the stone, then."]);
  assert.equal(scene.userTexts().at(-1), ended(child, "It was under the stone."));
  scene.endpoint.script(text("Nothing new."));
  await scene.client.turn("And?");
  assert.equal(scene.userTexts().filter((said) => said.startsWith("<background_task")).length, 1);
});

scenario("a subagent that is still at work is not gone on with, and its work goes on", { others: ["child"] }, async (scene) => {
  const held = hold(text("It was under the stone."), '"finish_reason":"stop"');
  scene.others.child.script(held);
  const wait = { id: "call_wait", name: "Shell", arguments: { command: "until test -e go; do sleep 0.05; done" } };
  scene.endpoint.script(calls([task("call_task", { run_in_background: true })]), calls([wait]));
  const run = await scene.client.send("Go.");
  await run.seen((event) => event.type === "tool_call" && event.call_id === "call_wait");
  await held.reached;
  const child = childOf(scene.results().call_task);
  scene.endpoint.script(calls([task("call_again", { resume: child, prompt: "Look again." })]), text("I wait."));
  scene.write("go", "");
  // The child waits: the run that completes is the parent's.
  await scene.logged(/run completed/);
  assert.match(scene.results().call_again, new RegExp(`^The subagent was not started: ${child} is still at work`));
  held.release();
  assert.equal((await run.ended()).status, "finished");
  // It had not been stopped, and now it can go on.
  scene.others.child.script(text("Still there."));
  await scene.round([task("call_then", { resume: child, prompt: "Look again." })], "There.");
  assert.equal(scene.userTexts().filter((said) => said === ended(child, "It was under the stone.")).length, 1);
  assert.match(scene.results().call_then, /has finished and says:\nStill there\.$/);
});

scenario("a background subagent's end is told once: before the next words, also after a restart", { others: ["child"] }, async (scene) => {
  const held = hold(text("It was under the stone."), '"finish_reason":"stop"');
  scene.others.child.script(held);
  scene.endpoint.script(calls([task("call_task", { run_in_background: true })]), text("It works."));
  const run = await scene.client.send("Go.");
  // The child waits: the run that completes is the parent's.
  await held.reached;
  await scene.logged(/run completed/);
  held.release();
  assert.equal((await run.ended()).status, "finished");
  const child = childOf(scene.results().call_task);
  await scene.restart();
  scene.endpoint.script(text("Under the stone, then."), text("Nothing new."));
  await scene.client.turn("And?");
  const said = scene.userTexts();
  assert.equal(said.at(-2), ended(child, "It was under the stone."));
  assert.match(said.at(-1), /And\?/);
  await scene.client.turn("And now?");
  assert.equal(scene.userTexts().filter((text) => text.startsWith("<background_task")).length, 1);
});

scenario("stopping the parent ends what its child and grandchild spend, within a second", { others: ["child", "grandchild"] }, async (scene) => {
  scene.others.child.script(calls([task("call_deeper", { model: "grandchild" })]));
  const held = hold(text("never said"), '"never said"');
  scene.others.grandchild.script(held);
  scene.endpoint.script(calls([task("call_task")]));
  const run = await scene.client.send("Go.");
  await held.reached;
  const stopped = Date.now();
  await run.cancel();
  await held.closed;
  assert.ok(Date.now() - stopped < 1000, `${Date.now() - stopped} ms`);
  assert.equal((await run.ended()).status, "cancelled");
  // The conversation goes on. A client that is stopped right after the round began may have no trace of it.
  scene.endpoint.script(text("Understood."));
  assert.equal((await scene.client.turn("Never mind.")).text, "Understood.");
  if (scene.resultOrder().length > 0) assert.match(scene.results().call_task, /call was interrupted/);
});
