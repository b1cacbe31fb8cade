// Tools that ask the person first. The official client answers by itself: it allows everything and takes no questions.
import assert from "node:assert/strict";
import fs from "node:fs";
import { after } from "node:test";
import { calls, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";
import { PICTURE, WebHost } from "../support/web_host.mjs";

const web = await WebHost.start();
after(() => web.stop());

const services = {
  web_search: { provider: "searxng", base_url: web.url },
  image_generation: { base_url: `${web.url}/v1`, model: "painter", api_key_env: "ENDPOINT_KEY" },
};

scenario("a page is fetched by the client and reaches the model as Markdown", {}, async (scene) => {
  await scene.round([
    { id: "call_page", name: "WebFetch", arguments: { url: `${web.url}/page` } },
    { id: "call_none", name: "WebFetch", arguments: { url: `${web.url}/none` } },
    { id: "call_file", name: "WebFetch", arguments: { url: "file:///etc/hostname" } },
  ]);
  const results = scene.results();
  assert.equal(results.call_page, `${web.url}/page\n\n# Φάρος\n\nA **light**.`);
  assert.equal(results.call_none, `${web.url}/none answered with status 404:\n\nnothing here`);
  assert.match(results.call_file, /^WebFetch was not executed/);
});

scenario("a search and a picture are made by the configured services", { services }, async (scene) => {
  scene.write("start.png", PICTURE);
  await scene.round([
    { id: "call_search", name: "WebSearch", arguments: { search_term: "φάρος & co" } },
    { id: "call_paint", name: "GenerateImage", arguments: { description: "a pile", file_path: scene.path("out/p.png"), aspect_ratio: "1:1" } },
  ]);
  const results = scene.results();
  assert.match(results.call_search, /1\. Lighthouse\nhttps:\/\/example\.org\/l\nIt shines\.$/);
  assert.equal(new URL(web.last("/search?").url, web.url).searchParams.get("q"), "φάρος & co");
  assert.equal(results.call_paint, `The picture is saved as ${scene.path("out/p.png")}.`);
  assert.deepEqual(fs.readFileSync(scene.path("out/p.png")), PICTURE);
  const { authorization, body } = web.last("/v1/images/generations");
  assert.equal(authorization, `Bearer ${scene.endpointKey}`);
  assert.deepEqual(JSON.parse(body), { model: "painter", prompt: "a pile", n: 1, size: "1024x1024" });
  // A picture to start from is read by the client.
  await scene.round([
    {
      id: "call_edit",
      name: "GenerateImage",
      arguments: { description: "more", file_path: scene.path("q.png"), reference_image_paths: [scene.path("start.png")] },
    },
  ]);
  assert.equal(scene.results().call_edit, `The picture is saved as ${scene.path("q.png")}.`);
  assert.ok(web.last("/v1/images/edits").body.includes(PICTURE));
  assert.deepEqual(fs.readFileSync(scene.path("q.png")), PICTURE);
});

scenario("without a service a search and a picture are honest errors", {}, async (scene) => {
  await scene.round([
    { id: "call_search", name: "WebSearch", arguments: { search_term: "x" } },
    { id: "call_paint", name: "GenerateImage", arguments: { description: "x", file_path: scene.path("p.png") } },
  ]);
  const results = scene.results();
  assert.match(results.call_search, /has no \[web_search\] table/);
  assert.match(results.call_paint, /has no \[image_generation\] table/);
  assert.ok(!scene.exists("p.png"));
});

scenario("a question that local runs do not take is an error that the model can go on with", {}, async (scene) => {
  const question = { id: "q", prompt: "Which?", options: [{ id: "a", label: "A" }, { id: "b", label: "B" }] };
  await scene.round([{ id: "call_ask", name: "AskQuestion", arguments: { questions: [question] } }]);
  assert.match(scene.results().call_ask, /^The person was not asked or did not answer: .*Go on with your best judgement/);
});

scenario("a plan is handed over in plan mode and agreed modes are told; both survive a restart with nothing", {}, async (scene) => {
  scene.endpoint.script(
    calls([{ id: "call_plan", name: "CreatePlan", arguments: { name: "N", overview: "O", plan: "# Steps", todos: [{ id: "1", content: "Look" }] } }]),
    text("planned"),
  );
  const planned = await scene.client.turn("Plan it.", { mode: "plan" });
  assert.equal(planned.text, "planned", planned.error);
  assert.match(scene.results().call_plan, /^The plan is in front of the person\. /);
  scene.endpoint.script(calls([{ id: "call_mode", name: "SwitchMode", arguments: { target_mode_id: "agent" } }]), text("agreed"));
  const agreed = await scene.client.turn("Start?", { mode: "plan" });
  assert.equal(agreed.text, "agreed", agreed.error);
  assert.match(scene.results().call_mode, /^The person agreed to agent mode\./);
  await scene.restart({ emptyData: true });
  scene.endpoint.script(text("still planned"));
  const next = await scene.client.turn("And now?", { mode: "plan" });
  assert.equal(next.text, "still planned", next.error);
});
