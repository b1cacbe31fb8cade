// Tools: what happens on disk, what the model gets back, what the person sees.
import assert from "node:assert/strict";
import { call, calls, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

/** One round of these calls, then a closing text; returns the finished run. */
async function round(scene, list, prompt = "Go.") {
  scene.endpoint.script(calls(list), text("done"));
  const run = await scene.client.turn(prompt);
  assert.equal(run.status, "finished", run.error);
  assert.equal(run.text, "done");
  return run;
}

scenario("three calls of one round, the slow one first, each get their own result", { files: { "note.txt": "the note\n" } }, async (scene) => {
  const run = await round(scene, [
    { id: "call_slow", name: "Shell", arguments: { command: "sleep 0.7; echo slow-output" } },
    { id: "call_read", name: "Read", arguments: { path: scene.path("note.txt") } },
    { id: "call_fast", name: "Shell", arguments: { command: "echo fast-output" } },
  ]);
  const results = scene.results();
  assert.deepEqual(Object.keys(results).sort(), ["call_fast", "call_read", "call_slow"]);
  assert.match(results.call_slow, /slow-output/);
  assert.doesNotMatch(results.call_slow, /fast-output|the note/);
  assert.match(results.call_read, /the note/);
  assert.match(results.call_fast, /fast-output/);
  assert.deepEqual(run.tools.map((tool) => tool.name).sort(), ["read", "shell", "shell"]);
  assert.equal(run.tools.at(-1).call, "call_slow", "results are shown when they come");
  assert.equal(scene.endpoint.requests.length, 2, "the model is asked again only when the whole round is over");
});

scenario("argument texts are replayed byte for byte", { files: { "b.txt": "b\n" } }, async (scene) => {
  const raw = `{ "limit" : 1,"path":${JSON.stringify(scene.path("b.txt"))} , "offset":1 }`;
  await round(scene, [{ id: "call_raw", name: "Read", arguments: raw }]);
  assert.equal(scene.argumentTexts().call_raw, raw);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("again"));
  assert.equal((await scene.client.turn("And now?")).text, "again");
  assert.equal(scene.argumentTexts().call_raw, raw);
});

scenario("Write makes a new file and replaces an old one", { files: { "old.txt": "before\n" } }, async (scene) => {
  await round(scene, [
    { id: "call_new", name: "Write", arguments: { path: scene.path("deep/er/new.txt"), contents: "α\nβ\n" } },
    { id: "call_old", name: "Write", arguments: { path: scene.path("old.txt"), contents: "after\n" } },
  ]);
  assert.equal(scene.read("deep/er/new.txt"), "α\nβ\n");
  assert.equal(scene.read("old.txt"), "after\n");
});

scenario("StrReplace changes the one place and nothing else", { files: { "a.txt": "one\ntwo\nthree\n", "crlf.txt": "one\r\ntwo\r\nthree\r\n" } }, async (scene) => {
  const run = await round(scene, [
    { id: "call_lf", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "two", new_string: "2\n2½" } },
    { id: "call_crlf", name: "StrReplace", arguments: { path: scene.path("crlf.txt"), old_string: "two\nthree", new_string: "2\n3" } },
  ]);
  assert.equal(scene.read("a.txt"), "one\n2\n2½\nthree\n");
  assert.equal(scene.read("crlf.txt"), "one\r\n2\r\n3\r\n", "the file keeps its line ends");
  assert.deepEqual(run.tools.map((tool) => [tool.name, tool.result.status]), [
    ["edit", "success"],
    ["edit", "success"],
  ]);
});

scenario("StrReplace without exactly one match fails, tells so and leaves the file alone", { files: { "a.txt": "x\nx\n" } }, async (scene) => {
  await round(scene, [
    { id: "call_twice", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "x", new_string: "y" } },
    { id: "call_never", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "z", new_string: "y" } },
    { id: "call_lost", name: "StrReplace", arguments: { path: scene.path("lost.txt"), old_string: "z", new_string: "y" } },
  ]);
  assert.equal(scene.read("a.txt"), "x\nx\n");
  assert.ok(!scene.exists("lost.txt"));
  const results = scene.results();
  assert.equal(new Set(Object.values(results)).size, 3, "each failure says what it is");
});

