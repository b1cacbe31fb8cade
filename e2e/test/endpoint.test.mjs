// The scripted endpoint is the judge of the other scenarios, so it is itself tested, without client and cairn.
import assert from "node:assert/strict";
import { test } from "node:test";
import { call, calls, cutBefore, endBefore, hold, status, text } from "../support/answers.mjs";
import { anthropic, responses } from "../support/apis.mjs";
import { ChatEndpoint, dialectProblems, extensionProblems } from "../support/chat_endpoint.mjs";
import { elements, members } from "../support/raw_json.mjs";

const system = '{"role":"system","content":"s"}';
const user = '{"role":"user","content":"u"}';
const bodyOf = (...messages) => `{"model":"m","stream":true,"messages":[${messages.join(",")}]}`;

function requestOf(body) {
  const rest = new Map(members(body));
  const messages = elements(rest.get("messages"));
  rest.delete("messages");
  return { messages, rest };
}

async function withEndpoint(use) {
  const endpoint = await ChatEndpoint.start({ key: "k" });
  const post = (body) =>
    fetch(`${endpoint.baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer k" },
      body,
    });
  try {
    return await use(endpoint, post);
  } finally {
    await endpoint.stop();
  }
}

test("raw members and elements keep their very text", () => {
  assert.deepEqual(members('{ "a" : 1.0, "b":"\\"}]", "c": [ {"x":1} , 2 ] }'), [
    ["a", "1.0"],
    ["b", '"\\"}]"'],
    ["c", '[ {"x":1} , 2 ]'],
  ]);
  assert.deepEqual(elements('[ {"x":1} , 2e3,"]", [] ]'), ['{"x":1}', "2e3", '"]"', "[]"]);
  assert.deepEqual(members("{}"), []);
  assert.deepEqual(elements("[]"), []);
});

test("an exact extension has no problem, and a retry has none", () => {
  const first = requestOf(bodyOf(system, user));
  assert.deepEqual(extensionProblems(first, requestOf(bodyOf(system, user, '{"role":"assistant","content":"a"}'))), []);
  assert.deepEqual(extensionProblems(first, first), []);
});

test("a moved key, a dropped message and a changed member are problems", () => {
  const first = requestOf(bodyOf(system, user));
  assert.equal(extensionProblems(first, requestOf(bodyOf(system, '{"content":"u","role":"user"}'))).length, 1);
  assert.equal(extensionProblems(first, requestOf(bodyOf(system))).length, 1);
  assert.equal(extensionProblems(first, requestOf(bodyOf(system, user).replace('"m"', '"n"'))).length, 1);
  assert.equal(extensionProblems(first, requestOf(bodyOf(system, user).replace('"stream":true', '"stream":true,"n":1'))).length, 2);
});

test("calls and results must pair", () => {
  const assistant = (...ids) => ({
    role: "assistant",
    content: null,
    tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "Read", arguments: "{}" } })),
  });
  const tool = (id) => ({ role: "tool", tool_call_id: id, content: "r" });
  const problems = (...messages) => dialectProblems({ model: "m", stream: true, messages: [{ role: "system", content: "s" }, ...messages] });
  assert.deepEqual(problems(assistant("a", "b"), tool("b"), tool("a")), []);
  assert.deepEqual(problems(assistant("a")), ["ends before the results of a"]);
  assert.deepEqual(problems(assistant("a"), { role: "user", content: "u" }), ["message 2 comes before the results of a"]);
  assert.deepEqual(problems(tool("a")), ["message 1 answers a, which is not open"]);
  assert.deepEqual(problems(assistant("a"), tool("a"), assistant("a"), tool("a")), ["message 3 uses call id a again"]);
});

test("a text answer is a stream that ends with usage and the terminal mark", () =>
  withEndpoint(async (endpoint, post) => {
    endpoint.script(text(["a", "b"]));
    const events = (await (await post(bodyOf(system, user))).text()).trim().split("\n\n");
    assert.equal(events.at(-1), "data: [DONE]");
    assert.equal(JSON.parse(events.at(-2).slice(6)).usage.total_tokens, 110);
    assert.equal(JSON.parse(events.at(-3).slice(6)).choices[0].finish_reason, "stop");
    assert.deepEqual(endpoint.faults, []);
  }));

test("an unscripted, a shrunken and an unauthorised request are faults", () =>
  withEndpoint(async (endpoint, post) => {
    endpoint.script(text("a"));
    await (await post(bodyOf(system, user))).text();
    await (await post(bodyOf(system))).text();
    assert.deepEqual(endpoint.faults, ["request 2: has 1 messages after 2", "request 2 came and no answer was scripted for it"]);
    endpoint.script(status(500, "no"));
    await fetch(`${endpoint.baseUrl}/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: bodyOf(system) });
    assert.equal(endpoint.faults.at(-1), "request 3: has the wrong authorization header");
  }));

