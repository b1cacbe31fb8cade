// The official client as a scenario sees it: a child process with a home folder of its own, so that its store is its own.
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

const RUN_TIMEOUT_MS = 90_000;
const CLOSE_TIMEOUT_MS = 30_000;

export class Client {
  /** Errors that the client raised where nobody waited for them. */
  stray = [];
  #child;
  #requests = new Map();
  #runs = new Map();
  #next = 0;
  #output = "";

  /** Opens an agent, or resumes the one whose id is given. Rejects with the client's own error. */
  static async open({ url, key, home, workspace, model = "default", resume, settingSources = ["project"], mcpServers, customTools = false }) {
    const client = new Client();
    client.#child = fork(path.join(import.meta.dirname, "driver.mjs"), {
      cwd: workspace,
      env: { PATH: process.env.PATH, HOME: home, LANG: "C.UTF-8", TZ: "UTC", CURSOR_BACKEND_URL: url },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    for (const stream of [client.#child.stdout, client.#child.stderr]) {
      stream.setEncoding("utf8").on("data", (piece) => (client.#output += piece));
    }
    client.#child.on("message", (message) => client.#receive(message));
    client.#child.on("exit", () => client.#lost());
    try {
      const { agentId } = await client.#ask("open", {
        apiKey: key,
        model: modelOf(model),
        cwd: workspace,
        resume,
        settingSources,
        mcpServers,
        customTools,
      });
      client.agentId = agentId;
    } catch (error) {
      client.#child.kill();
      throw error;
    }
    return client;
  }

  /** Starts a run. `model` is an id or `{id, params}`; images are `{data, mimeType}` with the data in base64. */
  async send(text, { mode, model, images } = {}) {
    const run = new Run(this.#next++, (operation, input) => this.#ask(operation, input));
    this.#runs.set(run.number, run);
    await this.#ask("send", { run: run.number, text, mode, model: model && modelOf(model), images });
    return run;
  }

  /** Sends and waits for the end of the run. */
  async turn(text, options) {
    return (await this.send(text, options)).ended();
  }

  /** Ends the process without a chance to tidy up. */
  async kill() {
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }

  /** Lets the client tidy up and ends its process; one that does not end by itself is killed, which is an error. */
  async close() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#child.kill("SIGKILL");
    }, CLOSE_TIMEOUT_MS);
    if (this.#child.connected) await this.#ask("close", {}).catch(() => undefined);
    await exit;
    clearTimeout(timer);
    if (late) throw new Error(`the client did not end within ${CLOSE_TIMEOUT_MS} ms\n${this.#output.slice(-2000)}`);
  }

  #ask(operation, input) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#requests.set(id, { resolve, reject });
      this.#child.send({ id, operation, ...input });
    });
  }

  #receive(message) {
    if (message.kind === "answer") {
      const { resolve, reject } = this.#requests.get(message.id);
      this.#requests.delete(message.id);
      if (message.error) reject(Object.assign(new Error(message.error.message), { name: message.error.name }));
      else resolve(message.value);
    } else if (message.kind === "stray") {
      this.stray.push(`${message.error.name}: ${message.error.message}`);
    } else {
      this.#runs.get(message.run).receive(message);
    }
  }

  #lost() {
    const error = new Error(`the client process is gone\n${this.#output.slice(-2000)}`);
    for (const { reject } of this.#requests.values()) reject(error);
    for (const run of this.#runs.values()) run.receive({ kind: "ended", status: "lost", error: error.message });
  }
}

const modelOf = (model) => (typeof model === "string" ? { id: model } : model);

/** One run as the client shows it. */
export class Run {
  /** Stream events in order. */
  events = [];
  /** Incremental updates in order. */
  updates = [];
  #ask;
  #waiters = [];
  #outcome;

  constructor(number, ask) {
    this.number = number;
    this.#ask = ask;
  }

  cancel() {
    return this.#ask("cancel", { run: this.number });
  }

  /** Resolves with the first event or update that the predicate accepts, past ones included. */
  seen(predicate) {
    const past = [...this.events, ...this.updates].find(predicate);
    if (past) return Promise.resolve(past);
    return this.#until((message) => {
      const value = message.event ?? message.update;
      return value !== undefined && predicate(value) ? value : undefined;
    });
  }

  /** Resolves with `{status, text, error, events, updates}` when the run is over. */
  async ended() {
    const { status, text, error } = this.#outcome ?? (await this.#until((message) => (message.kind === "ended" ? message : undefined)));
    return { status, text, error, events: this.events, updates: this.updates, shown: this.shown, tools: this.tools };
  }

  /** All answer text that was shown, in order. */
  get shown() {
    return this.updates.filter((update) => update.type === "text-delta").map((update) => update.text).join("");
  }

  /** The finished tool calls as shown: `{call, name, args, result}`. */
  get tools() {
    return this.events
      .filter((event) => event.type === "tool_call" && event.status === "completed")
      .map(({ call_id: call, name, args, result }) => ({ call, name, args, result }));
  }

  receive(message) {
    if (message.kind === "event") this.events.push(message.event);
    if (message.kind === "update") this.updates.push(message.update);
    if (message.kind === "ended") this.#outcome ??= message;
    for (const waiter of [...this.#waiters]) waiter(message);
  }

  #until(select) {
    return new Promise((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
      };
      const waiter = (message) => {
        const value = select(message);
        if (value === undefined && message.kind !== "ended") return;
        done();
        if (value === undefined) reject(new Error(`the run ended (${message.status}: ${message.error}) before what was awaited`));
        else resolve(value);
      };
      const timer = setTimeout(() => {
        done();
        reject(new Error(`nothing within ${RUN_TIMEOUT_MS} ms; last event ${JSON.stringify(this.events.at(-1))}`));
      }, RUN_TIMEOUT_MS);
      this.#waiters.push(waiter);
    });
  }
}
