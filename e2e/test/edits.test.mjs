// Edits: what stands on disk afterwards, byte for byte where it matters.
import assert from "node:assert/strict";
import { call, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

const replace = (scene, id, name, from, to) => ({
  id,
  name: "StrReplace",
  arguments: { path: scene.path(name), old_string: from, new_string: to },
});

scenario("Write makes a new file and replaces an old one", { files: { "old.txt": "before\n" } }, async (scene) => {
  await scene.round([
    { id: "call_new", name: "Write", arguments: { path: scene.path("deep/er/new.txt"), contents: "α\nβ\n" } },
    { id: "call_old", name: "Write", arguments: { path: scene.path("old.txt"), contents: "after\n" } },
  ]);
  assert.equal(scene.read("deep/er/new.txt"), "α\nβ\n");
  assert.equal(scene.read("old.txt"), "after\n");
});

scenario("StrReplace changes the one place and nothing else", { files: { "a.txt": "one\ntwo\nthree\n", "crlf.txt": "one\r\ntwo\r\nthree\r\n" } }, async (scene) => {
  const run = await scene.round([
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
  await scene.round([
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
  await scene.round([
    { id: "call_1", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "one", new_string: "1" } },
    { id: "call_2", name: "StrReplace", arguments: { path: scene.path("a.txt"), old_string: "two", new_string: "2" } },
  ]);
  assert.equal(scene.read("a.txt"), "1\n2\n");
});

scenario("an edit keeps a byte-order mark, mixed line ends and a missing last line end", {
  files: { "bom.txt": "\ufeffone\r\ntwo\r\n", "mixed.txt": "one\ntwo\r\nthree\nfour\r\nfive", "bare.txt": "one\ntwo" },
}, async (scene) => {
  await scene.round([
    replace(scene, "call_bom", "bom.txt", "one", "eins"),
    replace(scene, "call_mixed", "mixed.txt", "three", "drei"),
    replace(scene, "call_bare", "bare.txt", "two", "zwei"),
  ]);
  assert.equal(scene.read("bom.txt"), "\ufeffeins\r\ntwo\r\n");
  assert.equal(scene.read("mixed.txt"), "one\ntwo\r\ndrei\nfour\r\nfive");
  assert.equal(scene.read("bare.txt"), "one\nzwei");
});

scenario("an edit in each of two rounds sees what the one before left", { files: { "a.txt": "one\n" } }, async (scene) => {
  const [first, second] = [replace(scene, "call_1", "a.txt", "one", "two"), replace(scene, "call_2", "a.txt", "two", "three")];
  scene.endpoint.script(call(first.id, first.name, first.arguments), call(second.id, second.name, second.arguments), text("done"));
  const run = await scene.client.turn("Go.");
  assert.equal(run.text, "done", run.error);
  assert.equal(scene.read("a.txt"), "three\n");
});

const NOTEBOOK = `{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 3,
   "metadata": {"x": 1.0},
   "outputs": [],
   "source": [
    "caf\\u00e9 = 1\\n",
    "print(1)"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 2
}
`;

scenario("EditNotebook changes a cell and adds one, and leaves the rest of the file as it is", {
  files: { "lf.ipynb": NOTEBOOK, "crlf.ipynb": NOTEBOOK.replaceAll("\n", "\r\n") },
}, async (scene) => {
  const change = (id, name, rest) => ({ id, name: "EditNotebook", arguments: { path: scene.path(name), cell_index: 0, ...rest } });
  const passage = { is_new_cell: false, old_string: "print(1)", new_string: "print(2)\nprint(3)" };
  const cell = { is_new_cell: true, cell_type: "markdown", old_string: "", new_string: "# New" };
  const run = await scene.round([
    change("call_lf", "lf.ipynb", passage),
    change("call_crlf", "crlf.ipynb", passage),
    change("call_new", "lf.ipynb", { ...cell, cell_index: 1 }),
    change("call_lost", "lf.ipynb", { ...passage, cell_index: 7 }),
  ]);
  const changed = NOTEBOOK.replace('"print(1)"', '"print(2)\\n",\n    "print(3)"');
  assert.equal(scene.read("crlf.ipynb"), changed.replaceAll("\n", "\r\n"));
  const added = '  },\n  {\n   "cell_type": "markdown",\n   "metadata": {},\n   "source": [\n    "# New"\n   ]\n  }\n ],';
  assert.equal(scene.read("lf.ipynb"), changed.replace("  }\n ],", added));
  assert.match(scene.results().call_lost, /2 cells/);
  assert.deepEqual(run.tools.map((tool) => tool.name), ["edit", "edit", "edit", "edit"]);
});
