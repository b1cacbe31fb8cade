// Odd uses of tools with the official client: what is huge, broken, gone or endless comes back in words that a model can act on.
import assert from "node:assert/strict";
import path from "node:path";
import { after } from "node:test";
import { call, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";
import { WebHost } from "../support/web_host.mjs";

const web = await WebHost.start();
after(() => web.stop());

const read = (id, path, range = {}) => ({ id, name: "Read", arguments: { path, ...range } });

scenario("Read of a huge file, a range in it, a folder, bytes, and pictures that are none", { model: { vision: true } }, async (scene) => {
  scene.write("huge.txt", Array.from({ length: 60_000 }, (_, index) => `line ${index + 1} ${"x".repeat(40)}\n`).join(""));
  scene.write("bytes.dat", Buffer.from([0, 1, 2, 255]));
  scene.write("damaged.png", Buffer.from("89504e470d0a1a0a67617262616765", "hex"));
  await scene.round([
    read("call_huge", scene.path("huge.txt")),
    read("call_range", scene.path("huge.txt"), { offset: 30_000, limit: 2 }),
    read("call_beyond", scene.path("huge.txt"), { offset: 70_000 }),
    read("call_folder", scene.workspace),
    read("call_bytes", scene.path("bytes.dat")),
    read("call_damaged", scene.path("damaged.png")),
  ]);
  const results = scene.results();
  assert.match(results.call_huge, /^ {5}1\|line 1 x+\n[^]+ 60000\|line 60000 x+\n$/);
  assert.ok(results.call_huge.length < 101_000, `${results.call_huge.length} characters`);
  const line = (number) => ` ${number}|line ${number} ${"x".repeat(40)}\n`;
  assert.equal(results.call_range, `${line(30_000)}${line(30_001)}[The file goes on after line 30001; its lines number 60001.]\n`);
  assert.equal(results.call_beyond, `${scene.path("huge.txt")} has 60001 lines: there is nothing from line 70000 on.`);
  assert.match(results.call_folder, /cannot be read as text: .*directory.*\nRead shows text and pictures/);
  assert.match(results.call_bytes, /cannot be read as text: .*\nRead shows text and pictures/);
  assert.match(results.call_damaged, /damaged\.png could not be read: .+\nA picture's file has to be whole/);
});

scenario("files: one in missing folders, one with CRLF and a mark, a folder to delete, one below a file", { files: { "file.txt": "f\n", "dir/a.txt": "a\n" } }, async (scene) => {
  scene.write("crlf.txt", "\ufeffone\r\ntwo\r\nthree\r\n");
  await scene.round([
    { id: "call_deep", name: "Write", arguments: { path: scene.path("x/y/z.txt"), contents: "z" } },
    { id: "call_crlf", name: "StrReplace", arguments: { path: scene.path("crlf.txt"), old_string: "two\nthree", new_string: "2\n3" } },
    { id: "call_folder", name: "Delete", arguments: { path: scene.path("dir") } },
    { id: "call_below", name: "Write", arguments: { path: scene.path("file.txt/z.txt"), contents: "z" } },
    { id: "call_onto", name: "Write", arguments: { path: scene.path("dir"), contents: "z" } },
  ]);
  const results = scene.results();
  assert.equal(scene.read("x/y/z.txt"), "z");
  assert.equal(scene.read("crlf.txt"), "\ufeffone\r\n2\r\n3\r\n");
  assert.match(results.call_folder, /was not deleted, it is not a file: directory\nDelete takes one file/);
  assert.ok(scene.exists("dir/a.txt"));
  assert.match(results.call_below, /file\.txt\/z\.txt/);
  assert.equal(scene.read("file.txt"), "f\n");
  assert.match(results.call_onto, /dir was not edited: .*directory/);
});

scenario("searches: lines around a match, a tree beyond what the client lists, patterns that are none", {}, async (scene) => {
  for (let index = 0; index < 2_100; index++) scene.write(`tree/d${index % 20}/f${index}.js`, `before\nneedle${index};\nafter\n`);
  const grep = (id, more) => ({ id, name: "Grep", arguments: more });
  const glob = (id, pattern) => ({ id, name: "Glob", arguments: { glob_pattern: pattern } });
  await scene.round([
    grep("call_around", { pattern: "needle17;", "-C": 1 }),
    grep("call_window", { pattern: "needle", head_limit: 2, offset: 5 }),
    grep("call_bad", { pattern: "(" }),
    grep("call_type", { pattern: "x", type: "nonsense" }),
    glob("call_tree", "**/*.js"),
    glob("call_bad_glob", "["),
  ]);
  const results = scene.results();
  assert.equal(results.call_around, `In ${scene.workspace}:\ntree/d17/f17.js\n1-before\n2:needle17;\n3-after\n`);
  assert.equal(results.call_window.match(/^\d+:needle\d+;$/gm).length, 2);
  assert.match(results.call_window, /\[2 of 2000 lines shown: use offset and head_limit for others\.\]\n\[The client cut this list of 2100 lines: /);
  assert.match(results.call_bad, /^The search failed: .*unclosed group/s);
  assert.match(results.call_type, /^The search failed: .*nonsense/);
  assert.equal(results.call_tree.match(/\.js$/gm).length, 2_000);
  assert.match(results.call_tree, /\[The client cut this list of 2100 files: narrow the search to see the rest\.\]\n$/);
  assert.match(results.call_bad_glob, /^The file search failed: .*unclosed/);
});

scenario("a command that floods keeps its two ends, and what the client dropped is said to be in the file with all of it", {}, async (scene) => {
  const flood = (bytes) => `echo first; yes 0123456789 | head -c ${bytes}; echo; echo last; exit 3`;
  await scene.round([
    { id: "call_whole", name: "Shell", arguments: { command: flood(900_000) } },
    { id: "call_flood", name: "Shell", arguments: { command: flood(5_000_000) } },
  ]);
  const { call_whole: whole, call_flood: result } = scene.results();
  assert.match(whole, /^Exit code: 3\n[^]*Output:\nfirst\n0123456789\n[^]+\nlast\n\[The whole output is in \S+ \(900012 bytes, \d+ lines\)\.\]\n$/);
  assert.match(result, /^Exit code: 3\n[^]*Output:\nfirst\n0123456789\n/);
  const [, file, line] = /the end of the output is missing above\. All of it is in (\S+) \(5000012 bytes, \d+ lines\): for its end read that file from line (\d+) on\.\]\n$/.exec(result);
  for (const text of [whole, result]) assert.ok(text.length < 101_000, `${text.length} characters`);
  await scene.round([read("call_end", file, { offset: Number(line) })]);
  assert.match(scene.results().call_end, /\|last\n$/);
});

scenario("a flood in the background is waited for, and what its file lost is not denied", {}, async (scene) => {
  const id = () => Number(/Shell id: (\d+)/.exec(scene.results().call_start)?.[1]);
  const command = "yes 0123456789 | head -c 3000000; echo; echo ready; exit 5";
  scene.endpoint.script(
    call("call_start", "Shell", { command, block_until_ms: 0 }),
    () => call("call_line", "AwaitShell", { shell_id: id(), pattern: "ready", block_until_ms: 60_000 }),
    text("done"),
  );
  const run = await scene.client.turn("Go.");
  assert.equal(run.text, "done", run.error);
  const result = scene.results().call_line;
  assert.match(result, /has ended\.\nExit code: 5\n/);
  assert.match(result, /No line of the output that was kept fits the pattern\.\nThe end of the output that was kept:\n/);
  assert.match(result, /\[The client keeps about the first megabyte of a command's output, in \S+: /);
  await scene.client.kill();
});

scenario("a page that leads to itself and a host that is not there name the address and what to check", {}, async (scene) => {
  const urls = { call_circle: `${web.url}/circle`, call_nobody: "http://127.0.0.1:1/" };
  await scene.round(Object.entries(urls).map(([id, url]) => ({ id, name: "WebFetch", arguments: { url } })));
  const results = scene.results();
  for (const [id, url] of Object.entries(urls)) {
    assert.ok(results[id].startsWith(`${url} could not be fetched: `), results[id]);
    assert.match(results[id], /redirects may go round in a circle\. Check the address/);
  }
});

const SERVER = path.join(import.meta.dirname, "../support/mcp_server.mjs");
const client = { mcpServers: { dictionary: { command: process.execPath, args: [SERVER, "--dies"] } } };

scenario("a server that dies under a call, and the calls after it, are told with tool, server and mend", { client }, async (scene) => {
  const look = (id) => ({ id, name: "CallMcpTool", arguments: { server: "dictionary", tool_name: "look_up", arguments: { word: "sea" } } });
  await scene.round([look("call_dying")]);
  await scene.round([look("call_dead"), { id: "call_resource", name: "FetchMcpResource", arguments: { server: "dictionary", uri: "word://sea" } }]);
  const results = scene.results();
  for (const id of ["call_dying", "call_dead"]) {
    assert.match(results[id], /^The call of look_up of the MCP server dictionary brought no result; /);
    assert.match(results[id], /ask the person to start the server anew\.$/);
  }
  assert.match(results.call_resource, /^word:\/\/sea of the MCP server dictionary could not be read: /);
  // A client whose server died does not end by itself.
  await scene.client.kill();
});
