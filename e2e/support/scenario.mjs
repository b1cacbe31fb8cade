// One scenario: a workspace, a strict endpoint, a cairn and the official client, all of them its own and gone afterwards.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { say } from "./answers.mjs";
import { chat } from "./apis.mjs";
import { Cairn } from "./cairn.mjs";
import { ChatEndpoint } from "./chat_endpoint.mjs";
import { Client } from "./client.mjs";

const APPEAR_TIMEOUT_MS = 30_000;
const CLIENT_KEY = "client-key-of-the-scenario";
const ENDPOINT_KEY = "sk-CANARY-of-the-scenario";

/**
 * Declares a test. `files` are put into the workspace; `model` adds to the model's table of the configuration and `models`
 * are further tables; each of `others` is the id of a model behind an endpoint of its own (`scene.others.ID`); `services`
 * are other tables of the configuration by name; `api` is the API that the endpoint speaks (apis.mjs); `environment` gives
 * more variables for cairn, from the endpoint; `client` are options of each client (`Client.open`); `stray` matches errors
 * that the client itself raises where nobody waits for them.
 * After the body every rule that always holds is checked: no fault at the endpoint, no answer left over, no stray error in
 * the client, no endpoint key in the log, no broken prefix found by cairn itself.
 */
export function scenario(name, { stray, ...setting }, body) {
  test(name, { timeout: 120_000 }, async () => {
    const scene = await Scene.start(setting);
    try {
      await body(scene);
      scene.assertClean(stray);
    } catch (error) {
      error.message += `\n${scene.report()}`;
      // What went wrong first says more than an end that goes wrong after it.
      await scene.end().catch((second) => (error.message += `\nand at the end: ${second.message}`));
      throw error;
    }
    await scene.end();
  });
}

/** The table of a model behind an endpoint, without its id. */
const behind = (endpoint, api) => ({
  api: api.name,
  base_url: endpoint.baseUrl,
  api_key_env: "ENDPOINT_KEY",
  model: "scripted",
  context_window: 128_000,
});

class Scene {
  #folder;
  #model;
  #models;
  #services;
  #api;
  #environment;
  #clientOptions;
  #data = 0;
  /** Every cairn of the scenario. */
  #cairns = [];

  /** The endpoints of further models, by the model's id. */
  others = {};

