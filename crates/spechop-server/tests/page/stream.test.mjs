// Streams, and what is taken away: whatever the network does to the pieces, the events are the same.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { views } from '../../src/page/reduce.js';
import { ask, LINGER, Messages, PAUSES, Refused } from '../../src/page/stream.js';
import { lines, parse, trace } from '../../src/page/trace.js';
import { draws, names, recording } from './recordings.mjs';

const kind = (event) => (event.answer ? 'answer' : event.error ? 'error' : 'other');
/// Debian 12 has Node 18, whose clock cannot be held still for asynchronous code. The browser's test covers both there.
const still = { skip: process.version.startsWith('v18.') && 'the clock of Node 18 cannot be held still' };
const wire = (events) =>
  events.map((event) => `id: ${event.sequence}\nevent: ${kind(event)}\ndata: ${JSON.stringify(event.error ?? event)}\n\n`).join(': still here\n\n');

test('messages are the same however the text is cut', () => {
  const text = wire(recording('rejected'));
  const whole = new Messages().feed(text);
  assert.equal(whole.length, recording('rejected').length);
  for (let seed = 0; seed < 50; seed++) {
    const draw = draws(seed);
    const messages = new Messages();
    const ended = seed % 2 ? text.replaceAll('\n', '\r\n') : text;
    const cut = [];
    for (let at = 0; at < ended.length; ) {
      const to = at + Math.ceil(draw() * (draw() < 0.5 ? 3 : 3000));
      cut.push(...messages.feed(ended.slice(at, to)));
      at = to;
    }
    assert.deepEqual(cut, whole, `seed ${seed}`);
  }
});

test('several lines of data are one text', () => {
  assert.deepEqual(new Messages().feed('event: a\ndata: 1\ndata:2\nid: 7\n\n\n:x\n\n'), [{ event: 'a', data: '1\n2' }]);
});

/// A server that breaks off after so many events, again and again.
async function asked(name, pieces, signal = new AbortController().signal) {
  const events = recording(name);
  const calls = [];
  globalThis.fetch = async (path, { method, headers, body }) => {
    // Else the server would give the question up at once.
    if (body) assert.equal(JSON.parse(body).linger_ms, LINGER);
    calls.push(`${method} ${path} ${headers.authorization ?? ''}`.trim());
    const after = Number(/after=(\d+)/.exec(path)?.[1] ?? 0);
    const part = events.filter((event) => event.error || event.sequence > after).slice(0, pieces[calls.length - 1] ?? Infinity);
    return new Response(wire(part), { headers: { 'spechop-question-id': 'q-7' } });
  };
  const seen = [];
  await ask({ question: '?' }, { key: 'k', signal, on: { id: () => {}, event: (event) => seen.push(event) } });
  return { seen, calls, events };
}

test('a broken stream is taken up behind its last event, until its end', async () => {
  const { seen, calls, events } = await asked('rejected', [5, 0, 9]);
  assert.deepEqual(seen, events);
  assert.deepEqual(calls, [
    'POST v1/ask/stream Bearer k',
    'GET v1/questions/q-7/events?after=5 Bearer k',
    'GET v1/questions/q-7/events?after=5 Bearer k',
    'GET v1/questions/q-7/events?after=14 Bearer k',
  ]);
});

test('a question waits almost as long as a server allows, and the page tries for as long', () => {
  const example = readFileSync(new URL('../../../../deploy/spechop.example.toml', import.meta.url), 'utf8');
  const most = Number(/^# linger_ms_max = (\d+)$/m.exec(example)[1]);
  assert.ok(LINGER <= most && LINGER >= 0.9 * most, `${LINGER} of ${most}`);
  assert.ok(PAUSES.reduce((sum, ms) => sum + ms) >= LINGER);
});

test('a stream that falls silent is taken up again, one that sends signs of life is not', still, async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const events = recording('rejected');
  const calls = [];
  let silent = true;
  globalThis.fetch = async (path) => {
    calls.push(path);
    const after = Number(/after=(\d+)/.exec(path)?.[1] ?? 0);
    const rest = events.filter((event) => event.sequence > after);
    if (calls.length === 2) return new Promise(() => {});
    if (calls.length > 2) return new Response(wire(rest));
    let pulse;
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(wire(rest.slice(0, 5))));
        const beat = () => (silent || controller.enqueue(new TextEncoder().encode(': still here\n\n')), (pulse = setTimeout(beat, 15_000)));
        beat();
      },
      cancel: () => clearTimeout(pulse),
    });
    return new Response(body, { headers: { 'spechop-question-id': 'q-7' } });
  };
  const seen = [];
  const on = { id: () => {}, event: (event) => seen.push(event) };
  const asking = ask({}, { signal: new AbortController().signal, on });
  const pass = async (seconds) => {
    for (let n = 0; n < seconds; n++) {
      context.mock.timers.tick(1000);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    }
  };
  silent = false;
  await pass(300);
  assert.deepEqual(calls, ['v1/ask/stream']);
  silent = true;
  // First the stream is silent, then the server.
  await pass(120);
  await asking;
  assert.deepEqual(seen, events);
  assert.deepEqual(calls.slice(1), Array(2).fill('v1/questions/q-7/events?after=5'));
});

