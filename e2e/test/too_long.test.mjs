// One round or one message that is larger than the model's context: the conversation goes on, with the client's own copy of it.
import assert from "node:assert/strict";
import { say, status } from "../support/answers.mjs";
import { every } from "../support/apis.mjs";
import { scenario } from "../support/scenario.mjs";

const REFUSED = "This model's maximum context length is 8192 tokens. However, your messages resulted in 90000 tokens.";
const NOTE = /characters were left out here: this was too long for the model\./;
const resets = (scene) => scene.cairn.prefix(scene.client.agentId).map((call) => call.reset?.name ?? (call.broken ? "broken" : null));

for (const api of every) {
  const thought = (answer) => say({ reasoning: `I say ${answer}.`, text: answer });

  scenario(`${api.name}: a round that is too long by itself is shortened once, also for who comes back with nothing`, {
    api,
    files: { "long.txt": "a line of text\n".repeat(5_000) },
  }, async (scene) => {
    scene.endpoint.script(
      say({ reasoning: "I read.", calls: [{ id: "call_a", name: "Read", arguments: { path: scene.path("long.txt") } }] }),
      status(400, REFUSED),
      thought("long"),
    );
    const run = await scene.client.turn("Read long.txt.");
    assert.equal(run.text, "long", run.error);
    assert.deepEqual(run.events.filter((event) => event.type === "task").map((event) => event.text), ["Tool results that were shortened: 1."]);
    const result = scene.results().call_a;
    assert.match(result, NOTE);
    assert.ok(result.length < 16_200, `${result.length}`);
    assert.deepEqual(resets(scene), [null, null, "shortening"]);
    assert.deepEqual(scene.endpoint.resets, [2]);
    // Each request of these extends the one before, or the endpoint objects.
    for (const [answer, emptyData] of [["one", false], ["two", true], ["three", true]]) {
      await scene.restart({ emptyData });
      scene.endpoint.script(thought(answer));
      const next = await scene.client.turn(`Say ${answer}.`);
      assert.equal(next.text, answer, next.error);
      assert.equal(scene.results().call_a, result);
    }
    assert.deepEqual(scene.endpoint.resets, [2]);
    await scene.logged(/state of the client.* archives=1/);
  });

  scenario(`${api.name}: a message that is too long is told to the person, and the next one goes through after a restart`, { api }, async (scene) => {
    scene.endpoint.script(status(400, REFUSED));
    const run = await scene.client.turn("words ".repeat(10_000));
    assert.equal(run.status, "error");
    assert.match(run.error, /Your message is too long for the model/);
    await scene.restart({ emptyData: true });
    scene.endpoint.script(status(400, REFUSED), thought("short"));
    const next = await scene.client.turn("In short?");
    assert.equal(next.text, "short", next.error);
    assert.match(scene.userTexts().at(-2), NOTE);
    scene.endpoint.script(thought("sure"));
    assert.equal((await scene.client.turn("Sure?")).text, "sure");
    assert.deepEqual(scene.endpoint.resets, [2]);
  });

  scenario(`${api.name}: a conversation that is far too long for its model goes on from what the model can hold`, {
    api,
    model: { context_window: 16_384 },
    files: { "a.txt": "0123456789 line\n".repeat(150) },
  }, async (scene) => {
    for (const turn of [0, 1, 2]) {
      const calls = Array.from({ length: 8 }, (_, round) => say({ calls: [{ id: `call_${turn}_${round}`, name: "Read", arguments: { path: scene.path("a.txt") } }] }));
      scene.endpoint.script(...calls, thought(`turn ${turn}`));
      const run = await scene.client.turn(`Read it eight times, ${turn}.`);
      assert.equal(run.text, `turn ${turn}`, run.error);
    }
    // The instructions, the tools and the context, and a fifth of what the conversation holds by now.
    const room = scene.endpoint.requests[0].text.length + 12_000;
    let gists = 0;
    scene.endpoint.otherwise(() => {
      if (scene.endpoint.requests.at(-1).text.length > room) return status(400, REFUSED);
      return thought(scene.userTexts().at(-1).startsWith("<compaction>") ? `gist ${(gists += 1)}` : "still here");
    });
    const run = await scene.client.turn("Are you there?");
    assert.equal(run.text, "still here", run.error);
    assert.match(scene.userTexts().at(-1), /Are you there\?/);
    assert.match(scene.userTexts().at(1), /^<conversation_summary>.*gist \d/s);
    const { length } = scene.endpoint.requests;
    await scene.restart({ emptyData: true });
    assert.equal((await scene.client.turn("Sure?")).text, "still here");
    assert.equal(scene.endpoint.requests.length, length + 1, "the next turn needs one request");
  });
}