scenario("two edits of one file in one round both land", { files: { "a.txt": "one\ntwo\n" } }, async (scene) => {
  await round(scene, [
    { id: "call_1", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "one", new_string: "1" } },
    { id: "call_2", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "two", new_string: "2" } },
  ]);
  assert.equal(scene.read("a.txt"), "1\n2\n");
});

scenario("a failing command gives its output and its exit code to the model", {}, async (scene) => {
  const run = await round(scene, [{ id: "call_bad", name: "Shell", arguments: { command: "echo to-out; echo to-err >&2; exit 3" } }]);
  const result = scene.results().call_bad;
  assert.match(result, /to-out/);
  assert.match(result, /to-err/);
  assert.match(result, /\b3\b/);
  assert.equal(run.tools[0].result.value.exitCode, 3);
});

scenario("a command that outlives its time goes on in the background", {}, async (scene) => {
  const started = Date.now();
  await round(scene, [{ id: "call_long", name: "Shell", arguments: { command: "echo began; sleep 30", block_until_ms: 300 } }]);
  assert.ok(Date.now() - started < 15_000, "the run does not wait for the command");
  assert.match(scene.results().call_long, /background/i);
});

scenario("Read, Grep, Glob, Delete and TodoWrite answer", {
  files: { "src/a.js": "alpha\nneedle one\nomega\n", "src/b.js": "needle two\n", "src/c.md": "needle three\n", "gone.txt": "gone\n" },
}, async (scene) => {
  const run = await round(scene, [
    { id: "call_read", name: "Read", arguments: { path: scene.path("src/a.js"), offset: 2, limit: 1 } },
    { id: "call_none", name: "Read", arguments: { path: scene.path("nowhere.txt") } },
    { id: "call_grep", name: "Grep", arguments: { pattern: "needle", path: scene.path("src"), glob: "*.js" } },
    { id: "call_files", name: "Grep", arguments: { pattern: "needle", path: scene.path("src"), output_mode: "files_with_matches" } },
    { id: "call_glob", name: "Glob", arguments: { glob_pattern: "**/*.js" } },
    { id: "call_delete", name: "Delete", arguments: { path: scene.path("gone.txt") } },
    { id: "call_todo", name: "TodoWrite", arguments: { merge: false, todos: [{ id: "1", content: "Look around", status: "in_progress" }] } },
  ]);
  const results = scene.results();
  assert.match(results.call_read, /needle one/);
  assert.doesNotMatch(results.call_read, /alpha|omega/);
  assert.match(results.call_none, /nowhere\.txt/);
  assert.match(results.call_grep, /needle one/);
  assert.match(results.call_grep, /needle two/);
  assert.doesNotMatch(results.call_grep, /needle three/);
  assert.match(results.call_files, /c\.md/);
  assert.match(results.call_glob, /a\.js/);
  assert.doesNotMatch(results.call_glob, /c\.md/);
  assert.ok(!scene.exists("gone.txt"));
  assert.deepEqual(run.tools.map((tool) => tool.name).sort(), ["delete", "glob", "grep", "grep", "read", "read", "updateTodos"]);
  const todos = run.tools.find((tool) => tool.name === "updateTodos");
  assert.deepEqual(todos.result.value.todos.map(({ content, status }) => [content, status]), [["Look around", "inProgress"]]);
});

scenario("an unknown tool is a result for the model and the run goes on", {}, async (scene) => {
  await round(scene, [{ id: "call_odd", name: "LaunchRocket", arguments: { to: "moon" } }]);
  assert.match(scene.results().call_odd, /LaunchRocket/);
});

scenario("many rounds, a restart in between, and every body extends the one before", { files: { "a.txt": "a\n" } }, async (scene) => {
  scene.endpoint.script(
    calls([{ id: "call_1", name: "Read", arguments: { path: scene.path("a.txt") } }], { before: "Let me look." }),
    call("call_2", "Shell", { command: "echo two" }),
    text("first done"),
  );
  const first = await scene.client.turn("Go.");
  assert.equal(first.text, "first done", first.error);
  assert.equal(first.shown, "Let me look.first done");
  await scene.restart({ emptyData: true });
  await round(scene, [{ id: "call_3", name: "Shell", arguments: { command: "echo three" } }], "Once more.");
  assert.equal(scene.endpoint.requests.length, 5);
  const results = scene.results();
  assert.match(results.call_2, /two/);
  assert.match(results.call_3, /three/);
});
