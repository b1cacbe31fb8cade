// The APIs that the scripted endpoint can speak: where a request goes, what a strict endpoint of the API refuses, and how an
// answer of it looks on the wire, and what a request says whatever its shape. Answers are values: `{ reasoning, text, calls, usage }`, made with `say` of answers.mjs.
import { calls, sse, text } from "./answers.mjs";

const event = (value) => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const argumentText = (call) => (typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments));
const halves = (whole) => [whole.slice(0, whole.length >> 1), whole.slice(whole.length >> 1)];
const textOf = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));
const bearer = (headers, key) => headers.authorization === (key === undefined ? undefined : `Bearer ${key}`);

/** Calls and results by their ids: what is open, and what was used before. */
class Pairs {
  problems = [];
  #seen = new Set();
  #open = new Set();

  call(id, where) {
    if (!id || this.#seen.has(id)) this.problems.push(`${where} has the call id ${id}, which is empty or used`);
    this.#seen.add(id);
    this.#open.add(id);
  }

  result(id, where) {
    if (!this.#open.delete(id)) this.problems.push(`${where} answers ${id}, which is not open`);
  }

  closed(where) {
    if (this.#open.size > 0) this.problems.push(`${where} comes before the results of ${[...this.#open].join(", ")}`);
    this.#open.clear();
  }
}

function listProblems(body, list) {
  const problems = [];
  if (body.stream !== true) problems.push("does not ask for a stream");
  if (typeof body.model !== "string" || body.model === "") problems.push("names no model");
  if (!Array.isArray(body[list]) || body[list].length === 0) problems.push(`has no ${list}`);
  if (Object.keys(body).at(-1) !== list) problems.push(`does not end with ${list}`);
  const names = (body.tools ?? []).map((tool) => tool.name);
  for (const name of names) if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name ?? "")) problems.push(`offers a tool named ${name}`);
  if (names.length === 0 || new Set(names).size !== names.length) problems.push("offers no tools or two of one name");
  return problems;
}

/** OpenAI Responses without any state at the endpoint. `issued` holds the encrypted reasoning that was given out. */
export const responses = {
  name: "openai-responses",
  path: "/v1/responses",
  base: "/v1",
  list: "input",
  head: ["instructions", "tools"],
  model: {},
  isAuthorized: bearer,
  usage: (tokens) => ({ input_tokens: tokens }),

  read(body) {
    return body.input.flatMap((item) => {
      if (item.type === "function_call") return [{ kind: "call", id: item.call_id, text: item.arguments }];
      if (item.type === "function_call_output") return [{ kind: "result", id: item.call_id, text: textOf(item.output) }];
      return item.type === "message" ? [{ kind: item.role, text: textOf(item.content) }] : [];
    });
  },

  problems(body, issued) {
    const problems = listProblems(body, "input");
    if (body.store !== false || "previous_response_id" in body) problems.push("relies on stored state");
    if (body.include?.join() !== "reasoning.encrypted_content") problems.push("does not ask for encrypted reasoning");
    if (!body.instructions) problems.push("has no instructions");
    const pairs = new Pairs();
    let loose = false;
    (body.input ?? []).forEach((item, index) => {
      const where = `item ${index}`;
      if ("id" in item) problems.push(`${where} names the id ${item.id}, and nothing is stored`);
      const isAnswer = item.type === "reasoning" || item.type === "function_call" || item.role === "assistant";
      if (!isAnswer && loose) problems.push(`${where} comes right after reasoning, which is left without its item`);
      loose = item.type === "reasoning";
      if (!isAnswer && item.type !== "function_call_output") pairs.closed(where);
      if (item.type === "reasoning") {
        if (!issued.includes(item.encrypted_content)) problems.push(`${where} has encrypted content of nobody here`);
        if (!Array.isArray(item.summary)) problems.push(`${where} has no summary`);
      } else if (item.type === "function_call") {
        pairs.call(item.call_id, where);
        JSON.parse(item.arguments);
      } else if (item.type === "function_call_output") {
        pairs.result(item.call_id, where);
        const parts = Array.isArray(item.output) && item.output.every((part) => part.text || part.image_url);
        if (typeof item.output !== "string" && !parts) problems.push(`${where} has no output`);
      } else if (item.type !== "message" || !item.content?.every?.((part) => part.text || part.image_url)) {
        problems.push(`${where} is empty or of the type ${item.type}`);
      }
    });
    if (loose) problems.push("ends with reasoning");
    pairs.closed("the end");
    return [...problems, ...pairs.problems];
  },

  render({ reasoning, text: words, calls: list = [], usage = {} }, issued) {
    const items = [];
    if (reasoning !== undefined) {
      const encrypted_content = `sealed-${issued.length}-${Buffer.from(reasoning).toString("base64")}`;
      issued.push(encrypted_content);
      items.push({ type: "reasoning", id: `rs_${issued.length}`, summary: [{ type: "summary_text", text: reasoning }], encrypted_content });
    }
    if (words !== undefined) {
      items.push({ type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: words }] });
    }
    for (const call of list) {
      items.push({ type: "function_call", id: `fc_${call.id}`, call_id: call.id, name: call.name, arguments: argumentText(call) });
    }
    const events = [{ type: "response.created", response: { status: "in_progress" } }];
    items.forEach((item, output_index) => {
      const delta = (kind, pieces) =>
        pieces.forEach((piece) => events.push({ type: `response.${kind}.delta`, output_index, item_id: item.id, delta: piece }));
      events.push({ type: "response.output_item.added", output_index, item: { ...item, summary: [], content: [], arguments: "" } });
      if (item.type === "reasoning") delta("reasoning_summary_text", halves(reasoning));
      if (item.type === "message") delta("output_text", halves(words));
      if (item.type === "function_call") delta("function_call_arguments", halves(item.arguments));
      events.push({ type: "response.output_item.done", output_index, item });
    });
    const counts = { input_tokens: 100, output_tokens: 10, ...usage };
    events.push({ type: "response.completed", response: { status: "completed", output: items, usage: counts } });
    return sse(events.map(event).join(""));
  },

  /** The beginning of the event that ends an answer, as a mark for a cut. */
  end: "event: response.completed",
};

