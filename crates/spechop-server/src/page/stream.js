// The server's door: a question goes in, events come out. A browser's EventSource can neither POST nor send a key, so
// the stream is read here.

import { list, obj } from './read.js';

/// Waits between attempts to get back into a stream, in ms. The server keeps the events meanwhile.
const PAUSES = [250, 500, 1000, 2000, 4000, 8000, 8000, 8000];

/// How long a question waits for a page that has lost its connection, in ms.
const LINGER = 15_000;

/// What the server said when it said no.
export class Refused extends Error {
  constructor(status, { code, message, fields, retry_after_ms } = {}) {
    super(typeof message === 'string' && message ? message : `the server answered ${status}`);
    Object.assign(this, { status, code: typeof code === 'string' ? code : '', fields, retryAfter: retry_after_ms });
  }
}

/// Cuts text/event-stream into messages; text may be fed in pieces of any size.
export class Messages {
  #rest = '';
  #event = '';
  #data = [];

  feed(text) {
    const messages = [];
    const all = this.#rest + text;
    // A carriage return at the end may be the first half of a line end.
    const lines = all.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length) messages.push({ event: this.#event, data: this.#data.join('\n') });
        this.#event = '';
        this.#data = [];
        continue;
      }
      const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (field === 'event') this.#event = value;
      if (field === 'data') this.#data.push(value);
    }
    return messages;
  }
}

/// Asks, and hands on every event of the question, across broken connections, until its last one.
/// `on.id` hears the question's name, `on.event` each event.
export async function ask(request, { key, signal, on }) {
  const begin = (body) => call('v1/ask/stream', { key, signal, body });
  const first = await begin({ ...request, linger_ms: LINGER }).catch((error) => {
    // A server that does not wait so long is asked without.
    if (list(error.fields).some((field) => obj(field).field === 'linger_ms')) return begin(request);
    throw error;
  });
  const id = first.headers.get('spechop-question-id') ?? '';
  on.id(id);
  let after = 0;
  const take = (event) => {
    after = Math.max(after, Number(event.sequence) || 0);
    on.event(event);
  };
  let over = await read(first, take, signal);
  for (let tries = 0; !over; tries++) {
    if (!id || tries >= PAUSES.length) throw new Refused(0, { message: 'the connection broke, and the server cannot be reached: ask again' });
    await pause(PAUSES[tries], signal);
    const before = after;
    try {
      const path = `v1/questions/${encodeURIComponent(id)}/events?after=${after}`;
      over = await read(await call(path, { key, signal }), take, signal);
    } catch (error) {
      // Out of reach is worth another attempt; a no is not.
      if (signal.aborted || error instanceof Refused) throw error;
    }
    if (after > before) tries = -1;
  }
}

/// Tells the server something of a question: `finish`, `cancel`, `what-if`, `share`. What it answers.
export async function tell(id, what, key, body = {}, method = 'POST') {
  const response = await call(`v1/questions/${encodeURIComponent(id)}/${what}`, { key, body, method });
  return response.json();
}

/// The events of the shared run that this address names, one a line.
export const shared = async () => (await call(`${location.pathname}/events`, {})).text();

async function call(path, { key, signal, body, method = body ? 'POST' : 'GET' }) {
  const headers = body ? { 'content-type': 'application/json' } : {};
  if (key) headers.authorization = `Bearer ${key}`;
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: 'no-store' });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

/// Whether the stream came to its end: an answer or an error.
async function read(response, take, signal) {
  const messages = new Messages();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return false;
      for (const { event, data } of messages.feed(value)) {
        const told = JSON.parse(data);
        take(event === 'error' ? { error: told.error ?? told } : told);
        if (event === 'error' || event === 'answer') return true;
      }
    }
  } catch (error) {
    if (signal.aborted || error instanceof SyntaxError) throw error;
    return false;
  } finally {
    reader.cancel().catch(() => {});
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
