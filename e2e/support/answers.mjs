// What the scripted endpoint can answer. Each is a value; chat_endpoint.mjs plays it.

const MODEL = "scripted";

function chunk(delta, finish = null) {
  return {
    id: "chatcmpl-scripted",
    object: "chat.completion.chunk",
    created: 1,
    model: MODEL,
    choices: [{ index: 0, delta, finish_reason: finish }],
    usage: null,
  };
}

const event = (value) => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;

function stream(deltas, finish, usage) {
  return [
    chunk({ role: "assistant", content: "" }),
    ...deltas.map((delta) => chunk(delta)),
    chunk({}, finish),
    { ...chunk({}), choices: [], usage },
  ]
    .map(event)
    .concat(event("[DONE]"))
    .join("");
}

const usageOf = (usage) => ({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, ...usage });

/** An answer `{ reasoning, text, calls, usage }` in whatever API the scenario's endpoint speaks. */
export const say = (parts) => ({ say: parts });

/** An answer in text; pieces become one chunk each. Pieces of `reasoning` come before it. */
export function text(pieces, { reasoning = [], usage } = {}) {
  const list = Array.isArray(pieces) ? pieces : [pieces];
  return sse(stream([...thinking(reasoning), ...list.map((content) => ({ content }))], "stop", usageOf(usage)));
}

const thinking = (pieces) => pieces.map((reasoning_content) => ({ reasoning_content }));

/** Tool calls `{id, name, arguments}`; arguments are an object or raw text. Reasoning and text may come before them. */
export function calls(list, { before, reasoning = [], usage } = {}) {
  const deltas = thinking(reasoning);
  if (before !== undefined) deltas.push({ content: before });
  list.forEach((call, index) => {
    const argumentText = typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);
    const middle = Math.floor(argumentText.length / 2);
    deltas.push(
      { tool_calls: [{ index, id: call.id, type: "function", function: { name: call.name, arguments: "" } }] },
      { tool_calls: [{ index, function: { arguments: argumentText.slice(0, middle) } }] },
      { tool_calls: [{ index, function: { arguments: argumentText.slice(middle) } }] },
    );
  });
  return sse(stream(deltas, "tool_calls", usageOf(usage)));
}

/** One tool call. */
export const call = (id, name, args, options) => calls([{ id, name, arguments: args }], options);

/** A raw event stream, sent whole and ended cleanly. */
export const sse = (body) => ({ status: 200, headers: { "content-type": "text/event-stream" }, body, ending: "clean" });

/** An HTTP error with a JSON error body. */
export function status(code, message, headers = {}) {
  const body = JSON.stringify({ error: { message, type: "scripted", code: null } });
  return { status: code, headers: { "content-type": "application/json", ...headers }, body, ending: "clean" };
}

/** The beginning of the event that says why the model stopped, as a mark for a cut. */
export const finishing = (reason) => event(chunk({}, reason)).split(',"usage"')[0];

/** The answer up to the first occurrence of `mark` (which is left out), then the socket is cut. */
export const cutBefore = (answer, mark) => ({ ...answer, body: upTo(answer.body, mark), ending: "cut" });

/** The answer up to the first occurrence of `mark`, then a clean end of the body: no terminal event. */
export const endBefore = (answer, mark) => ({ ...answer, body: upTo(answer.body, mark), ending: "clean" });

/** The same answer in pieces of so many bytes, wherever that cuts a character, a line or an event. */
export function inPiecesOf(bytes, answer) {
  const whole = Buffer.from(answer.body, "utf8");
  const pieces = [];
  for (let at = 0; at < whole.length; at += bytes) pieces.push(whole.subarray(at, at + bytes));
  return { ...answer, pieces, ending: "pieces" };
}

/** The connection is closed before any byte of an answer. */
export const cutBeforeHeaders = () => ({ ending: "cut-before-headers" });

/**
 * The answer up to `mark`, then silence until `release()`. `reached` resolves when the first part is out, `closed` when
 * the other side has closed the connection.
 */
export function hold(answer, mark) {
  const first = upTo(answer.body, mark);
  const held = { ...answer, body: first, rest: answer.body.slice(first.length), ending: "hold" };
  for (const name of ["reached", "released", "closed"]) {
    held[name] = new Promise((resolve) => {
      held[`resolve_${name}`] = resolve;
    });
  }
  held.release = () => held.resolve_released();
  return held;
}

function upTo(body, mark) {
  const at = body.indexOf(mark);
  if (at < 0) throw new Error(`the answer does not contain ${JSON.stringify(mark)}`);
  return body.slice(0, at);
}
