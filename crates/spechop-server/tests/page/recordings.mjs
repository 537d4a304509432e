// The recordings beside this file, and what tests make of them.

import { readFileSync, readdirSync } from 'node:fs';
import { reduce, START } from '../../src/page/reduce.js';
import { parse } from '../../src/page/trace.js';

const folder = new URL('recordings/', import.meta.url);

export const names = readdirSync(folder).map((file) => file.replace('.jsonl', ''));

export const recording = (name) => parse(readFileSync(new URL(`${name}.jsonl`, folder), 'utf8'));

/// Every view of a recording: as many as events, and the first one in front.
export function views(events) {
  const all = [START];
  for (const event of events) all.push(reduce(all[all.length - 1], event));
  return all;
}

/// Numbers from 0 to 1 that a seed decides.
export function draws(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/// So many events of questions in a row, as if they were one: `width` branches work side by side.
export function long(count, width = 32) {
  const events = [];
  const tell = (branch, hop, provisional, event) =>
    events.push({ sequence: events.length + 1, at_ms: events.length * 10, branch, hop, provisional, ...event });
  for (let first = 0; events.length < count; first += width) {
    for (let n = 0; n < width; n++) {
      const [branch, hop] = [first + n, n + 1];
      tell(branch, hop, n > 0, { launched: { stage: 'STAGE_SEGMENT' } });
      tell(branch, hop, n > 0, { planned: { sub_question: `Who is number ${branch}?`, took_ms: 10 } });
      tell(branch, hop, n > 0, { launched: { stage: 'STAGE_TARGET' } });
      tell(branch, hop, n > 0, { launched: { stage: 'STAGE_SPECULATION' } });
      tell(branch, hop, n > 0, { guessed: { guess: `Somebody ${branch}`, took_ms: 1, others: [] } });
    }
    for (let n = width - 1; n > 0; n--) tell(first + n, n + 1, true, { rolled_back: {} });
  }
  return events.slice(0, count);
}
