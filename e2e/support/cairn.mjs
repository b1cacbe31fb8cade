// One cairn process with its own configuration file and a data folder that may outlive it.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 10_000;

export class Cairn {
  /** What the process wrote to stderr: its log. */
  log = "";
  #process;
  #url;
  #folders;

  /**
   * Starts the binary and waits until it listens.
   * `folder` is a scratch folder; `dataDir` holds the database; `models` are tables of the configuration contract, `services`
   * further tables by name;
   * `port` 0 is any free one.
   */
  static async start({ folder, dataDir, clientKey, models, services = {}, port = 0, environment = {} }) {
    const binary = process.env.CAIRN_BIN;
    if (!binary) throw new Error("CAIRN_BIN names no binary; start the scenarios with e2e/run");
    fs.mkdirSync(dataDir, { recursive: true });
    const config = path.join(folder, "cairn.toml");
    fs.writeFileSync(config, configuration(clientKey, models, services));
    const cairn = new Cairn();
    cairn.#folders = ["--config", config, "--data-dir", dataDir];
    cairn.#process = spawn(binary, ["serve", "--config", config, "--listen", `127.0.0.1:${port}`, "--data-dir", dataDir], {
      env: { PATH: process.env.PATH, HOME: folder, RUST_BACKTRACE: "1", CAIRN_LOG: "trace", ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    cairn.#process.stderr.setEncoding("utf8").on("data", (piece) => (cairn.log += piece));
    cairn.#url = await cairn.#listening();
    return cairn;
  }

  get url() {
    return this.#url;
  }

  get port() {
    return Number(new URL(this.#url).port);
  }

  /** What `cairn prefix` says of a conversation, read beside the running process. */
  prefix(conversation) {
    const args = ["prefix", conversation, "--json", ...this.#folders];
    const { status, stdout, stderr } = spawnSync(process.env.CAIRN_BIN, args, { encoding: "utf8", env: { ENDPOINT_KEY: "unused" } });
    if (status !== 0) throw new Error(`cairn prefix ended with ${status}: ${stderr}`);
    return JSON.parse(stdout).calls;
  }

  /** Asks the process to stop and waits for its end. */
  stop() {
    return this.#end("SIGTERM");
  }

  /** Ends the process without a chance to tidy up. */
  kill() {
    return this.#end("SIGKILL");
  }

  async #end(signal) {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exit = once(this.#process, "exit");
    this.#process.kill(signal);
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, STOP_TIMEOUT_MS, "late")));
    const outcome = await Promise.race([exit, late]);
    clearTimeout(timer);
    if (outcome !== "late") return;
    this.#process.kill("SIGKILL");
    await exit;
    throw new Error(`cairn did not stop within ${STOP_TIMEOUT_MS} ms of ${signal}\n${this.log}`);
  }

  #listening() {
    return new Promise((resolve, reject) => {
      let output = "";
      const timer = setTimeout(() => {
        this.#process.kill("SIGKILL");
        reject(new Error(`cairn does not listen after ${START_TIMEOUT_MS} ms\n${this.log}`));
      }, START_TIMEOUT_MS);
      this.#process.on("error", reject);
      this.#process.on("exit", (code, signal) => {
        clearTimeout(timer);
        reject(new Error(`cairn ended at start (${code ?? signal})\n${this.log}`));
      });
      this.#process.stdout.setEncoding("utf8").on("data", (piece) => {
        output += piece;
        const line = /^listening on (http:\/\/\S+)$/m.exec(output);
        if (!line || !output.includes("\n")) return;
        clearTimeout(timer);
        this.#process.removeAllListeners("exit");
        resolve(line[1]);
      });
    });
  }
}

function configuration(clientKey, models, services) {
  const lines = [`client_key = ${JSON.stringify(clientKey)}`];
  for (const { options, ...model } of models) {
    lines.push("", "[[models]]");
    for (const [key, value] of Object.entries(model)) lines.push(`${key} = ${JSON.stringify(value)}`);
    if (options) {
      lines.push("[models.options]");
      for (const [key, value] of Object.entries(options)) lines.push(`${key} = ${JSON.stringify(value)}`);
    }
  }
  for (const [table, service] of Object.entries(services)) {
    lines.push("", `[${table}]`);
    for (const [key, value] of Object.entries(service)) lines.push(`${key} = ${JSON.stringify(value)}`);
  }
  return `${lines.join("\n")}\n`;
}