test('a page that is back on the net does not wait any longer', still, async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const net = new EventTarget();
  globalThis.addEventListener = net.addEventListener.bind(net);
  context.after(() => delete globalThis.addEventListener);
  const asking = asked('rejected', [5]);
  // No time passes here.
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate), net.dispatchEvent(new Event('online'));
  const { seen, events } = await asking;
  assert.deepEqual(seen, events);
});

test('too many requests and a gateway without its server are waited for, a no is not', async () => {
  const events = recording('rejected');
  const told = async (refusals) => {
    const calls = [];
    globalThis.fetch = async (path) => {
      calls.push(path);
      const refusal = refusals[calls.length - 2];
      if (calls.length > 1 && refusal) return new Response(JSON.stringify({ message: 'no', retry_after_ms: 1 }), { status: refusal });
      const part = calls.length === 1 ? events.slice(0, 5) : events.slice(5);
      return new Response(wire(part), { headers: { 'spechop-question-id': 'q-7' } });
    };
    const seen = [];
    const on = { id: () => {}, event: (event) => seen.push(event) };
    await ask({ question: '?' }, { key: '', signal: new AbortController().signal, on });
    return [seen.length, calls.length];
  };
  assert.deepEqual(await told([429, 502]), [events.length, 4]);
  await assert.rejects(told([404]), (error) => error instanceof Refused && error.status === 404);
});

test('an error ends a stream, and is an event', async () => {
  const { seen, events } = await asked('failed', []);
  assert.deepEqual(seen, events);
});

test('a refusal says what the server said', async () => {
  const said = { code: 'INVALID_ARGUMENT', message: 'k must be at least 1', fields: [{ field: 'k', description: 'is 0' }] };
  globalThis.fetch = async () => new Response(JSON.stringify(said), { status: 400 });
  const asking = ask({}, { signal: new AbortController().signal, on: { id: () => {}, event: () => {} } });
  await assert.rejects(asking, (error) => error instanceof Refused && error.message === said.message && error.code === said.code);
});

test('a server that does not wait for lost pages is asked all the same', async () => {
  const events = recording('failed');
  const bodies = [];
  globalThis.fetch = async (_, { body }) => {
    bodies.push(JSON.parse(body));
    const wrong = { code: 'INVALID_ARGUMENT', message: 'no', fields: [{ field: 'linger_ms', description: 'is too long' }] };
    return bodies.length === 1 ? new Response(JSON.stringify(wrong), { status: 400 }) : new Response(wire(events));
  };
  const seen = [];
  const on = { id: () => {}, event: (event) => seen.push(event) };
  await ask({ question: '?' }, { signal: new AbortController().signal, on });
  assert.deepEqual(seen, events);
  assert.deepEqual(Object.keys(bodies[1]), ['question']);
});

test('events that were saved can be read again', () => {
  for (const name of names) assert.deepEqual(parse(lines(recording(name))), recording(name));
  assert.throws(() => parse('{}\nno'), /line 2/);
  assert.throws(() => parse('[1]'), /line 1/);
  assert.throws(() => parse('\n'), /no events/);
});

test('a trace holds every bar, in microseconds, on threads that have names', () => {
  const view = views(recording('siblings')).at(-1);
  const { traceEvents } = JSON.parse(JSON.stringify(trace(view)));
  const spans = traceEvents.filter(({ ph }) => ph === 'X');
  const named = new Set(traceEvents.filter(({ ph }) => ph === 'M').map(({ tid }) => tid));
  assert.ok(spans.every(({ ts, dur, tid }) => ts >= 0 && dur >= 0 && named.has(tid)));
  const last = Math.max(...view.lanes.flatMap((lane) => lane.bars.map(({ to }) => to)));
  const ends = spans.filter(({ cat }) => cat !== 'k=1').map(({ ts, dur }) => ts + dur);
  assert.ok(Math.abs(Math.max(...ends) - last * 1000) < 1);
  assert.ok(traceEvents.some(({ ph, name }) => ph === 'i' && name === 'accepted'));
});