/** Anthropic Messages. `issued` holds the blocks of each answer with thinking: they must come back as they were. */
export const anthropic = {
  name: "anthropic",
  path: "/v1/messages",
  base: "",
  list: "messages",
  head: ["system", "tools"],
  model: { max_output_tokens: 8192 },
  usage: (tokens) => ({ input_tokens: tokens }),
  /** Where a request ends for the cache is said by markers, which are no part of what is compared. */
  plain: (message) => message.replaceAll(',"cache_control":{"type":"ephemeral"}', ""),

  read(body) {
    return body.messages.flatMap(({ role, content }) => {
      const text = textOf(content.filter((block) => block.type === "text"));
      const others = content.flatMap((block) => {
        if (block.type === "tool_use") return [{ kind: "call", id: block.id, text: JSON.stringify(block.input) }];
        return block.type === "tool_result" ? [{ kind: "result", id: block.tool_use_id, text: textOf(block.content) }] : [];
      });
      return text === "" ? others : [{ kind: role, text }, ...others];
    });
  },

  isAuthorized: (headers, key) => headers["x-api-key"] === key && headers["anthropic-version"] !== undefined,

  problems(body, issued) {
    const problems = listProblems(body, "messages");
    if (!(body.max_tokens > 0)) problems.push("has no max_tokens");
    if (!body.system?.[0]?.text) problems.push("has no system prompt");
    const marks = JSON.stringify(body).split('"cache_control"').length - 1;
    if (marks > 4) problems.push(`has ${marks} cache markers`);
    // Neighbouring messages of one role are one.
    const turns = [];
    for (const { role, content } of body.messages ?? []) {
      if (!Array.isArray(content) || content.length === 0) problems.push(`a message of ${role} is empty`);
      if (turns.at(-1)?.role === role) turns.at(-1).blocks.push(...content);
      else turns.push({ role, blocks: [...content] });
    }
    if (turns[0]?.role !== "user" || turns.at(-1)?.role !== "user") problems.push("does not begin and end with the user");
    const pairs = new Pairs();
    turns.forEach(({ role, blocks }, index) => {
      const where = `turn ${index}`;
      let others = false;
      for (const block of blocks) {
        if (block.type === "tool_result") {
          if (others) problems.push(`${where} has a result after other blocks`);
          pairs.result(block.tool_use_id, where);
        } else {
          others = true;
        }
        if (block.type === "tool_use") pairs.call(block.id, where);
        if (block.type === "text" && !block.text?.trim()) problems.push(`${where} has an empty text`);
      }
      if (role === "user") return pairs.closed(`${where}, after its results,`);
      const plain = blocks.map(({ cache_control, ...block }) => JSON.stringify(block)).join();
      const signatures = blocks.map((block) => block.signature).filter(Boolean);
      const given = issued.filter((answer) => signatures.includes(answer.signature)).map((answer) => answer.blocks);
      if (given.length !== signatures.length) problems.push(`${where} has a signature of nobody here`);
      if (given.length > 0 && plain !== given.join()) problems.push(`${where} changes the blocks of its answer:\n was ${given}\n is  ${plain}`);
    });
    return [...problems, ...pairs.problems];
  },

  render({ reasoning, text: words, calls: list = [], usage = {} }, issued) {
    const events = [
      { type: "message_start", message: { id: "msg", content: [], usage: { input_tokens: 100, output_tokens: 1, ...usage } } },
    ];
    const blocks = [];
    const add = (block, start, deltas) => {
      const index = blocks.push(JSON.stringify(block)) - 1;
      events.push({ type: "content_block_start", index, content_block: start });
      for (const delta of deltas) events.push({ type: "content_block_delta", index, delta });
      events.push({ type: "content_block_stop", index });
    };
    const signature = `signed-${issued.length}`;
    if (reasoning !== undefined) {
      add({ type: "thinking", thinking: reasoning, signature }, { type: "thinking", thinking: "", signature: "" }, [
        ...halves(reasoning).map((thinking) => ({ type: "thinking_delta", thinking })),
        { type: "signature_delta", signature },
      ]);
    }
    if (words !== undefined) {
      add({ type: "text", text: words }, { type: "text", text: "" }, halves(words).map((piece) => ({ type: "text_delta", text: piece })));
    }
    for (const call of list) {
      const { id, name } = call;
      const input = JSON.parse(argumentText(call));
      const pieces = halves(argumentText(call)).map((partial_json) => ({ type: "input_json_delta", partial_json }));
      add({ type: "tool_use", id, name, input }, { type: "tool_use", id, name, input: {} }, pieces);
    }
    if (reasoning !== undefined) issued.push({ signature, blocks: blocks.join() });
    const stop_reason = list.length > 0 ? "tool_use" : "end_turn";
    events.push({ type: "message_delta", delta: { stop_reason }, usage: { output_tokens: 10 } }, { type: "message_stop" });
    return sse(events.map(event).join(""));
  },

  end: "event: message_delta",
};

/** OpenAI Chat Completions; what it refuses is in chat_endpoint.mjs. */
export const chat = {
  name: "openai-chat",
  path: "/v1/chat/completions",
  base: "/v1",
  list: "messages",
  head: ["instructions", "tools"],
  model: {},
  isAuthorized: bearer,
  usage: (tokens) => ({ prompt_tokens: tokens, total_tokens: tokens + 10 }),

  read(body) {
    return body.messages.flatMap(({ role, content, tool_call_id, tool_calls = [] }) => {
      if (role === "tool") return [{ kind: "result", id: tool_call_id, text: content }];
      const made = tool_calls.map((call) => ({ kind: "call", id: call.id, text: call.function.arguments }));
      return role === "assistant" && !content ? made : [{ kind: role, text: textOf(content) }, ...made];
    });
  },

  render({ reasoning, text: words, calls: list = [], usage }) {
    const options = { reasoning: reasoning === undefined ? [] : halves(reasoning), usage };
    return list.length > 0 ? calls(list, { ...options, before: words }) : text(halves(words ?? ""), options);
  },
};

/** All of them. */
export const every = [chat, responses, anthropic];
