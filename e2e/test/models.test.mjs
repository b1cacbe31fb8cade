// What the person selects beside the text: mode, model, parameters, images.
import assert from "node:assert/strict";
import { call, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = { data: PIXEL, mimeType: "image/png" };
const imagesOf = (body) => body.messages.flatMap(({ content }) => (Array.isArray(content) ? content : [])).filter((part) => part.type === "image_url");
const toolNames = (body) => body.tools.map((tool) => tool.function.name);

scenario("plan mode changes instructions and tools, touches no earlier message, and ends with its send", { files: { "a.txt": "a\n" } }, async (scene) => {
  scene.endpoint.script(text("one"), text("the plan"), text("three"));
  assert.equal((await scene.client.turn("First")).text, "one");
  const agent = scene.body(-1);
  scene.endpoint.allowReset({ except: ["instructions", "tools"] });
  assert.equal((await scene.client.turn("Second", { mode: "plan" })).text, "the plan");
  const plan = scene.body(-1);
  assert.notEqual(plan.messages[0].content, agent.messages[0].content);
  assert.ok(!toolNames(plan).includes("Write") && !toolNames(plan).includes("Shell"), toolNames(plan).join());
  assert.ok(toolNames(plan).includes("Read"));
  scene.endpoint.allowReset({ except: ["instructions", "tools"] });
  assert.equal((await scene.client.turn("Third", { mode: "agent" })).text, "three");
  assert.equal(scene.body(-1).messages[0].content, agent.messages[0].content);
  assert.deepEqual(scene.body(-1).tools, agent.tools);
});

scenario("a selected effort reaches the endpoint, an unknown parameter is an error that names it", {
  client: { model: { id: "default", params: [{ id: "effort", value: "high" }] } },
}, async (scene) => {
  scene.endpoint.script(text("one"), text("two"));
  const run = await scene.client.turn("First");
  assert.equal(run.text, "one", run.error);
  assert.equal(scene.body(0).reasoning_effort, "high");
  scene.endpoint.allowReset({ except: ["reasoning_effort"] });
  const low = await scene.client.turn("Second", { model: { id: "default", params: [{ id: "effort", value: "low" }] } });
  assert.equal(low.text, "two", low.error);
  assert.equal(scene.body(1).reasoning_effort, "low");
  const odd = await scene.client.turn("Third", { model: { id: "default", params: [{ id: "colour", value: "blue" }] } });
  assert.equal(odd.status, "error");
  assert.match(odd.error ?? "", /colour/);
  assert.equal(scene.endpoint.requests.length, 2);
});

scenario("an image reaches a model that sees, and keeps its place after a restart", { model: { vision: true } }, async (scene) => {
  scene.endpoint.script(text("a pixel"), text("still a pixel"));
  const run = await scene.client.turn("What is this?", { images: [image] });
  assert.equal(run.text, "a pixel", run.error);
  assert.deepEqual(imagesOf(scene.body(0)).map((part) => part.image_url.url), [`data:image/png;base64,${PIXEL}`]);
  await scene.restart({ emptyData: true });
  const next = await scene.client.turn("And now?");
  assert.equal(next.text, "still a pixel", next.error);
  assert.equal(imagesOf(scene.body(1)).length, 1);
});

scenario("an image for a model that does not see is an error that says what to do", {}, async (scene) => {
  scene.endpoint.script(text("one"));
  assert.equal((await scene.client.turn("First")).text, "one");
  const blind = await scene.client.turn("What is this?", { images: [image] });
  assert.equal(blind.status, "error");
  assert.match(blind.error ?? "", /vision = true/);
  assert.equal(scene.endpoint.requests.length, 1, "the endpoint is not asked");
});

scenario("the offline model reads a file and runs a command through the client", {
  files: { "note.txt": "the note\n" },
  models: [{ id: "offline", api: "scripted" }],
  client: { model: "offline" },
}, async (scene) => {
  const run = await scene.client.turn(`say Let me look.\nread ${scene.path("note.txt")}\nrun echo ran > trace; cat trace`);
  assert.equal(run.status, "finished", run.error);
  assert.deepEqual(run.tools.map((tool) => tool.name).sort(), ["read", "shell"]);
  assert.equal(scene.read("trace"), "ran\n");
  assert.match(run.shown, /Let me look\./);
  assert.match(run.text, /the note/);
  const next = await scene.client.turn("say Again.");
  assert.match(next.text, /Again\./);
  assert.equal(scene.endpoint.requests.length, 0);
});

scenario("another model in the same conversation gets the same history", {
  files: { "a.txt": "alpha\n" },
  models: [{ id: "offline", api: "scripted" }],
}, async (scene) => {
  scene.endpoint.script(call("call_a", "Read", { path: scene.path("a.txt") }), text("one"), text("three"));
  assert.equal((await scene.client.turn("First")).text, "one");
  const offline = await scene.client.turn("say Second.", { model: { id: "offline" } });
  assert.match(offline.text, /Second\./, offline.error);
  const back = await scene.client.turn("Third", { model: { id: "default" } });
  assert.equal(back.text, "three", back.error);
  assert.deepEqual(
    scene.body(-1).messages.filter((message) => message.role === "assistant").map((message) => message.content),
    [null, "one", "Second."],
  );
});
