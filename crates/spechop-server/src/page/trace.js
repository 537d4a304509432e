// What can be taken away: the events as JSON lines, and a trace that Chrome (chrome://tracing) and Perfetto open.

import { pieces, LOOKS, STAGES, marks, line } from './look.js';
import { sequential } from './reduce.js';

export const lines = (events) => events.map((event) => JSON.stringify(event)).join('\n') + '\n';

/// Reads JSON lines; the errors name the line.
export function parse(text) {
  const events = [];
  text.split('\n').forEach((line, n) => {
    if (!line.trim()) return;
    const wrong = (what) => new Error(`line ${n + 1} is not ${what}: choose a file of one event a line, as this page writes it`);
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      throw wrong('JSON');
    }
    if (event === null || typeof event !== 'object' || Array.isArray(event)) throw wrong('an event');
    events.push(event);
  });
  if (events.length === 0) throw new Error('the file holds no events');
  return events;
}

/// A view in the JSON of the trace event format. A thread for each branch, with guesses on threads of their own since
/// they run beside the look-up; times in µs.
export function trace(view) {
  const out = [];
  const name = (tid, text) => out.push({ ph: 'M', name: 'thread_name', pid: 1, tid, args: { name: text } });
  out.push({ ph: 'M', name: 'process_name', pid: 1, tid: 0, args: { name: 'SpecHop' } });
  for (const lane of view.lanes) {
    const tid = 2 * lane.id + 1;
    const asked = line(lane).map(({ text }) => text).join(' ');
    name(tid, `branch ${lane.id}, hop ${lane.hop}`);
    if (lane.bars.some((bar) => bar.stage === 'speculation')) name(tid + 1, `branch ${lane.id}, guess`);
    for (const { stage, look, from, to } of pieces(lane, view.at)) {
      const args = { branch: lane.id, hop: lane.hop, means: LOOKS[look], text: asked };
      const on = stage === 'speculation' ? tid + 1 : tid;
      out.push({ ph: 'X', name: STAGES[stage], cat: look, pid: 1, tid: on, ts: from * 1000, dur: (to - from) * 1000, args });
    }
    for (const { at, name, label } of marks(lane)) {
      out.push({ ph: 'i', s: 't', name, cat: 'mark', pid: 1, tid, ts: at * 1000, args: { label } });
    }
  }
  name(1e6, 'the same at k = 1');
  let ts = 0;
  for (const { stage, hop, ms } of sequential(view).tiles) {
    out.push({ ph: 'X', name: STAGES[stage], cat: 'k=1', pid: 1, tid: 1e6, ts, dur: ms * 1000, args: { hop } });
    ts += ms * 1000;
  }
  return { traceEvents: out, displayTimeUnit: 'ms' };
}
