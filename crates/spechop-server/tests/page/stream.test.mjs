// Streams, and what is taken away: whatever the network does to the pieces, the events are the same.

import assert from 'node:assert/strict';
import test from 'node:test';
import { citations, spanOf } from '../../src/page/panels.js';
import { views } from '../../src/page/reduce.js';
import { ask, Messages, Refused } from '../../src/page/stream.js';
import { lines, parse, trace } from '../../src/page/trace.js';
import { draws, names, recording } from './recordings.mjs';

const kind = (event) => (event.answer ? 'answer' : event.error ? 'error' : 'other');
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
    if (body) assert.ok(JSON.parse(body).linger_ms >= 10_000);
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

test('a citation is a passage that holds the answer', () => {
  const { hops } = views(recording('rejected')).at(-1);
  const cited = citations(hops);
  assert.deepEqual(cited.map(({ hops }) => hops), [[1], [2]]);
  for (const { passage, answers } of cited) {
    const [from, to] = spanOf(passage.text, answers[0]);
    assert.equal(passage.text.slice(from, to).toLowerCase(), answers[0].toLowerCase());
  }
  assert.equal(spanOf('nothing of it', 'absent'), null);
  assert.equal(spanOf('İİİ abc', 'ABC'), null);
});
