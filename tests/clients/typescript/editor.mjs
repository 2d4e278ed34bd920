// What an editor does for an agent: files, terminals, questions, forms.
// Knows the SDK's handler shapes and nothing of processes or scenarios.

import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { RequestError, methods } from "@agentclientprotocol/sdk";

/** How the user may answer a permission request, by name. */
export const ANSWERS = {
  allow_once: choose("allow_once"),
  allow_always: choose("allow_always"),
  reject_once: choose("reject_once"),
  cancelled: () => ({ outcome: { outcome: "cancelled" } }),
  never: () => new Promise(() => {}),
  unknown: () => ({ outcome: { outcome: "selected", optionId: "everything" } }),
  malformed: () => ({ outcome: "allow_once" }),
  empty: () => ({}),
  error: () => {
    throw RequestError.internalError({ details: "there is no user here" });
  },
};

function choose(kind) {
  return ({ options }) => {
    const optionId = options.find((option) => option.kind === kind)?.optionId;
    return { outcome: { outcome: "selected", optionId } };
  };
}

export class Editor {
  /** @param {{read: boolean, write: boolean, terminal: boolean, form: boolean}} offers */
  constructor(offers, permission) {
    this.offers = offers;
    this.permission = permission;
    this.questions = [];
    this.terminals = new Map();
    this.created = 0;
    this.onQuestion = () => {};
  }

  /** What `initialize` announces; what is not offered is left out. */
  get capabilities() {
    const { read, write, terminal, form } = this.offers;
    return {
      ...(read || write ? { fs: { readTextFile: read, writeTextFile: write } } : {}),
      ...(terminal ? { terminal } : {}),
      ...(form ? { elicitation: { form: {} } } : {}),
    };
  }

  /** Put the handlers of everything this editor offers, and of questions, into an app. */
  serve(app) {
    const { fs, terminal, session, elicitation } = methods.client;
    app.onRequest(session.requestPermission, ({ params }) => this.ask(params));
    if (this.offers.read) app.onRequest(fs.readTextFile, ({ params }) => read(params));
    if (this.offers.write) app.onRequest(fs.writeTextFile, ({ params }) => write(params));
    if (this.offers.form) {
      app.onRequest(elicitation.create, () => ({ action: "cancel" }));
    }
    if (this.offers.terminal) {
      app.onRequest(terminal.create, ({ params }) => this.create(params));
      app.onRequest(terminal.output, ({ params }) => this.terminal(params).output());
      app.onRequest(terminal.waitForExit, ({ params }) => this.terminal(params).exited);
      app.onRequest(terminal.kill, ({ params }) => this.terminal(params).kill());
      app.onRequest(terminal.release, ({ params }) => this.release(params));
    }
    return app;
  }

  ask(params) {
    this.questions.push(params);
    this.onQuestion(params);
    return ANSWERS[this.permission](params);
  }

  create({ command, args = [], env = [], cwd, outputByteLimit }) {
    const terminalId = `terminal-${++this.created}`;
    const extra = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const options = { cwd: cwd ?? undefined, env: { ...process.env, ...extra } };
    this.terminals.set(terminalId, new Terminal(command, args, options, outputByteLimit));
    return { terminalId };
  }

  terminal({ terminalId }) {
    const terminal = this.terminals.get(terminalId);
    if (!terminal) throw RequestError.invalidParams({ details: `no terminal ${terminalId}` });
    return terminal;
  }

  async release(params) {
    const terminal = this.terminal(params);
    this.terminals.delete(params.terminalId);
    await terminal.kill();
    return {};
  }

  /** The ids of terminals that nobody released; they are ended. */
  async close() {
    const left = [...this.terminals.keys()];
    for (const terminal of this.terminals.values()) await terminal.kill();
    this.terminals.clear();
    return left;
  }
}

class Terminal {
  constructor(command, args, options, limit) {
    this.limit = limit ?? 1 << 20;
    this.bytes = Buffer.alloc(0);
    this.truncated = false;
    this.exitStatus = undefined;
    this.child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (data) => this.keep(data));
    }
    this.exited = new Promise((resolve) => {
      this.child.on("error", () => resolve({ exitCode: 127 }));
      this.child.on("close", (exitCode, signal) => resolve({ exitCode, signal }));
    }).then((status) => (this.exitStatus = status));
  }

  keep(data) {
    this.bytes = Buffer.concat([this.bytes, data]);
    if (this.bytes.length > this.limit) {
      this.truncated = true;
      this.bytes = this.bytes.subarray(this.bytes.length - this.limit);
    }
  }

  output() {
    const { truncated, exitStatus } = this;
    return { output: this.bytes.toString("utf8"), truncated, exitStatus };
  }

  async kill() {
    if (this.exitStatus === undefined) this.child.kill("SIGKILL");
    await this.exited;
    return {};
  }
}

async function read({ path, line, limit }) {
  let text;
  try {
    text = await readFile(path, "utf8");
  } catch {
    throw RequestError.resourceNotFound(path);
  }
  const start = Math.max((line ?? 1) - 1, 0);
  const lines = text.split(/(?<=\n)/);
  return { content: lines.slice(start, limit == null ? undefined : start + limit).join("") };
}

async function write({ path, content }) {
  await writeFile(path, content);
  return {};
}
