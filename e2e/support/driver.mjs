// Runs the official client in a process of its own and does what the parent asks over IPC; see client.mjs.
import fs from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Agent } from "@cursor/sdk";
import sqlite3 from "sqlite3";

const runs = new Map();
let agent;

const tell = (message) => process.send(message);
const plain = (error) => ({ name: error?.name ?? "Error", message: error?.message ?? String(error) });

// The client may reject promises that nobody holds; a scenario must see them, not die of them.
process.on("unhandledRejection", (error) => tell({ kind: "stray", error: plain(error) }));
process.on("uncaughtException", (error) => tell({ kind: "stray", error: plain(error) }));

/** A tool that the client's host offers by itself, without a server. */
const CUSTOM_TOOLS = {
  add: {
    description: "Adds two numbers.",
    inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
    execute: ({ a, b }) => `the sum is ${a + b}`,
  },
};

async function open({ apiKey, model, cwd, resume, settingSources, mcpServers, customTools }) {
  const local = { cwd, settingSources, ...(customTools && { customTools: CUSTOM_TOOLS }) };
  const options = { apiKey, model, mcpServers, local };
  agent = resume ? await Agent.resume(resume, options) : await Agent.create(options);
  return { agentId: agent.agentId };
}

/**
 * The client takes one run at a time and its store sometimes keeps a cancelled run as active for good; its own way out is
 * to force the send. While its store still writes the other run down, that is refused as well and good a moment later.
 */
async function accepted(message, options) {
  let left = 50;
  for (let chosen = options; ; chosen = { ...options, local: { force: true } }) {
    try {
      return await agent.send(message, chosen);
    } catch (error) {
      if (!/already has active run/.test(error.message) || left === 0) throw error;
      left -= 1;
      await pause(20);
    }
  }
}

async function send({ run: number, text, mode, model, images }) {
  const message = images ? { text, images } : text;
  const options = { ...(mode && { mode }), ...(model && { model }), onDelta: ({ update }) => tell({ kind: "update", run: number, update }) };
  const run = await accepted(message, options);
  runs.set(number, run);
  follow(number, run);
  return {};
}

async function follow(number, run) {
  try {
    for await (const event of run.stream()) tell({ kind: "event", run: number, event });
    const { status, result } = await run.wait();
    const error = status === "error" ? await storedError(run.id) : undefined;
    tell({ kind: "ended", run: number, status, text: result, error });
  } catch (error) {
    tell({ kind: "ended", run: number, status: "thrown", error: `${error.name}: ${error.message}` });
  }
}

/** The client reports only that a run failed; why stands in its store alone. */
async function storedError(runId) {
  const projects = path.join(process.env.HOME, ".cursor", "projects");
  for (const entry of fs.readdirSync(projects, { recursive: true })) {
    if (path.basename(entry) !== "index.db") continue;
    const row = await new Promise((resolve, reject) => {
      const database = new sqlite3.Database(path.join(projects, entry), sqlite3.OPEN_READONLY);
      database.get("SELECT error_code FROM runs WHERE run_id = ?", runId, (error, found) => {
        database.close();
        if (error) reject(error);
        else resolve(found);
      });
    });
    if (row) return row.error_code;
  }
  return undefined;
}

const operations = {
  open,
  send,
  cancel: async ({ run }) => {
    await runs.get(run).cancel();
    return {};
  },
  close: async () => {
    await agent?.[Symbol.asyncDispose]?.();
    return {};
  },
};

process.on("message", async ({ id, operation, ...input }) => {
  try {
    tell({ kind: "answer", id, value: await operations[operation](input) });
  } catch (error) {
    tell({ kind: "answer", id, error: plain(error) });
  }
  if (operation === "close") process.disconnect();
});
