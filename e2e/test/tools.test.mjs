// Tools: what happens on disk, what the model gets back, what the person sees.
import assert from "node:assert/strict";
import { call, calls, hold, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";
import { PICTURE } from "../support/web_host.mjs";

scenario("three calls of one round enter the history as they end, each with its own result", { files: { "note.txt": "the note\n" } }, async (scene) => {
  scene.endpoint.script(
    calls([
      // Waits until the others are known to have ended.
      { id: "call_slow", name: "Shell", arguments: { command: "until [ -e go ]; do sleep 0.05; done; echo slow-output" } },
      { id: "call_read", name: "Read", arguments: { path: scene.path("note.txt") } },
      { id: "call_fast", name: "Shell", arguments: { command: "echo fast-output" } },
    ]),
    text("done"),
  );
  const run = await scene.client.send("Go.");
  for (const id of ["call_read", "call_fast"]) {
    await run.seen((event) => event.type === "tool_call" && event.status === "completed" && event.call_id === id);
  }
  assert.equal(scene.endpoint.requests.length, 1, "the model is asked again only when the whole round is over");
  scene.write("go", "");
  const outcome = await run.ended();
  assert.equal(outcome.text, "done", outcome.error);
  const shown = outcome.tools.map((tool) => tool.call);
  assert.equal(shown.at(-1), "call_slow");
  assert.deepEqual(scene.resultOrder(), shown, "the model sees results in the order in which they came");
  const results = scene.results();
  assert.match(results.call_slow, /slow-output/);
  assert.doesNotMatch(results.call_slow, /fast-output|the note/);
  assert.match(results.call_read, /the note/);
  assert.match(results.call_fast, /fast-output/);
  assert.deepEqual(outcome.tools.map((tool) => tool.name).sort(), ["read", "shell", "shell"]);
  assert.equal(scene.endpoint.requests.length, 2);
  // The order is part of the history: a server that knows nothing but the client's state must keep it.
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("again"));
  assert.equal((await scene.client.turn("And now?")).text, "again");
  assert.deepEqual(scene.resultOrder(), shown);
});

scenario("argument texts are replayed byte for byte", { files: { "b.txt": "b\n" } }, async (scene) => {
  const raw = `{ "limit" : 1,"path":${JSON.stringify(scene.path("b.txt"))} , "offset":1 }`;
  await scene.round([{ id: "call_raw", name: "Read", arguments: raw }]);
  assert.equal(scene.argumentTexts().call_raw, raw);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("again"));
  assert.equal((await scene.client.turn("And now?")).text, "again");
  assert.equal(scene.argumentTexts().call_raw, raw);
});

scenario("a failing command gives its output and its exit code to the model", {}, async (scene) => {
  const run = await scene.round([{ id: "call_bad", name: "Shell", arguments: { command: "echo to-out; echo to-err >&2; exit 3" } }]);
  const result = scene.results().call_bad;
  assert.match(result, /to-out/);
  assert.match(result, /to-err/);
  assert.match(result, /\b3\b/);
  assert.equal(run.tools[0].result.value.exitCode, 3);
});

scenario("a command that outlives its time goes on in the background of the run", {}, async (scene) => {
  const command = "echo began; until [ -e stop ]; do sleep 0.05; done; echo ended > stopped";
  const held = hold(text("done"), "data: ");
  scene.endpoint.script(call("call_long", "Shell", { command, block_until_ms: 300 }), held);
  const run = await scene.client.send("Go.");
  await held.reached;
  assert.match(scene.results().call_long, /background/i);
  assert.match(scene.results().call_long, /began/);
  assert.ok(!scene.exists("stopped"), "the round did not wait for the command");
  // The client stops what runs in its background when the run ends, so that the command must end before it.
  scene.write("stop", "");
  await scene.appears("stopped");
  held.release();
  assert.equal((await run.ended()).text, "done");
  // After a command in the background the client's process does not end by itself.
  await scene.client.kill();
});

scenario("a failing shell says so and the next command works: unknown program, signal, missing folder", {
  // The client starts a shell in a folder that does not exist and lets the error go unhandled.
  stray: /ENOENT|EPIPE/,
}, async (scene) => {
  await scene.round([{ id: "call_unknown", name: "Shell", arguments: { command: "no-such-program-here" } }]);
  assert.match(scene.results().call_unknown, /Exit code: 127/);
  await scene.round([{ id: "call_nowhere", name: "Shell", arguments: { command: "echo hello", working_directory: scene.path("nowhere") } }]);
  assert.doesNotMatch(scene.results().call_nowhere, /hello|Exit code: 0/);
  await scene.round([{ id: "call_after", name: "Shell", arguments: { command: "echo alive" } }]);
  assert.match(scene.results().call_after, /alive/);
});

