// One scenario: a workspace, a strict endpoint, a cairn and the official client, all of them its own and gone afterwards.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { Cairn } from "./cairn.mjs";
import { ChatEndpoint } from "./chat_endpoint.mjs";
import { Client } from "./client.mjs";

const CLIENT_KEY = "client-key-of-the-scenario";
const ENDPOINT_KEY = "sk-CANARY-of-the-scenario";

/**
 * Declares a test. `files` are put into the workspace; `model` adds to the model's table of the configuration.
 * After the body every rule that always holds is checked: no fault at the endpoint, no answer left over, no stray error in
 * the client, no endpoint key in the log.
 */
export function scenario(name, { files = {}, model = {} }, body) {
  test(name, { timeout: 120_000 }, async () => {
    const scene = await Scene.start({ files, model });
    try {
      await body(scene);
      scene.assertClean();
    } catch (error) {
      error.message += `\n${scene.report()}`;
      throw error;
    } finally {
      await scene.end();
    }
  });
}

class Scene {
  #folder;
  #model;
  #data = 0;

  static async start({ files, model }) {
    const scene = new Scene();
    scene.#folder = fs.mkdtempSync(path.join(os.tmpdir(), "cairn-e2e-"));
    scene.#model = model;
    for (const name of ["home", "workspace", "cairn"]) fs.mkdirSync(path.join(scene.#folder, name));
    for (const [name, content] of Object.entries(files)) scene.write(name, content);
    try {
      scene.endpoint = await ChatEndpoint.start({ key: ENDPOINT_KEY });
      await scene.startCairn();
      await scene.openClient();
    } catch (error) {
      await scene.end();
      throw error;
    }
    return scene;
  }

  get workspace() {
    return path.join(this.#folder, "workspace");
  }

  path(name) {
    return path.join(this.workspace, name);
  }

  write(name, content) {
    fs.mkdirSync(path.dirname(this.path(name)), { recursive: true });
    fs.writeFileSync(this.path(name), content);
  }

  read(name) {
    return fs.readFileSync(this.path(name), "utf8");
  }

  exists(name) {
    return fs.existsSync(this.path(name));
  }

  /** Starts a cairn on the scenario's data folder. */
  async startCairn() {
    this.cairn = await Cairn.start({
      folder: path.join(this.#folder, "cairn"),
      dataDir: path.join(this.#folder, `data-${this.#data}`),
      clientKey: CLIENT_KEY,
      environment: { ENDPOINT_KEY },
      models: [
        {
          id: "default",
          api: "openai-chat",
          base_url: this.endpoint.baseUrl,
          api_key_env: "ENDPOINT_KEY",
          model: "scripted",
          context_window: 128_000,
          ...this.#model,
        },
      ],
    });
  }

  /** Leaves the data folder behind: the next cairn starts with an empty one. */
  forgetData() {
    this.#data += 1;
  }

  /** Opens the client's agent, the first time a new one, later the same one in a new process. */
  async openClient(options = {}) {
    this.client = await Client.open({
      url: this.cairn.url,
      key: CLIENT_KEY,
      home: path.join(this.#folder, "home"),
      workspace: this.workspace,
      resume: this.client?.agentId,
      ...options,
    });
  }

  /** A client beside the scenario's own, for what must be refused. */
  openOther(options) {
    return Client.open({
      url: this.cairn.url,
      key: CLIENT_KEY,
      home: path.join(this.#folder, "home"),
      workspace: this.workspace,
      ...options,
    });
  }

  /** The client's process and the cairn's both end and start again. */
  async restart({ kill = false, emptyData = false } = {}) {
    await this.client.close();
    await (kill ? this.cairn.kill() : this.cairn.stop());
    if (emptyData) this.forgetData();
    await this.startCairn();
    await this.openClient();
  }

  /** Body number `index` (from 0, or negative from the end) as parsed JSON. */
  body(index) {
    const request = this.endpoint.requests.at(index);
    assert.ok(request, `the endpoint got ${this.endpoint.requests.length} requests, none at ${index}`);
    return request.json;
  }

  /** The result texts that the latest body holds, by call id. */
  results() {
    return Object.fromEntries(
      this.body(-1)
        .messages.filter((message) => message.role === "tool")
        .map((message) => [message.tool_call_id, message.content]),
    );
  }

  /** The argument texts of the calls that the latest body holds, by call id. */
  argumentTexts() {
    return Object.fromEntries(
      this.body(-1)
        .messages.flatMap((message) => message.tool_calls ?? [])
        .map((call) => [call.id, call.function.arguments]),
    );
  }

  assertClean() {
    assert.deepEqual(this.endpoint.faults, []);
    assert.equal(this.endpoint.left, 0, "scripted answers are left over");
    assert.deepEqual(this.client.stray, []);
    assert.ok(!this.cairn.log.includes(ENDPOINT_KEY), "the endpoint's key is in the log");
  }

  report() {
    const faults = this.endpoint.faults.map((fault) => `  ${fault}`).join("\n");
    return `endpoint: ${this.endpoint.requests.length} requests, faults:\n${faults}\nlog of cairn:\n${this.cairn.log.slice(-3000)}`;
  }

  async end() {
    const ends = await Promise.allSettled([this.client?.close(), this.cairn?.kill(), this.endpoint?.stop()]);
    fs.rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 });
    const failed = ends.find((end) => end.status === "rejected");
    if (failed) throw failed.reason;
  }
}
