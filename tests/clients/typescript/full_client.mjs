// A client on the official TypeScript SDK that plays a scenario and reports what it saw.
//
//   node full_client.mjs [--fs read,write] [--terminal] [--form] [--permission ANSWER]
//                        --steps FILE -- COMMAND [ARGUMENT...]
//
// FILE holds a JSON array of steps, played one after the other:
//   {"new": NAME, "cwd": DIR}                open a session and give it a name
//   {"prompt": NAME, "text": TEXT}           a turn; with "cancel": TEXT it is cancelled when that
//                                            was seen, with "cancel": true when a question is asked
//   {"load"|"resume"|"close"|"delete": NAME, "cwd": DIR}
//   {"list": true, "cwd"?: DIR}
//   {"permission": ANSWER}                   how questions are answered from here on
//   {"restart": true}                        close the agent's stdin and start another process
//   {"all": [STEP...]}                       at the same time
//
// The report goes to stdout: what `initialize` said, one result per step, and failures. Failures
// are: an update after its prompt's answer, a terminal that nobody released, an agent that does not
// exit with 0 when its stdin ends. With failures the exit status is 1.

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { parseArgs } from "node:util";
import * as acp from "@agentclientprotocol/sdk";
import { ANSWERS, Editor } from "./editor.mjs";
import { Witness } from "./witness.mjs";

const PATIENCE = 30_000; // milliseconds that an agent has to leave

const { values: flags, positionals: command } = parseArgs({
  allowPositionals: true,
  options: {
    fs: { type: "string", default: "" },
    terminal: { type: "boolean", default: false },
    form: { type: "boolean", default: false },
    permission: { type: "string", default: "allow_once" },
    steps: { type: "string" },
  },
});

const editor = new Editor(
  {
    read: flags.fs.split(",").includes("read"),
    write: flags.fs.split(",").includes("write"),
    terminal: flags.terminal,
    form: flags.form,
  },
  known(flags.permission),
);
const failures = [];
const sessions = {};
let running;

class Running {
  /** Start the agent and shake hands. */
  static async start() {
    const self = new Running();
    self.child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    self.exit = new Promise((resolve) => {
      self.child.on("error", (error) => resolve(String(error)));
      self.child.on("close", (code, signal) => resolve(signal ?? code));
    });
    self.witness = new Witness();
    const pipes = [Writable.toWeb(self.child.stdin), Readable.toWeb(self.child.stdout)];
    const app = editor.serve(acp.client({ name: "full-client" }));
    app.onNotification(acp.methods.client.session.update, () => {});
    self.connection = app.connect(self.witness.watch(acp.ndJsonStream(...pipes)));
    self.hello = await self.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientInfo: { name: "full-client", version: "1" },
      clientCapabilities: editor.capabilities,
    });
    return self;
  }

  request(method, params) {
    return this.connection.agent.request(method, params);
  }

  /** Close its stdin and see it leave. */
  async end() {
    this.child.stdin.end();
    const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, "no exit").unref());
    const status = await Promise.race([this.exit, late]);
    if (status !== 0) failures.push(`exit: the agent left with ${status}`);
    if (status === "no exit") this.child.kill("SIGKILL");
    await this.connection.closed; // everything that it said has been seen
    failures.push(...this.witness.failures);
    failures.push(...(await editor.close()).map((id) => `leak: ${id} was never released`));
  }
}

const STEPS = {
  new: async ({ new: name, cwd }) => {
    const opened = await running.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
    sessions[name] = opened.sessionId;
    return opened;
  },
  prompt: async ({ prompt: name, text, cancel }) => {
    const sessionId = sessions[name];
    const { witness } = running;
    witness.fresh(sessionId);
    const asked = editor.questions.length;
    const prompt = [{ type: "text", text }];
    const turn = running.request(acp.methods.agent.session.prompt, { sessionId, prompt });
    if (cancel !== undefined) await Promise.race([cancelled(sessionId, cancel, asked), turn]);
    const { stopReason } = await turn;
    return { stopReason, ...witness.of(sessionId) };
  },
  load: async ({ load: name, cwd }) => {
    const sessionId = sessions[name];
    running.witness.fresh(sessionId);
    await running.request(acp.methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
    return running.witness.of(sessionId);
  },
  resume: async ({ resume: name, cwd }) => {
    const sessionId = sessions[name];
    running.witness.fresh(sessionId);
    await running.request(acp.methods.agent.session.resume, { sessionId, cwd, mcpServers: [] });
    return running.witness.of(sessionId);
  },
  close: ({ close }) => running.request(acp.methods.agent.session.close, of(close)),
  delete: (step) => running.request(acp.methods.agent.session.delete, of(step.delete)),
  list: ({ cwd }) => running.request(acp.methods.agent.session.list, cwd ? { cwd } : {}),
  permission: ({ permission }) => {
    editor.permission = known(permission);
    return {};
  },
  restart: async () => {
    await running.end();
    running = await Running.start();
    return running.hello;
  },
  all: ({ all }) => Promise.all(all.map(play)),
};

function of(name) {
  return { sessionId: sessions[name] };
}

function known(answer) {
  if (!(answer in ANSWERS)) throw new Error(`no answer ${answer}: ${Object.keys(ANSWERS)}`);
  return answer;
}

/** Cancel a turn when something was seen, or when a question has been asked. */
async function cancelled(sessionId, when, asked) {
  const { witness } = running;
  if (when === true) {
    if (editor.questions.length === asked) {
      await new Promise((resolve) => (editor.onQuestion = resolve));
    }
  } else {
    await witness.until(() => witness.sees(sessionId, when));
  }
  await running.connection.agent.notify(acp.methods.agent.session.cancel, { sessionId });
}

/** Play a step; an error answer is a result like any other. */
async function play(step) {
  const kind = Object.keys(STEPS).find((name) => name in step);
  try {
    return await STEPS[kind](step);
  } catch (error) {
    if (error instanceof acp.RequestError) return { error: error.toErrorResponse() };
    throw error;
  }
}

async function main() {
  running = await Running.start();
  const { hello } = running;
  const results = [];
  const steps = JSON.parse(await readFile(flags.steps, "utf8"));
  for (const step of steps) results.push(await play(step));
  await running.end();
  const report = { hello, results, questions: editor.questions, failures };
  process.stdout.write(`${JSON.stringify(report)}\n`);
  process.exitCode = failures.length ? 1 : 0;
}

try {
  await main();
} catch (error) {
  console.error(error);
  running?.child.kill("SIGKILL");
  process.exit(2);
}