scenario("a result of 300 kB is cut once and stays as it was cut", { files: { "big.txt": `${"0123456789 line\n".repeat(20_000)}` } }, async (scene) => {
  const last = "the-last-line-of-the-output";
  await scene.round([
    { id: "call_read", name: "Read", arguments: { path: scene.path("big.txt") } },
    { id: "call_shell", name: "Shell", arguments: { command: `cat big.txt; echo ${last}` } },
  ]);
  const { call_read: read, call_shell: shell } = scene.results();
  for (const result of [read, shell]) assert.ok(result.length > 20_000 && result.length < 150_000, `${result.length} characters`);
  assert.ok(shell.includes(last), "the end of a command's output is kept");
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("again"));
  assert.equal((await scene.client.turn("And now?")).text, "again");
  assert.deepEqual(scene.results(), { call_read: read, call_shell: shell });
});

scenario("a model that gives every call the same id gets ids that differ and never change", { files: { "a.txt": "alpha\n", "b.txt": "beta\n" } }, async (scene) => {
  const same = (...names) => calls(names.map((name) => ({ id: "functions.Read:0", name: "Read", arguments: { path: scene.path(name) } })));
  scene.endpoint.script(same("a.txt"), same("b.txt", "a.txt"), text("done"));
  assert.equal((await scene.client.turn("Go.")).text, "done");
  await scene.restart({ emptyData: true });
  scene.endpoint.script(same("b.txt"), text("again"));
  assert.equal((await scene.client.turn("Once more.")).text, "again");
  const results = Object.values(scene.results());
  assert.equal(results.length, 4);
  assert.deepEqual([results.filter((result) => /alpha/.test(result)).length, results.filter((result) => /beta/.test(result)).length], [2, 2]);
});

scenario("a hook of the workspace adds to one command and denies another", {
  files: {
    ".cursor/hooks.json": JSON.stringify({
      version: 1,
      hooks: { beforeShellExecution: [{ command: "./judge.sh" }], postToolUse: [{ command: "./add.sh" }] },
    }),
  },
}, async (scene) => {
  scene.write("judge.sh", `#!/bin/sh
if grep -q forbidden; then echo '{"permission":"deny","user_message":"not in this house"}'
else echo '{"permission":"allow","continue":true}'; fi
`, { mode: 0o755 });
  scene.write("add.sh", `#!/bin/sh
cat > /dev/null
echo '{"additional_context":"words of the hook"}'
`, { mode: 0o755 });
  await scene.round([
    { id: "call_fine", name: "Shell", arguments: { command: "echo fine" } },
    { id: "call_denied", name: "Shell", arguments: { command: "echo forbidden > trace" } },
  ]);
  assert.match(scene.results().call_fine, /fine\n[^]*words of the hook/, "what the hook adds belongs to the result");
  assert.match(scene.results().call_denied, /refused and not run: .*not in this house/);
  assert.ok(!scene.exists("trace"));
});

scenario("Read, Grep, Glob, Delete and TodoWrite answer", {
  files: { "src/a.js": "alpha\nneedle one\nomega\n", "src/b.js": "needle two\n", "src/c.md": "needle three\n", "gone.txt": "gone\n" },
}, async (scene) => {
  const run = await scene.round([
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

scenario("ReadLints answers for files, and says what it cannot know", { files: { "a.js": "const x = ;\n" } }, async (scene) => {
  const run = await scene.round([{ id: "call_lints", name: "ReadLints", arguments: { paths: [scene.path("a.js"), scene.path("nowhere.js")] } }]);
  // The client has no editor, and so no problems to report.
  assert.match(scene.results().call_lints, /a\.js: nothing reported\.\n.*nowhere\.js: it does not exist\.\n.*may not have checked/);
  assert.deepEqual(run.tools.map((tool) => [tool.name, tool.result.status]), [["readLints", "success"]]);
});

scenario("an unknown tool is a result for the model and the run goes on", {}, async (scene) => {
  await scene.round([{ id: "call_odd", name: "LaunchRocket", arguments: { to: "moon" } }]);
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
  await scene.round([{ id: "call_3", name: "Shell", arguments: { command: "echo three" } }], "Once more.");
  assert.equal(scene.endpoint.requests.length, 5);
  const results = scene.results();
  assert.match(results.call_2, /two/);
  assert.match(results.call_3, /three/);
});

scenario("a picture that the model reads reaches it as a picture, and other bytes are named", { model: { vision: true } }, async (scene) => {
  scene.write("p.png", PICTURE);
  scene.write("b.dat", Buffer.from([0, 1, 2, 255]));
  await scene.round([
    { id: "call_picture", name: "Read", arguments: { path: scene.path("p.png") } },
    { id: "call_bytes", name: "Read", arguments: { path: scene.path("b.dat") } },
  ]);
  const results = scene.results();
  assert.match(results.call_picture, /is a PNG image of \d+ bytes\./);
  assert.match(results.call_bytes, /cannot be read as text/);
  const parts = scene.body(-1).messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const pictures = parts.filter((part) => part.type === "image_url").map((part) => part.image_url.url);
  assert.deepEqual(pictures, [`data:image/png;base64,${PICTURE.toString("base64")}`]);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("still seen"));
  assert.equal((await scene.client.turn("And now?")).text, "still seen");
});