test("a cut answer ends in a broken body, an ended one does not", () =>
  withEndpoint(async (endpoint, post) => {
    endpoint.script(cutBefore(text(["one", "two"]), "two"), endBefore(text(["one", "two"]), "two"));
    await assert.rejects(async () => (await post(bodyOf(system, user))).text());
    const whole = await (await post(bodyOf(system, user))).text();
    assert.ok(whole.includes('"one"') && !whole.includes("[DONE]"));
  }));

test("a held answer goes on when released and tells when the reader leaves", () =>
  withEndpoint(async (endpoint, post) => {
    const first = hold(call("c", "Read", { path: "x" }), "[DONE]");
    const second = hold(calls([{ id: "c", name: "Read", arguments: "{}" }]), "[DONE]");
    endpoint.script(first, second);
    const response = await post(bodyOf(system, user));
    await first.reached;
    first.release();
    assert.ok((await response.text()).endsWith("data: [DONE]\n\n"));
    const left = await post(bodyOf(system, user));
    await second.reached;
    await left.body.cancel();
    await second.closed;
  }));

test("the rules of Responses: pairs, reasoning and state", () => {
  const body = (...input) => ({
    model: "m",
    stream: true,
    store: false,
    include: ["reasoning.encrypted_content"],
    tools: [{ name: "Read" }],
    instructions: "i",
    input,
  });
  const user = { type: "message", role: "user", content: [{ type: "input_text", text: "u" }] };
  const said = { type: "message", role: "assistant", content: [{ type: "output_text", text: "a" }] };
  const thought = { type: "reasoning", summary: [], encrypted_content: "known" };
  const called = { type: "function_call", call_id: "c", name: "Read", arguments: "{}" };
  const result = { type: "function_call_output", call_id: "c", output: "r" };
  const problems = (...input) => responses.problems(body(...input), ["known"]).length;
  assert.equal(problems(user, thought, said, thought, called, result, user), 0);
  assert.equal(responses.problems({ ...body(user), store: true }, []).length, 1);
  assert.equal(problems(user, { ...said, id: "msg_1" }), 1);
  assert.equal(problems(user, { ...thought, encrypted_content: "of another" }, said), 1);
  assert.equal(problems(user, thought, user), 1);
  assert.equal(problems(user, thought), 1);
  assert.equal(problems(user, called, user), 1);
  assert.equal(problems(user, result), 1);
  assert.equal(problems(user, called, result, called, result), 1);
});

test("the rules of Messages: grouping, pairs and signed thinking", () => {
  const body = (...messages) => ({ model: "m", max_tokens: 1, stream: true, tools: [{ name: "Read" }], system: [{ text: "s" }], messages });
  const message = (role, ...content) => ({ role, content });
  const text = (words) => ({ type: "text", text: words });
  const thought = { type: "thinking", thinking: "t", signature: "signed" };
  const called = { type: "tool_use", id: "c", name: "Read", input: {} };
  const result = { type: "tool_result", tool_use_id: "c", content: "r" };
  const issued = [{ signature: "signed", blocks: [thought, called].map((block) => JSON.stringify(block)).join() }];
  const problems = (...messages) => anthropic.problems(body(...messages), issued).length;
  const [user, answer] = [message("user", text("u")), message("assistant", thought, called)];
  assert.equal(problems(user, answer, message("user", result, text("u"))), 0);
  assert.equal(problems(user, answer, message("user", { ...result, cache_control: {} })), 0);
  assert.equal(problems(user, answer, message("user", text("u"), result)), 1);
  assert.equal(problems(user, answer, user), 1);
  assert.equal(problems(user, message("assistant", called, thought), message("user", result)), 1);
  assert.equal(problems(user, message("assistant", { ...thought, thinking: "T" }, called), message("user", result)), 1);
  assert.equal(problems(user, message("assistant", { ...thought, signature: "forged" }), user), 1);
  assert.equal(problems(user, message("assistant", text(" ")), user), 1);
  assert.equal(problems(user, message("assistant", text("a"))), 1);
});
