// The official client over the other two APIs: the same turns, judged by each API's own strict rules.
import assert from "node:assert/strict";
import { cutBefore, say, status } from "../support/answers.mjs";
import { anthropic, responses } from "../support/apis.mjs";
import { scenario } from "../support/scenario.mjs";

const THOUGHT = "  First \"think\",\r\nthen\tact — 考える 🧠\n";

for (const [api, model] of [
  [responses, {}],
  [anthropic, { max_output_tokens: 8192 }],
]) {
  scenario(`${api.name}: turns, three tools in a round and thinking, through restarts and a lost database`, {
    api,
    model,
    files: { "a.txt": "alpha\n" },
  }, async (scene) => {
    scene.endpoint.script(say({ text: "Hello — 世界", usage: { input_tokens: 321 } }));
    const hello = await scene.client.turn("Say hello.");
    assert.equal(hello.text, "Hello — 世界", hello.error);
    assert.equal(hello.updates.find((update) => update.type === "turn-ended").usage.inputTokens, 321);

    const odd = `{ "limit": 10,\t"path" : ${JSON.stringify(scene.path("a.txt"))}}`;
    scene.endpoint.script(
      say({
        reasoning: THOUGHT,
        text: "Let me see.",
        calls: [
          { id: "call_read", name: "Read", arguments: odd },
          { id: "call_run", name: "Shell", arguments: { command: "echo ran" } },
          { id: "call_write", name: "Write", arguments: { path: scene.path("b.txt"), contents: "β\n" } },
        ],
      }),
      say({ reasoning: "enough", text: "done" }),
    );
    const tools = await scene.client.turn("Use all three.");
    assert.equal(tools.text, "done", tools.error);
    assert.equal(tools.shown, "Let me see.done");
    assert.equal(scene.read("b.txt"), "β\n");

    for (const [emptyData, prompt] of [[false, "Once more."], [true, "And again."]]) {
      await scene.restart({ emptyData });
      scene.endpoint.script(say({ reasoning: `thinking of ${prompt}`, text: "yes" }));
      const next = await scene.client.turn(prompt);
      assert.equal(next.text, "yes", next.error);
    }
    // That all of it came back as it was, each in its place, is what the endpoint judges; here, that it came back at all.
    const { text } = scene.endpoint.requests.at(-1);
    const marks = api === responses ? /"encrypted_content"/g : /"signature"/g;
    assert.equal(text.match(marks).length, 3);
    const [parsed, raw] = [JSON.stringify(odd), odd];
    assert.ok(text.includes(api === responses ? parsed : raw), "the arguments kept their text");
    assert.equal(scene.endpoint.requests.length, 5);
  });

  scenario(`${api.name}: a refused key and a cut answer are errors that leave nothing behind`, { api, model }, async (scene) => {
    scene.endpoint.script(say({ reasoning: "hm", text: "one" }), status(401, `the key ${scene.endpointKey} is not known here`));
    assert.equal((await scene.client.turn("First")).text, "one");
    const refused = await scene.client.turn("Second");
    assert.equal(refused.status, "error");
    assert.match(refused.error ?? "", /401.*is not known here.*api_key_env/s);
    assert.ok(!refused.error.includes(scene.endpointKey));

    const answer = scene.endpoint.rendered(say({ calls: [{ id: "call_cut", name: "Shell", arguments: { command: "touch ran" } }] }));
    scene.endpoint.script(cutBefore(answer, api.end));
    const cut = await scene.client.turn("Third");
    assert.equal(cut.status, "error");
    assert.ok(!scene.exists("ran"), "a call of a cut answer was run");

    scene.endpoint.script(say({ text: "two" }));
    const next = await scene.client.turn("Fourth");
    assert.equal(next.text, "two", next.error);
    assert.equal(scene.endpoint.requests.length, 4);
    assert.ok(!scene.endpoint.requests.at(-1).text.includes("call_cut"));
  });
}

scenario("a proxy of the environment stands before an endpoint elsewhere, and never before one on this machine", {
  environment: (endpoint) => ({ HTTP_PROXY: new URL(endpoint.baseUrl).origin }),
  models: [{ id: "elsewhere", api: "openai-chat", base_url: "http://models.invalid/v1", api_key_env: "ENDPOINT_KEY", model: "scripted" }],
}, async (scene) => {
  scene.endpoint.script(say({ text: "near" }), say({ text: "far" }));
  const near = await scene.client.turn("First");
  assert.equal(near.text, "near", near.error);
  const far = await scene.client.turn("Second", { model: { id: "elsewhere" } });
  assert.equal(far.text, "far", far.error);
  assert.deepEqual(scene.endpoint.requests.map((request) => request.host), ["direct", "models.invalid"]);
});
