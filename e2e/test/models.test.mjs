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

scenario("a model that does not see is told so in an image's place, and the person is told once", {}, async (scene) => {
  scene.endpoint.script(text("I see nothing."), text("Still nothing."));
  const blind = await scene.client.turn("What is this?", { images: [image, image] });
  assert.equal(blind.status, "finished", blind.error);
  assert.equal(blind.shown.split("vision = true").length, 2, blind.shown);
  assert.match(blind.shown, /I see nothing\.$/);
  const placeholders = (body) => JSON.stringify(body.messages).split("[A picture stands here. You cannot see pictures.]").length - 1;
  assert.equal(placeholders(scene.body(0)), 2);
  assert.ok(!JSON.stringify(scene.body(0)).includes(PIXEL));
  const next = await scene.client.turn("And now?");
  assert.match(next.text, /Still nothing\./, next.error);
  assert.ok(!next.shown.includes("vision = true"), next.shown);
  assert.equal(placeholders(scene.body(1)), 2);
});

scenario("an image that cannot be read is left out, and the rest of the message stays", { model: { vision: true } }, async (scene) => {
  scene.endpoint.script(text("one"));
  const broken = { data: Buffer.from("not an image").toString("base64"), mimeType: "image/png" };
  const run = await scene.client.turn("What is this?", { images: [broken, image] });
  assert.equal(run.status, "finished", run.error);
  assert.match(run.shown, /Picture 1 was left out: it is not a PNG, JPEG, GIF or WebP file\./);
  assert.equal(imagesOf(scene.body(0)).length, 1);
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