  static async start({
    files = {},
    model = {},
    models = [],
    others = [],
    services = {},
    api = chat,
    environment = () => ({}),
    client = {},
  }) {
    const scene = new Scene();
    scene.#folder = fs.mkdtempSync(path.join(os.tmpdir(), "cairn-e2e-"));
    scene.#model = { ...api.model, ...model };
    scene.#models = models;
    scene.#services = services;
    scene.#api = api;
    scene.#environment = environment;
    scene.#clientOptions = client;
    for (const name of ["home", "workspace", "cairn"]) fs.mkdirSync(path.join(scene.#folder, name));
    for (const [name, content] of Object.entries(files)) scene.write(name, content);
    try {
      scene.endpoint = await ChatEndpoint.start({ key: ENDPOINT_KEY, api });
      for (const id of others) scene.others[id] = await ChatEndpoint.start({ key: ENDPOINT_KEY, api });
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

  write(name, content, options) {
    fs.mkdirSync(path.dirname(this.path(name)), { recursive: true });
    fs.writeFileSync(this.path(name), content, options);
  }

  read(name) {
    return fs.readFileSync(this.path(name), "utf8");
  }

  exists(name) {
    return fs.existsSync(this.path(name));
  }

  /** Resolves when a file of the workspace exists. */
  async appears(name) {
    const deadline = Date.now() + APPEAR_TIMEOUT_MS;
    while (!this.exists(name)) {
      assert.ok(Date.now() < deadline, `${name} does not appear`);
      await pause(20);
    }
  }

  /** Waits until the server's log says something. */
  async logged(pattern) {
    const deadline = Date.now() + APPEAR_TIMEOUT_MS;
    while (!pattern.test(this.cairn.log)) {
      assert.ok(Date.now() < deadline, `the log never says ${pattern}`);
      await pause(20);
    }
  }

  /** The key that cairn shows the endpoint and nobody else. */
  get endpointKey() {
    return ENDPOINT_KEY;
  }

  /** Starts a cairn on the scenario's data folder. */
  async startCairn({ port } = {}) {
    this.cairn = await Cairn.start({
      port,
      folder: path.join(this.#folder, "cairn"),
      dataDir: path.join(this.#folder, `data-${this.#data}`),
      clientKey: CLIENT_KEY,
      environment: { ENDPOINT_KEY, ...this.#environment(this.endpoint) },
      services: this.#services,
      models: [
        { id: "default", ...behind(this.endpoint, this.#api), ...this.#model },
        ...Object.entries(this.others).map(([id, endpoint]) => ({ id, ...behind(endpoint, this.#api) })),
        ...this.#models,
      ],
    });
    this.#cairns.push(this.cairn);
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
      ...this.#clientOptions,
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

  /** A run of one round of these calls and a closing text; returns the finished run. */
  async round(list, prompt = "Go.") {
    this.endpoint.script(say({ calls: list }), say({ text: "done" }));
    const run = await this.client.turn(prompt);
    assert.equal(run.status, "finished", run.error);
    assert.equal(run.text, "done");
    return run;
  }

  /** Only cairn ends and starts again, on the same port, beneath a client that lives on. */
  async restartCairn({ kill = false, emptyData = false } = {}) {
    const { port } = this.cairn;
    await (kill ? this.cairn.kill() : this.cairn.stop());
    if (emptyData) this.forgetData();
    await this.startCairn({ port });
  }

  /** Body number `index` (from 0, or negative from the end) as parsed JSON. */
  body(index) {
    const request = this.endpoint.requests.at(index);
    assert.ok(request, `the endpoint got ${this.endpoint.requests.length} requests, none at ${index}`);
    return request.json;
  }

  /** What the latest body says, whatever its API: `{kind, id, text}`, the kinds being the roles, "call" and "result". */
  said() {
    return this.#api.read(this.body(-1));
  }

  #saidBy(kind) {
    return this.said().filter((entry) => entry.kind === kind);
  }

  /** The result texts that the latest body holds, by call id. */
  results() {
    return Object.fromEntries(this.#saidBy("result").map(({ id, text }) => [id, text]));
  }

  /** The call ids of the latest body's results, in their order. */
  resultOrder() {
    return this.#saidBy("result").map(({ id }) => id);
  }

  /** The texts of the latest body's user messages. */
  userTexts() {
    return this.#saidBy("user").map(({ text }) => text);
  }

  /** The argument texts of the calls that the latest body holds, by call id. */
  argumentTexts() {
    return Object.fromEntries(this.#saidBy("call").map(({ id, text }) => [id, text]));
  }

  assertClean(stray = /(?!)/) {
    for (const endpoint of [this.endpoint, ...Object.values(this.others)]) {
      assert.deepEqual(endpoint.faults, []);
      assert.equal(endpoint.left, 0, "scripted answers are left over");
    }
    assert.deepEqual(this.client.stray.filter((error) => !stray.test(error)), []);
    assert.ok(!this.cairn.log.includes(ENDPOINT_KEY), "the endpoint's key is in the log");
    for (const { log } of this.#cairns) assert.ok(!log.includes("does not extend its predecessor"), "cairn found a broken prefix");
  }

  report() {
    const faults = this.endpoint.faults.map((fault) => `  ${fault}`).join("\n");
    return `endpoint: ${this.endpoint.requests.length} requests, faults:\n${faults}\nlog of cairn:\n${this.cairn.log.slice(-3000)}`;
  }

  async end() {
    const endpoints = [this.endpoint, ...Object.values(this.others)].map((endpoint) => endpoint?.stop());
    const ends = await Promise.allSettled([this.client?.close(), this.cairn?.kill(), ...endpoints]);
    fs.rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 });
    const failed = ends.find((end) => end.status === "rejected");
    if (failed) throw failed.reason;
  }
}
