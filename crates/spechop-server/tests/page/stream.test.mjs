// Streams, and what is taken away: whatever the network does to the pieces, the events are the same.

import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { reduce, START } from '../../src/page/reduce.js';
import { ask, LINGER, Messages, Refused, tell } from '../../src/page/stream.js';
import { lines, parse, trace } from '../../src/page/trace.js';
import { draws, names, recording, views } from './recordings.mjs';

const kind = (event) => (event.answer ? 'answer' : event.error ? 'error' : 'other');
/// Debian 12 has Node 18, whose clock cannot be held still for asynchronous code. The browser's test covers both there.
const still = { skip: process.version.startsWith('v18.') && 'the clock of Node 18 cannot be held still' };
const ASKED = { question: '?', question_id: 'q-7' };
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

test('a long answer is read in the time of a short one, for each of its bytes', () => {
  const text = `data: ${'x'.repeat(16 << 20)}\n\n`;
  const took = (size) => {
    const times = [];
    for (let n = 0; n < 3; n++) {
      const messages = new Messages();
      const before = process.cpuUsage();
      for (let at = 0; at < text.length; at += size) messages.feed(text.slice(at, at + size));
      const { user, system } = process.cpuUsage(before);
      times.push((user + system) / 1000);
    }
    return Math.min(...times);
  };
  const [whole, pieces] = [took(text.length), took(64 << 10)];
  assert.ok(pieces < 10 * whole + 100, `${pieces} ms in pieces, ${whole} ms at once`);
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
    return new Response(wire(part));
  };
  const seen = [];
  await ask(ASKED, { key: 'k', signal, on: { begun: () => {}, event: (event) => seen.push(event) } });
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

test('a question waits almost as long as a server allows', () => {
  const example = readFileSync(new URL('../../../../deploy/spechop.example.toml', import.meta.url), 'utf8');
  const most = Number(/^# linger_ms_max = (\d+)$/m.exec(example)[1]);
  assert.ok(LINGER <= most && LINGER >= 0.9 * most, `${LINGER} of ${most}`);
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
    return new Response(body);
  };
  const seen = [];
  const on = { begun: () => {}, event: (event) => seen.push(event) };
  const asking = ask(ASKED, { signal: new AbortController().signal, on });
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

test('the page tries for as long as the question waits, whether it is refused or hears nothing', still, async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  for (const attempt of [() => Promise.reject(new TypeError('no net')), () => new Promise(() => {})]) {
    let calls = 0;
    globalThis.fetch = () => (calls++ ? attempt() : Promise.resolve(new Response(wire(recording('rejected').slice(0, 5)))));
    const begun = now;
    let told = null;
    const on = { begun: () => {}, event: () => {} };
    ask(ASKED, { signal: new AbortController().signal, on }).catch((error) => (told = error));
    while (!told && now < begun + 300_000) {
      now += 250;
      context.mock.timers.tick(250);
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    }
    assert.match(told?.message, /cannot be reached/);
    const took = now - begun;
    assert.ok(took >= LINGER && took < 1.5 * LINGER, `${took} ms`);
  }
});

test('a server that is told something and says nothing is not waited for without end', still, async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.fetch = () => new Promise(() => {});
  const told = assert.rejects(tell('q-7', 'cancel', ''), /the server is silent/);
  context.mock.timers.tick(60_000);
  await told;
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
      return new Response(wire(part));
    };
    const seen = [];
    const on = { begun: () => {}, event: (event) => seen.push(event) };
    await ask(ASKED, { key: '', signal: new AbortController().signal, on });
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
  const asking = ask({}, { signal: new AbortController().signal, on: { begun: () => {}, event: () => {} } });
  await assert.rejects(asking, (error) => error instanceof Refused && error.message === said.message && error.code === said.code);
});

