// The server's door: a question goes in, events come out. A browser's EventSource can neither POST nor send a key, so
// the stream is read here.

import { list, obj } from './read.js';

/// How long a question waits for a page that has lost its connection, or sleeps, in ms: just under the most that a
/// server allows, unless it is configured otherwise (`server.linger_ms_max`).
export const LINGER = 59_000;

/// As long as this server allows: it is asked for less once it has said so, since each attempt counts as a request.
let lingers = LINGER;

/// A stream that is silent for so long is broken, in ms: the server sends something every 15 s. A page that has slept
/// may hear of it in no other way.
const SILENCE = 40_000;

/// Whether it is worth another attempt: too many requests, or a gateway without its server. A no of the server itself has
/// a code, and a time to come back; if it has none, it tells how the question has failed.
const passes = ({ status, code, retryAfter }) => status === 429 || ([502, 503, 504].includes(status) && (!code || retryAfter));

/// What the server said when it said no.
export class Refused extends Error {
  constructor(status, { code, message, fields, retry_after_ms } = {}) {
    super(typeof message === 'string' && message ? message : `the server answered ${status}`);
    Object.assign(this, { status, code: typeof code === 'string' ? code : '', fields, retryAfter: retry_after_ms });
  }
}

/// Cuts text/event-stream into messages; text may be fed in pieces of any size.
export class Messages {
  #rest = []; // pieces of the line that has not ended yet
  #event = '';
  #data = [];

  feed(text) {
    const messages = [];
    // A carriage return at the end may be the first half of a line end.
    const half = this.#rest.at(-1)?.endsWith('\r');
    this.#rest.push(text);
    // An answer is one line, of megabytes: it is looked through once, and not again with each piece.
    if (!half && !/[\r\n]/.test(text)) return messages;
    const lines = this.#rest.join('').split(/\r\n|\n|\r(?!$)/);
    this.#rest = [lines.pop()];
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
/// `on.begun` hears that the server has taken the question up, `on.event` each event.
export async function ask(request, { key, signal, on }) {
  const begin = () => call('v1/ask/stream', { key, signal, body: { ...request, linger_ms: lingers } });
  const first = await begin().catch((error) => {
    const wrong = list(error.fields).map(obj).find(({ field }) => field === 'linger_ms');
    if (!wrong) throw error;
    lingers = Number(/at most (\d+)/.exec(wrong.description)?.[1] ?? 0);
    return begin();
  });
  on.begun();
  let after = 0;
  const take = (event) => {
    after = Math.max(after, Number(event.sequence) || 0);
    on.event(event);
  };
  const fetched = (what, signal) => call(`v1/questions/${encodeURIComponent(request.question_id)}/${what}`, { key, signal });
  const events = async () => read(await inTime(fetched(`events?after=${after}`, signal)), take, signal);
  let over = await read(first, take, signal);
  let least = 0; // ms that the server wants to be left alone
  let lost = performance.now();
  for (let tries = 0; !over; tries++) {
    // The server keeps the events for as long as the question waits.
    if (performance.now() - lost > LINGER) throw new Refused(0, { message: 'the connection broke, and the server cannot be reached: ask again' });
    await pause(Math.min(Math.max(Math.min(250 * 2 ** tries, 8000), least), LINGER), signal);
    least = 0;
    const before = after;
    try {
      over = await events().catch(async (error) => {
        // If what came meanwhile is no longer kept, the answer is all that counts. It may take its time.
        if (error.status !== 410 || signal.aborted) throw error;
        lost = performance.now();
        // Not `AbortSignal.any`: browsers of 2023 lack it.
        const late = new AbortController();
        const end = () => late.abort();
        signal.addEventListener('abort', end, { signal: late.signal });
        const answer = await inTime(fetched('answer', late.signal).then((told) => told.json())).finally(end);
        take({ sequence: after + 1, at_ms: answer.elapsed_ms, answer });
        return true;
      });
      lost = performance.now();
    } catch (error) {
      // Out of reach is worth another attempt; a no is not.
      if (signal.aborted || (error instanceof Refused && !passes(error))) throw error;
      least = Number(error.retryAfter) || 0;
    }
    if (after > before) tries = -1;
  }
}

/// Tells the server something of a question, even if the page goes: `finish`, `cancel`, `what-if`, `share`. What it
/// answers.
export async function tell(id, what, key, body = {}, method = 'POST') {
  const response = await inTime(call(`v1/questions/${encodeURIComponent(id)}/${what}`, { key, body, method, keepalive: true }));
  return response.json();
}

/// The events of the shared run that this address names, one a line.
export const shared = async () => (await call(`${location.pathname}/events`, {})).text();

async function call(path, { key = '', signal, body, method = body ? 'POST' : 'GET', keepalive = false }) {
  const headers = body ? { 'content-type': 'application/json' } : {};
  const shown = key.trim();
  // It cannot be sent, and whoever has copied it out of a text cannot see it.
  if (/[^\x20-\x7e]/.test(shown)) throw new Refused(401, { code: 'UNAUTHENTICATED', message: 'the key holds a character that no key has: copy it again' });
  if (shown) headers.authorization = `Bearer ${shown}`;
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: 'no-store', keepalive });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

/// Whether the stream came to its end: an answer or an error.
async function read(response, take, signal) {
  const messages = new Messages();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await inTime(reader.read());
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

/// What is waited for, unless it comes too late.
function inTime(coming) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error('the server is silent')), SILENCE)));
  return Promise.race([coming, late]).finally(() => clearTimeout(timer));
}

/// Waits for so long, or until the browser says that it is back on the net.
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    globalThis.addEventListener?.('online', resolve, { once: true, signal });
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
