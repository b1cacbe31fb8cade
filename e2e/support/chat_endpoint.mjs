// A strict endpoint on loopback, of Chat Completions unless a scenario wants another API: plays scripted answers, records every body, and notes as a fault
// whatever a real endpoint would refuse and whatever breaks the append-only rule.
import http from "node:http";
import { chat } from "./apis.mjs";
import { elements, members } from "./raw_json.mjs";

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

export class ChatEndpoint {
  /** Every request, in order: `{text, json, messages, headers, host}`; `messages` are raw JSON texts, `host` is "direct" unless it came through a proxy. */
  requests = [];
  /** Numbers (from 0) of the requests that began anew with a summary which no request had before. */
  resets = [];
  /** What was wrong with the requests; a scenario must end with none. */
  faults = [];
  /** The request that the next one has to extend. */
  #latest;
  #answers = [];
  #fallback;
  #reset;
  #server;
  #key;
  #api;
  /** What was given out in answers and must come back as it was; the API says what that is. */
  #issued = [];

  /** `api` is one of apis.mjs. */
  static async start({ key, api = chat } = {}) {
    const endpoint = new ChatEndpoint();
    endpoint.#key = key;
    endpoint.#api = api;
    endpoint.#server = http.createServer((request, response) => {
      endpoint.#serve(request, response).catch((error) => {
        endpoint.faults.push(`the endpoint failed: ${error.stack}`);
        response.destroy();
      });
    });
    await new Promise((resolve) => endpoint.#server.listen(0, "127.0.0.1", resolve));
    return endpoint;
  }

  get baseUrl() {
    return `http://127.0.0.1:${this.#server.address().port}${this.#api.base}`;
  }

  /** Queues answers for the next requests; a function is called for its answer when its request is there. */
  script(...answers) {
    this.#answers.push(...answers);
  }

  /** Answers every request that no queued answer is left for. */
  otherwise(answer) {
    this.#fallback = answer;
  }

  /**
   * Says that the next request may differ from the one before it in the members `except` ("instructions" is message 0), and
   * that it extends request `base` instead of the one before it. Whatever else moves is still a fault.
   */
  allowReset({ base, except = [] }) {
    this.#reset = { base, except };
  }

  /** Answers that no request has taken yet. */
  get left() {
    return this.#answers.length;
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request, response) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const text = Buffer.concat(pieces).toString("utf8");
    this.#check(request, text);
    const scripted = this.#answers.shift() ?? this.#fallback;
    const answer = typeof scripted === "function" ? scripted() : scripted;
    if (answer === undefined) {
      this.faults.push(`request ${this.requests.length} came and no answer was scripted for it`);
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "no answer is scripted" } }));
      return;
    }
    await play(answer.say ? this.rendered(answer) : answer, request, response);
  }

  /** An answer of `say` as it goes over the wire; what it gives out is expected back. */
  rendered({ say }) {
    return this.#api.render(say, this.#issued);
  }

  #check(request, text) {
    const number = this.requests.length + 1;
    const fault = (message) => this.faults.push(`request ${number}: ${message}`);
    // A request through a proxy names its host.
    const { host, pathname } = new URL(request.url, "http://direct");
    const entry = { text, host, headers: request.headers, json: undefined, messages: [], rest: new Map() };
    this.requests.push(entry);
    if (request.method !== "POST" || pathname !== this.#api.path) fault(`went to ${request.method} ${request.url}`);
    if (request.headers["content-type"] !== "application/json") fault(`has content type ${request.headers["content-type"]}`);
    if (!this.#api.isAuthorized(request.headers, this.#key)) fault("has the wrong authorization header");
    try {
      entry.json = JSON.parse(text);
      entry.rest = new Map(members(text));
      entry.messages = elements(entry.rest.get(this.#api.list) ?? "[]").map(this.#api.plain ?? String);
      entry.rest.delete(this.#api.list);
    } catch (error) {
      fault(`is no valid JSON: ${error.message}`);
      return;
    }
    const problems = this.#api.problems ?? dialectProblems;
    for (const problem of problems(entry.json, this.#issued)) fault(problem);
    const reset = this.#reset;
    this.#reset = undefined;
    const said = entry.json[this.#api.list] ?? [];
    const asked = startsWith(said.at(-1), "<compaction>");
    const summary = entry.messages.find((_, index) => startsWith(said[index], "<conversation_summary>"));
    if (summary !== undefined && !this.requests.slice(0, -1).some((earlier) => earlier.messages.includes(summary))) {
      this.resets.push(number - 1);
      // What stands before the messages is as it was.
      const before = { ...this.#latest, messages: this.#latest.messages.filter(isSystem) };
      this.#latest = entry;
      for (const problem of extensionProblems(before, entry)) fault(problem);
      return;
    }
    const before = reset?.base === undefined ? this.#latest : this.requests[reset.base];
    // A request for a summary stands beside the conversation; of a history that was refused it repeats a part.
    if (!asked) this.#latest = entry;
    if (before?.json === undefined) return;
    const extended = asked ? { ...before, messages: before.messages.slice(0, entry.messages.length - 1) } : before;
    for (const problem of extensionProblems(extended, entry, reset?.except)) fault(problem);
  }
}

const isSystem = (message) => JSON.parse(message).role === "system";

function startsWith(message, beginning) {
  const content = message?.content;
  const text = typeof content === "string" ? content : content?.[0]?.text;
  return message?.role === "user" && text?.startsWith(beginning) === true;
}

/** What a strict endpoint refuses. */
export function dialectProblems(body) {
  const problems = [];
  if (body.stream !== true) problems.push("does not ask for a stream");
  if (typeof body.model !== "string" || body.model === "") problems.push("names no model");
  if (!Array.isArray(body.messages) || body.messages.length === 0) return [...problems, "has no messages"];
  if (body.messages[0].role !== "system") problems.push("does not begin with the system message");
  const names = (body.tools ?? []).map((tool) => tool.function?.name);
  for (const name of names) if (!TOOL_NAME.test(name ?? "")) problems.push(`offers a tool named ${JSON.stringify(name)}`);
  if (new Set(names).size !== names.length) problems.push("offers two tools of one name");

  const seen = new Set();
  let open = new Set();
  body.messages.forEach((message, index) => {
    const where = `message ${index}`;
    if (message.role !== "tool" && open.size > 0) {
      problems.push(`${where} comes before the results of ${[...open].join(", ")}`);
      open = new Set();
    }
    if (message.role === "tool") {
      if (!open.delete(message.tool_call_id)) problems.push(`${where} answers ${message.tool_call_id}, which is not open`);
      if (typeof message.content !== "string") problems.push(`${where} has no result text`);
    } else if (message.role === "assistant") {
      const calls = message.tool_calls ?? [];
      if (message.tool_calls !== undefined && calls.length === 0) problems.push(`${where} has an empty list of calls`);
      if (calls.length === 0 && !message.content) problems.push(`${where} is empty`);
      for (const call of calls) {
        if (seen.has(call.id)) problems.push(`${where} uses call id ${call.id} again`);
        seen.add(call.id);
        open.add(call.id);
        try {
          JSON.parse(call.function.arguments);
        } catch {
          problems.push(`${where} has a call whose arguments are no JSON`);
        }
      }
    } else if (message.role === "system" || message.role === "user") {
      if (message.content === undefined || message.content === "" || message.content.length === 0) problems.push(`${where} is empty`);
      if (message.role === "system" && index > 0) problems.push(`${where} is a second system message`);
    } else {
      problems.push(`${where} has the role ${message.role}`);
    }
  });
  if (open.size > 0) problems.push(`ends before the results of ${[...open].join(", ")}`);
  return problems;
}

/**
 * What keeps the later request from being an exact extension of the earlier one. A retry may be equal to it. Members named
 * in `except` may differ; "instructions" stands for message 0.
 */
export function extensionProblems(earlier, later, except = []) {
  const problems = [];
  const keys = (request) => [...request.rest.keys()].filter((key) => !except.includes(key));
  for (const key of keys(earlier)) {
    const [was, is] = [earlier.rest.get(key), later.rest.get(key)];
    if (is !== was) problems.push(`changes ${key}: ${clip(was)} became ${clip(is ?? "absent")}`);
  }
  for (const key of keys(later)) if (!earlier.rest.has(key)) problems.push(`adds ${key}`);
  if (keys(earlier).join() !== keys(later).join()) problems.push("orders its members otherwise");
  if (later.messages.length < earlier.messages.length) {
    problems.push(`has ${later.messages.length} messages after ${earlier.messages.length}`);
  }
  earlier.messages.slice(0, later.messages.length).forEach((message, index) => {
    if (later.messages[index] === message || (isSystem(message) && except.includes("instructions"))) return;
    problems.push(`rewrites message ${index}: ${clip(message)} became ${clip(later.messages[index])}`);
  });
  return problems;
}

const clip = (text) => (text.length > 200 ? `${text.slice(0, 200)}…` : text);

async function play(answer, request, response) {
  if (answer.ending === "cut-before-headers") {
    request.socket.destroy();
    return;
  }
  response.writeHead(answer.status, answer.headers);
  if (answer.ending === "clean") {
    response.end(answer.body);
    return;
  }
  if (answer.ending === "pieces") {
    request.socket.setNoDelay(true);
    for (const piece of answer.pieces) {
      await new Promise((resolve) => response.write(piece, resolve));
      // A turn of the event loop keeps the pieces apart on the wire.
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
    return;
  }
  await new Promise((resolve) => response.write(answer.body, resolve));
  if (answer.ending === "cut") {
    // What was written must be on its way before the reset, or the reader loses it.
    await new Promise((resolve) => setImmediate(resolve));
    request.socket.destroySoon();
    return;
  }
  response.on("close", answer.resolve_closed);
  answer.resolve_reached();
  await Promise.race([answer.released, answer.closed]);
  response.end(answer.rest);
}