test('a server that waits less long for lost pages is asked for that, from then on', async () => {
  // What the server allows is known to a page for as long as it is open.
  const { ask } = await import('../../src/page/stream.js?another');
  const events = recording('failed');
  const lingers = [];
  let may = 1; // requests, as one with a small allowance
  globalThis.fetch = async (_, { body }) => {
    if (may-- <= 0) return new Response(JSON.stringify({ code: 'RESOURCE_EXHAUSTED', message: 'too many requests' }), { status: 429 });
    lingers.push(JSON.parse(body).linger_ms);
    const fields = [{ field: 'linger_ms', description: 'must be at most 30000 on this server' }];
    if (lingers.at(-1) > 30_000) return new Response(JSON.stringify({ code: 'INVALID_ARGUMENT', message: 'no', fields }), { status: 400 });
    return new Response(wire(events));
  };
  const seen = [];
  const on = { begun: () => {}, event: (event) => seen.push(event) };
  const again = () => ask(ASKED, { signal: new AbortController().signal, on });
  await assert.rejects(again(), (error) => error.status === 429);
  may = 1;
  await again();
  assert.deepEqual(seen, events);
  assert.deepEqual(lingers, [LINGER, 30_000]);
});

/// What came meanwhile is no longer kept, and the answer is there when it is asked for again.
async function answeredLate() {
  const events = recording('rejected');
  const calls = [];
  globalThis.fetch = async (path) => {
    calls.push(path);
    if (calls.length > 5) return new Response('{"message":"asked for it too often"}', { status: 404 });
    if (path.includes('/events')) return new Response(JSON.stringify({ code: 'OUT_OF_RANGE', message: 'no longer kept' }), { status: 410 });
    if (calls.length === 3) throw new TypeError('the net is gone');
    if (path.endsWith('/answer')) return Response.json(events.at(-1).answer);
    return new Response(wire(events.slice(0, 5)));
  };
  let view = START;
  const on = { begun: () => {}, event: (event) => (view = reduce(view, event)) };
  await ask(ASKED, { signal: new AbortController().signal, on });
  const of = 'v1/questions/q-7';
  const twice = Array(2).fill([`${of}/events?after=5`, `${of}/answer`]).flat();
  assert.deepEqual(calls, ['v1/ask/stream', ...twice]);
  assert.deepEqual([view.phase, view.answer, view.gap], ['answered', events.at(-1).answer, null]);
}

test('if what came meanwhile is no longer kept, the answer is asked for, until it is there', answeredLate);

test('a browser without AbortSignal.any gets such an answer, too', async (context) => {
  const { any } = AbortSignal;
  context.after(() => (AbortSignal.any = any));
  AbortSignal.any = undefined;
  await answeredLate();
});

test('whoever cancels a question does not wait for such an answer', async () => {
  const [cancel, asked] = [new AbortController(), []];
  globalThis.fetch = (path, { signal }) => {
    asked.push(signal);
    if (asked.length === 1) return Promise.resolve(new Response(wire(recording('rejected').slice(0, 5))));
    if (path.includes('/events')) return Promise.resolve(new Response('{"code":"OUT_OF_RANGE"}', { status: 410 }));
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      cancel.abort();
    });
  };
  const asking = ask(ASKED, { signal: cancel.signal, on: { begun: () => {}, event: () => {} } });
  await assert.rejects(asking, (error) => error.name === 'AbortError');
  assert.ok(asked.length === 3 && asked[2].aborted);
});

