// Sees every message in the order of the wire, and remembers what the agent did wrong.

const CONVERSATION = new Set([
  "user_message_chunk",
  "agent_message_chunk",
  "agent_thought_chunk",
  "tool_call",
  "tool_call_update",
  "plan",
]);

export class Witness {
  constructor() {
    this.failures = [];
    this.open = new Map(); // id of a prompt or load without an answer -> its session
    this.shown = new Map(); // session -> what has been shown since the last `fresh`
    this.waiting = new Set();
  }

  /** A stream through which the SDK talks while we watch both directions. */
  watch({ readable, writable }) {
    const incoming = new TransformStream({
      transform: (message, out) => {
        this.received(message);
        out.enqueue(message);
      },
    });
    const outgoing = new TransformStream({
      transform: (message, out) => {
        this.sent(message);
        out.enqueue(message);
      },
    });
    // The agent may leave first; then writing ends here and the SDK learns it by itself.
    outgoing.readable.pipeTo(writable).catch(() => {});
    return { readable: readable.pipeThrough(incoming), writable: outgoing.writable };
  }

  sent({ id, method, params }) {
    if (method === "session/prompt" || method === "session/load") {
      this.open.set(id, params.sessionId);
    }
  }

  received(message) {
    if (message.method === "session/update") this.update(message.params);
    else if (message.method === undefined) this.open.delete(message.id);
    for (const wake of this.waiting) wake();
  }

  update({ sessionId, update }) {
    const kind = update.sessionUpdate;
    if (CONVERSATION.has(kind) && ![...this.open.values()].includes(sessionId)) {
      this.failures.push(`late: ${kind} for ${sessionId}, though nothing runs there`);
    }
    const shown = this.of(sessionId);
    if (kind === "agent_message_chunk") shown.text += update.content.text;
    if (kind === "agent_thought_chunk") shown.thought += update.content.text;
    if (kind === "user_message_chunk") shown.user += update.content.text;
    if (kind === "plan") shown.plans.push(update.entries);
    if (kind === "tool_call" || kind === "tool_call_update") {
      const call = (shown.calls[update.toolCallId] ??= {});
      for (const [key, value] of Object.entries(update)) {
        if (value != null && key !== "sessionUpdate") call[key] = value;
      }
    }
  }

  /** What was shown of a session since it was last made fresh. */
  of(session) {
    if (!this.shown.has(session)) this.fresh(session);
    return this.shown.get(session);
  }

  fresh(session) {
    this.shown.set(session, { text: "", thought: "", user: "", plans: [], calls: {} });
  }

  /** Resolves as soon as `seen()` is true, checked at every message. */
  async until(seen) {
    if (seen()) return;
    await new Promise((resolve) => {
      const wake = () => {
        if (seen()) {
          this.waiting.delete(wake);
          resolve();
        }
      };
      this.waiting.add(wake);
    });
  }

  /** Whether this text was said or printed in a session. */
  sees(session, text) {
    const shown = this.of(session);
    return shown.text.includes(text) || JSON.stringify(shown.calls).includes(text);
  }
}
