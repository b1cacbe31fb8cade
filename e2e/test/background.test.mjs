// Commands in the background: waited for by time, by a line of their output, by their end.
import assert from "node:assert/strict";
import { call, text } from "../support/answers.mjs";
import { scenario } from "../support/scenario.mjs";

scenario("a command is moved to the background at once and waited for: by time, by a line, by its end", {}, async (scene) => {
  const command = "echo began; until [ -e ready ]; do sleep 0.05; done; echo now ready; until [ -e stop ]; do sleep 0.05; done; exit 7";
  const id = () => Number(/Shell id: (\d+)/.exec(scene.results().call_start)?.[1]);
  scene.endpoint.script(
    call("call_start", "Shell", { command, block_until_ms: 0 }),
    () => call("call_time", "AwaitShell", { shell_id: id(), block_until_ms: 300 }),
    () => {
      scene.write("ready", "");
      return call("call_line", "AwaitShell", { shell_id: id(), block_until_ms: 20_000, pattern: "now \\w+" });
    },
    () => {
      scene.write("stop", "");
      return call("call_end", "AwaitShell", { shell_id: id(), block_until_ms: 20_000 });
    },
    call("call_lost", "AwaitShell", { shell_id: 1 }),
    text("done"),
  );
  const run = await scene.client.turn("Go.");
  assert.equal(run.text, "done", run.error);
  const results = scene.results();
  assert.match(results.call_start, /in the background: as asked/);
  assert.match(results.call_time, /still running, after 300 ms[^]*began\n/);
  assert.doesNotMatch(results.call_time, /now ready/);
  assert.match(results.call_line, /fits this line: now ready\n/);
  assert.match(results.call_end, /has ended\.\nExit code: 7\n[^]*began\nnow ready\n/);
  assert.match(results.call_lost, /no command with the shell id 1 /);
  // After a command in the background the client's process does not end by itself.
  await scene.client.kill();
});