test('an answer may take its time, but not over a connection that is dead', still, async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  const events = recording('rejected');
  const asked = async (there, seconds) => {
    const waiting = new Set();
    let [first, told] = [true, null];
    const begun = now;
    globalThis.fetch = (path, { signal }) => {
      if (first) return (first = false), Promise.resolve(new Response(wire(events.slice(0, 5))));
      const gone = new Response('{"code":"OUT_OF_RANGE","message":"no longer kept"}', { status: 410 });
      if (path.includes('/events') && there(now - begun)) return Promise.resolve(gone);
      if (path.endsWith('/answer') && now - begun > 180_000) return Promise.resolve(Response.json(events.at(-1).answer));
      return new Promise((_, reject) => {
        waiting.add(path);
        signal.addEventListener('abort', () => (waiting.delete(path), reject(signal.reason)));
      });
    };
    const on = { begun: () => {}, event: (event) => event.answer && (told = 'the answer') };
    ask(ASKED, { signal: new AbortController().signal, on }).catch(({ message }) => (told = message));
    for (let second = 0; second < seconds && !told; second++) {
      now += 1000;
      context.mock.timers.tick(1000);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    }
    return [told, waiting.has('v1/questions/q-7/answer')];
  };
  // No request for the answer is left behind.
  assert.deepEqual(await asked(() => true, 300), ['the answer', false]);
  const [told] = await asked((ms) => ms < 5000, 180);
  assert.match(told, /cannot be reached/);
});

test('if the question has failed by then, its error is told, and a gateway without its server is waited for', async () => {
  const asked = async (...refusals) => {
    const calls = [];
    globalThis.fetch = async (path) => {
      calls.push(path);
      if (calls.length === 1) return new Response(wire(recording('rejected').slice(0, 5)));
      if (calls.length === 2) return new Response('{"code":"OUT_OF_RANGE","message":"no longer kept"}', { status: 410 });
      return new Response(...(refusals[calls.length - 3] ?? ['', { status: 404 }]));
    };
    const asking = ask(ASKED, { signal: new AbortController().signal, on: { begun: () => {}, event: () => {} } });
    return asking.then(assert.fail, ({ message }) => [message, calls.length]);
  };
  const [gateway, busy] = [['no server', { status: 503 }], ['{"code":"UNAVAILABLE","message":"busy","retry_after_ms":1}', { status: 503 }]];
  for (const [code, status] of [['UNAVAILABLE', 503], ['DEADLINE_EXCEEDED', 504]]) {
    const failed = [JSON.stringify({ code, message: 'gone' }), { status }];
    assert.deepEqual(await asked(failed), ['gone', 3]);
    assert.deepEqual(await asked(gateway, busy, failed), ['gone', 5]);
  }
});

test('a key that cannot be sent is a wrong key, and space around it is none of it', async () => {
  const sent = [];
  globalThis.fetch = async (_, { headers }) => (sent.push(headers.authorization), new Response(wire(recording('failed'))));
  const asked = (key) => ask(ASKED, { key, signal: new AbortController().signal, on: { begun: () => {}, event: () => {} } });
  for (const key of ['spechop.a\u200b.b', '“spechop.a.b”', 'spechop.á.b', 'spechop.a\n.b']) {
    await assert.rejects(asked(key), (error) => error instanceof Refused && error.status === 401, key);
  }
  await asked('\ufeffspechop.a.b \n');
  await asked('');
  assert.deepEqual(sent, ['Bearer spechop.a.b', undefined]);
});

test('the page that the documents show reads whatever a passage holds', async () => {
  const text = readFileSync(new URL('../../../../docs/INTEGRATE.md', import.meta.url), 'utf8');
  const [, program] = /^```javascript\n(.*?)^```/ms.exec(text);
  const passages = ['a\u2028b', 'a\u2029b', 'a\rb', 'data: a\n\ndata: b'];
  const events = passages.map((text, n) => ({ sequence: n + 1, committed: { hop: { observation: { evidence: [{ text }] } } } }));
  let body;
  globalThis.fetch = async (_, sent) => ((body = JSON.parse(sent.body)), new Response(wire(events)));
  const seen = [];
  // All that a page has which came over HTTP.
  const crypto = { getRandomValues: (array) => webcrypto.getRandomValues(array) };
  const AsyncFunction = (async () => {}).constructor;
  await new AsyncFunction('question', 'show', 'crypto', program)('?', (event) => seen.push(event), crypto);
  assert.deepEqual(seen, events);
  assert.match(body.question_id, /^\d+(-\d+){3}$/);
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
