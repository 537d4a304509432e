// The reducer over recorded runs: what a run looks like at its end, and laws that hold at every event.

import assert from 'node:assert/strict';
import test from 'node:test';
import { placed, scaleOf } from '../../src/page/draw.js';
import { LOOKS, line, marks, pieces, state, words } from '../../src/page/look.js';
import { elapsed, reduce, sequential, START } from '../../src/page/reduce.js';
import { Run } from '../../src/page/run.js';
import { draws, long, names, recording, views } from './recordings.mjs';

const last = (name) => views(recording(name)).at(-1);
const lane = (view, id) => view.lanes.find((lane) => lane.id === id);
const near = (one, other, what) => assert.ok(Math.abs(one - other) < 0.01, `${what}: ${one} and ${other}`);

/// The looks of a branch's bars, as a line.
const looks = (view, id) => pieces(lane(view, id), view.at).map((piece) => `${piece.stage} ${piece.look}`).join(', ');

test('a rejected guess strikes out what stood on it, an accepted one makes it solid', () => {
  const view = last('rejected');
  assert.equal(view.phase, 'answered');
  assert.deepEqual(view.hops.map((hop) => hop.kind), ['rejected', 'accepted']);
  assert.deepEqual(view.lanes.map(state), [
    'committed', 'rolled back', 'rolled back', 'rolled back', 'rolled back', 'committed', 'wrote the answer',
  ]);
  assert.equal(looks(view, 0), 'segment sure, target sure, speculation dead');
  assert.equal(looks(view, 1), 'segment dead, target dead, speculation dead');
  assert.equal(looks(view, 5), 'segment sure, target sure, speculation sure');
  // The answer was written before it was sure to be needed.
  assert.equal(looks(view, 6), 'segment ahead');
  assert.deepEqual(view.lanes.map((lane) => lane.parent), [null, 0, 1, 2, 1, 0, 5]);
  assert.deepEqual(line(lane(view, 0)).map(({ name }) => name), ['asked', 'wrong', 'found']);
  assert.deepEqual(line(lane(view, 5)).map(({ name }) => name), ['asked', 'found']);
  assert.deepEqual(marks(lane(view, 0)).map(({ name, text }) => [name, text]), [['rejected', 'different 0.00 / 0.00']]);
});

test('a question that is handed over begins again, and what was committed does not count', () => {
  const before = views(recording('rejected')).at(-2);
  assert.ok(before.hops.length > 0 && before.draft);
  const branch = before.lanes.length;
  const at = { at_ms: before.at + 1, branch, hop: 1, provisional: false };
  const over = reduce(before, { ...at, sequence: before.sequence + 1, handed_over: { of_form: 0.1 } });
  assert.deepEqual([over.hops.length, over.draft, over.phase], [0, null, 'running']);
  assert.ok(over.lanes.every(({ fate, ended }) => fate === 'rolled_back' && ended !== null));
  const next = reduce(over, { ...at, sequence: over.sequence + 1, launched: { stage: 'STAGE_SEGMENT' } });
  assert.deepEqual([lane(next, branch).parent, lane(next, branch).fate], [null, 'open']);
});

test('if the model that began anew comes to nothing, what was before it counts', () => {
  const events = recording('rejected');
  const all = views(events);
  const [before, after] = all.slice(-2);
  const branch = before.lanes.length;
  const at = { at_ms: before.at + 1, branch, hop: 1, provisional: false };
  let view = before;
  for (const event of [{ handed_over: { of_form: 0.1 } }, { launched: { stage: 'STAGE_SEGMENT' } }]) {
    view = reduce(view, { ...at, sequence: view.sequence + 1, ...event });
  }
  const answer = { ...events.at(-1), sequence: view.sequence + 1, at_ms: view.at + 1 };
  const kept = reduce(view, answer);
  assert.deepEqual(kept.lanes.slice(0, -1).map(({ fate }) => fate), after.lanes.map(({ fate }) => fate));
  assert.equal(lane(kept, branch).fate, 'rolled_back');
  assert.deepEqual(kept.hops.map(({ lane }) => lane), after.hops.map(({ lane }) => lane));
  // An answer of the other model leaves them thrown away.
  const handed = reduce(view, { ...answer, answer: { ...answer.answer, handed_over: true, hops: [] } });
  assert.ok(handed.lanes.every(({ id, fate }) => id === branch || fate === 'rolled_back'));
});

test('what ends a live run ends it now, and not at its last event', () => {
  const run = new Run('', true);
  for (const event of recording('rejected').slice(0, 8)) run.push(event, 1000);
  const { at } = run.last;
  run.push({ error: { message: 'it was cancelled' } }, 31_000);
  assert.deepEqual([run.end(99_000), run.last.phase, run.live], [at + 30_000, 'failed', false]);
  assert.ok(run.last.lanes.some(({ bars }) => bars.some(({ to }) => to === at + 30_000)));
  // It is saved with its time.
  assert.equal(Run.of('', run.events).end(0), at + 30_000);
});

test('a recording that would not fit into memory ends with a word about it', () => {
  for (const told of [
    (n) => ({ branch: n, launched: { stage: 'STAGE_SEGMENT' } }),
    () => ({ branch: 1, committed: { hop: {} } }),
    () => ({ branch: 1, not_speculated: { stage: 'STAGE_TARGET', reason: 'REFUSAL_BUDGET' } }),
    (n) => (n < 2000 ? { branch: n, launched: { stage: 'STAGE_SEGMENT' } } : { handed_over: {} }),
  ]) {
    const event = (_, n) => ({ sequence: n + 1, at_ms: n, hop: 1, ...told(n) });
    const run = Run.of('', Array.from({ length: 30_000 }, event));
    assert.equal(run.last.phase, 'failed');
    assert.match(run.last.error.message, /longer than this page can show/);
    assert.ok(run.events.length > 1000 && run.events.length < 30_000);
    assert.ok(Number.isFinite(run.reach(0)));
  }
});

test('what a view shares with the one before takes no memory', () => {
  const told = (n) => (n < 2000 ? { branch: n, launched: { stage: 'STAGE_SEGMENT' } } : { tuned: { k: 2 } });
  const event = (_, n) => ({ sequence: n + 1, at_ms: n, hop: 1, ...told(n) });
  const run = Run.of('', Array.from({ length: 20_000 }, event));
  assert.deepEqual([run.last.phase, run.events.length], ['running', 20_000]);
});

test('a live run ends with its answer or error, though an event before it was lost', () => {
  const lost = { sequence: 5, at_ms: 9, branch: 0, hop: 1, launched: { stage: 'STAGE_TARGET' } };
  for (const events of [[{ sequence: 5, at_ms: 9, answer: {} }], [lost, { error: { message: 'it was cancelled' } }]]) {
    const run = new Run('', true);
    run.push({ sequence: 1, at_ms: 0, branch: 0, hop: 1, launched: { stage: 'STAGE_SEGMENT' } }, 0);
    for (const event of events) run.push(event, 9);
    assert.equal(run.live, false);
  }
});

test('a bar turns solid where its branch was promoted', () => {
  const all = views(recording('foreseen'));
  const view = all.at(-1);
  const { promoted } = lane(view, 1);
  const bars = pieces(lane(view, 1), view.at).filter(({ stage, early }) => stage === 'target' && !early);
  assert.deepEqual(bars.map(({ look }) => look), ['ahead', 'sure']);
  assert.equal(bars[0].to, promoted);
  assert.equal(bars[1].from, promoted);
  // And not before.
  const before = all.findLast((view) => view.at < promoted);
  assert.ok(pieces(lane(before, 1), before.at).every(({ look }) => look === 'open'));
});

test('a draft is no work of the planner, nor is what a newer server tells of', () => {
  const launched = (stage, at_ms) => ({ at_ms, launched: { stage } });
  const refused = (stage, reason, at_ms) => ({ at_ms, not_speculated: { stage, reason } });
  const run = (...between) => {
    const events = [
      launched('STAGE_SEGMENT', 0),
      ...between.filter(({ at_ms }) => at_ms < 1000),
      { at_ms: 1000, planned: { sub_question: '?', took_ms: 1000 } },
      ...between.filter(({ at_ms }) => at_ms >= 1000),
      launched('STAGE_TARGET', 1000),
      { at_ms: 1500, observed: { observation: { answer: 'a', found: true }, took_ms: 500 } },
      { at_ms: 1500, committed: { hop: { sub_question: '?', sub_answer: 'a' } } },
    ];
    return views(events.map((event, n) => ({ sequence: n + 1, branch: 0, hop: 1, ...event }))).at(-1);
  };
  const failed = (stage) => ({ at_ms: 200, failed: { stage, reason: 'no server' } });
  for (const [between, notes] of [
    [[], []],
    [[launched('STAGE_DRAFT', 0), launched('STAGE_DRAFT', 1)], []],
    [[refused('STAGE_DRAFT', 'REFUSAL_NO_PLACE', 1000)], ['drafts: waited for a place until nobody needed it']],
    [[refused('STAGE_DRAFT', 'REFUSAL_PREEMPTED', 200)], ['drafts: made room for a call that an answer needed']],
    [[failed('STAGE_DRAFT')], ['drafts: no server']],
    [[launched('STAGE_NEW', 0), failed('STAGE_NEW')], ['no server']],
    [[launched('constructor', 0), failed('constructor')], ['no server']],
  ]) {
    const view = run(...between);
    assert.equal(looks(view, 0), 'segment sure, target sure', notes.join());
    assert.equal(sequential(view).total, 1500);
    assert.deepEqual(view.hops[0].times, { segment: 1000, target: 500 });
    assert.deepEqual(marks(lane(view, 0)).map(({ label }) => label), notes);
  }
});

test('a guess that is late ends with the observation, unless more is told of it', () => {
  const stages = ['TARGET', 'SPECULATION'].map((stage) => ({ at_ms: 0, launched: { stage: `STAGE_${stage}` } }));
  const observed = { at_ms: 500, observed: { observation: { answer: 'a', found: true }, took_ms: 500 } };
  const guessed = { at_ms: 900, guessed: { guess: 'a' } };
  const verified = (accepted) => ({ at_ms: 1000, verified: { verdict: { accepted } } });
  const refused = { at_ms: 500, not_speculated: { stage: 'STAGE_SPECULATION', reason: 'REFUSAL_NO_PLACE' } };
  for (const [after, expected] of [
    [[], ['dead', 500]],
    [[{ at_ms: 1000, committed: { hop: {} } }], ['dead', 500]],
    [[{ at_ms: 1000, rolled_back: {} }], ['dead', 500]],
    [[guessed], ['dead', 900]],
    [[guessed, verified(false)], ['dead', 900]],
    [[guessed, verified(true)], ['sure', 900]],
    // It had waited for a place until then.
    [[refused, { at_ms: 1000, committed: { hop: {} } }], ['waits', 500]],
  ]) {
    const events = [...stages, observed, ...after];
    const view = views(events.map((event, n) => ({ sequence: n + 1, branch: 0, hop: 1, ...event }))).at(-1);
    const bars = pieces(lane(view, 0), 2000).filter(({ stage }) => stage === 'speculation');
    assert.deepEqual(bars.map(({ look, to }) => [look, to]), [expected], JSON.stringify(after));
  }
});

test('what was found stands within the timeline, however wide its letters are', () => {
  // Those of East Asia are as wide as a line of the timeline's text is high, 12 px.
  const wide = ({ text }) => [...text].reduce((sum, letter) => sum + (letter > '\u2e80' ? 12 : 6), 0);
  for (const letter of ['a', '語', '한', 'Ａ', '😀']) {
    for (const [asked, found] of [[48, 8], [400, 400], [3, 2], [5000, 10]]) {
      const told = [{ planned: { sub_question: letter.repeat(asked) } }, { observed: { observation: { answer: letter.repeat(found), found: true } } }];
      const view = views(told.map((event, n) => ({ sequence: n + 1, at_ms: 6000, branch: 0, hop: 1, ...event }))).at(-1);
      for (const width of [1100, 720]) {
        const { x, texts } = placed(lane(view, 0), scaleOf(9000, width, false));
        assert.deepEqual(texts.map(({ name }) => name), ['asked', 'found']);
        const end = x + texts.reduce((sum, text) => sum + wide(text), 8);
        assert.ok(end <= width, `${letter}: ${end} of ${width}`);
      }
    }
  }
});

test('each text of a branch is read in its own direction', () => {
  const told = [{ planned: { sub_question: 'מי כתב?' } }, { observed: { observation: { answer: 'דן', found: true } } }];
  const view = views(told.map((event, n) => ({ sequence: n + 1, branch: 0, hop: 1, ...event }))).at(-1);
  assert.ok(words(lane(view, 0)).endsWith('\u2068מי כתב?\u2069 · \u2066→ דן\u2069'), words(lane(view, 0)));
});

test('a look-up that began before it was asked is drawn from its beginning', () => {
  const view = last('foreseen');
  const [early] = pieces(lane(view, 0), view.at).filter((piece) => piece.early);
  assert.deepEqual([early.stage, early.from, early.to], ['target', 0, lane(view, 0).foreseen.at]);
  assert.deepEqual(marks(lane(view, 0)).map(({ name }) => name), ['ahead', 'foreseen', 'accepted']);
});

test('a look-up that was taken over is kept, and reaches to where its result came', () => {
  const view = last('salvaged');
  const taken = view.lanes.filter((lane) => lane.salvaged);
  assert.equal(taken.length, 2);
  for (const lane of taken) {
    const from = view.lanes.find((other) => other.id === lane.salvaged.lane);
    assert.equal(from.question, lane.question);
    assert.equal(state(from), 'rolled back');
    const bar = from.bars.find((bar) => bar.stage === 'target');
    assert.equal(bar.end, 'kept');
    near(bar.to, lane.observed.at, 'the end of the look-up');
  }
  const unknown = { p: null, alpha: null, beta: null };
  assert.deepEqual(view.tuned, { k: 3, reason: 'the default, with 6 of 8 guesses seen yet', ...unknown });
});

test('each of several guesses has a branch of its own, and both stand on the same one', () => {
  const view = last('siblings');
  // Each of the two is built on in turn, the second one first.
  assert.deepEqual([1, 2, 3, 4].map((id) => lane(view, id).parent), [0, 0, 2, 1]);
  assert.deepEqual(lane(view, 0).guess.others, ['Rupprecht']);
  assert.equal(lane(view, 0).verdicts.length, 2);
});

test('what had to wait for its turn is drawn as waiting', () => {
  const view = last('siblings');
  assert.equal(looks(view, 3), 'segment dead, segment waits');
  assert.equal(looks(view, 7), 'segment waits');
});

test('a run that fails says why, and nothing of it runs on', () => {
  const view = last('failed');
  assert.equal(view.phase, 'failed');
  assert.equal(view.error.code, 'DEADLINE_EXCEEDED');
  assert.match(view.error.message, /\w/);
  assert.ok(view.lanes.every((lane) => lane.bars.every((bar) => bar.to !== null)));
  assert.equal(view.hops.length, 1);
});

test('what k = 1 would have taken is the sum of the committed stages and of the last segment', () => {
  for (const name of names.filter((name) => name !== 'failed')) {
    const { answer } = recording(name).at(-1);
    const sum = answer.hops.reduce((sum, { times }) => sum + times.segment_ms + times.target_ms, answer.final_segment_ms);
    const view = last(name);
    assert.ok(sequential(view).whole);
    near(sequential(view).total, sum, name);
    near(elapsed(view), answer.elapsed_ms, name);
  }
});

test('the times that are told while it runs are those that the answer tells', () => {
  for (const name of ['rejected', 'salvaged', 'foreseen']) {
    const all = views(recording(name));
    const before = sequential(all.at(-2));
    assert.equal(before.whole, false);
    near(before.total, sequential(all.at(-1)).total, name);
  }
});

test('while it runs, k = 1 goes on with every branch on the way, and a wrong guess takes its part away', () => {
  const all = views(recording('rejected'));
  const behind = (sequence) => all.find((view) => view.sequence === sequence);
  const told = ({ tiles }) => tiles.map(({ stage, hop, open }) => `${stage} ${hop}${open ? '?' : ''}`);
  // The look-up of the first hop and all that is planned behind its guess run side by side.
  const wide = behind(14);
  const ghost = sequential(wide);
  assert.deepEqual(told(ghost), ['segment 1', 'target 1', 'segment 2?', 'target 2?', 'segment 3?', 'segment 4?']);
  assert.ok(ghost.total > wide.at, `${ghost.total} of ${wide.at}`);
  near(sequential(wide, wide.at + 100).total, ghost.total + 200, 'both look-ups go on');
  const gone = all.find((view) => view.hops.length === 1);
  assert.ok(told(sequential(gone)).every((tile) => !tile.endsWith('?')), told(sequential(gone)).join());
  for (const name of names) {
    for (const view of views(recording(name)).filter(({ phase }) => phase === 'running')) {
      const hops = sequential(view).tiles.filter(({ stage }) => stage === 'segment').map(({ hop }) => hop);
      assert.deepEqual(hops, hops.map((_, n) => n + 1), `one branch for each hop: ${name} ${view.sequence}`);
    }
  }
});

test('the answer stands there as provisional before it is final, and goes if its branch does', () => {
  const all = views(recording('rejected'));
  const draft = all.find((view) => view.draft);
  assert.equal(draft.draft.answer, 'Schloss Nymphenburg');
  assert.ok(draft.draft.chance < 1 && draft.answer === null);
  const events = recording('rejected').filter((event) => event.sequence <= draft.sequence);
  const { branch, hop } = events.at(-1);
  const gone = reduce(draft, { sequence: draft.sequence + 1, at_ms: 9e3, branch, hop, provisional: true, rolled_back: {} });
  assert.equal(gone.draft, null);
});

test('every prefix gives a view that can be drawn, and time does not run backwards', () => {
  for (const name of names) {
    let before = START;
    for (const view of views(recording(name))) {
      assert.ok(view.at >= before.at);
      for (const lane of view.lanes) {
        assert.ok(line(lane).length > 0 && words(lane));
        for (const piece of pieces(lane, view.at)) {
          assert.ok(piece.look in LOOKS);
          assert.ok(piece.from <= piece.to && piece.to <= view.at + 0.01, `${name} ${view.sequence}`);
        }
        // Nothing that may be thrown away looks safe, and nothing that is gone looks alive.
        const all = pieces(lane, view.at).filter(({ stage }) => stage !== 'speculation').map(({ look }) => look);
        if (state(lane) === 'provisional') assert.ok(!all.includes('sure') && !all.includes('ahead'));
        if (state(lane) === 'rolled back') assert.ok(all.every((look) => ['dead', 'kept', 'waits'].includes(look)));
      }
      before = view;
    }
  }
});

test('an event twice, or an old one, changes nothing', () => {
  for (const name of names) {
    const events = recording(name);
    const once = views(events).at(-1);
    const often = events.flatMap((event, n) => [event, event, events[Math.floor(n / 2)]]).filter((event) => !event.error);
    if (events.at(-1).error) often.push(events.at(-1));
    assert.deepEqual(views(often).at(-1), once);
  }
});

test('behind a gap nothing is taken, until what is missing comes', () => {
  const events = recording('rejected');
  const missing = 11;
  const holed = events.filter((event) => event.sequence !== missing);
  const view = views(holed).at(-1);
  assert.equal(view.sequence, missing - 1);
  assert.equal(view.gap.after, missing - 1);
  assert.deepEqual(view.lanes, views(events)[missing - 1].lanes);
  const mended = events.slice(missing - 1).reduce(reduce, view);
  assert.deepEqual(mended, views(events).at(-1));
});

test('a view is never changed, and shares what did not change', () => {
  const deep = (value) => {
    if (value && typeof value === 'object' && !Object.isFrozen(value)) Object.values(Object.freeze(value)).forEach(deep);
    return value;
  };
  for (const name of names) {
    recording(name).reduce((view, event) => {
      const next = deep(reduce(view, deep(event)));
      const kept = next.lanes.filter((lane) => view.lanes.includes(lane)).length;
      const whole = event.answer || event.error || event.observed || event.rolled_back;
      assert.ok(whole || kept >= view.lanes.length - 1, `${name} ${event.sequence}`);
      return next;
    }, deep(START));
  }
});

/// Anything that JSON can say, in place of anything that an event says.
test('whatever stands in an event, nothing throws', () => {
  const ODD = [null, true, -1, 1e308, '', '<script>', 'x'.repeat(5000), [], {}, [null], { __proto__: null, stage: 7 }, 'constructor'];
  for (let seed = 0; seed < 300; seed++) {
    const draw = draws(seed);
    const pick = (all) => all[Math.floor(draw() * all.length)];
    const spoil = (value) => {
      if (draw() < 0.04) return pick(ODD);
      if (Array.isArray(value)) return value.map(spoil);
      if (value === null || typeof value !== 'object') return value;
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, spoil(part)]));
    };
    const events = recording(pick(names)).map((event, n) => (event.error ? event : { ...spoil(event), sequence: n + 1 }));
    try {
      for (const view of views(events)) {
        for (const lane of view.lanes) pieces(lane, view.at), marks(lane), words(lane);
        sequential(view);
      }
    } catch (error) {
      throw new Error(`seed ${seed}`, { cause: error });
    }
  }
});

test('a recorded run shows the view of every moment, forwards and backwards', () => {
  const run = new Run('', false);
  for (const event of recording('rejected')) run.push(event);
  assert.equal(run.view(0).sequence, views(recording('rejected')).findLast((view) => view.at === 0).sequence);
  run.position = 7000;
  assert.ok(run.view(0).at <= 7000 && run.last.at > 7000);
  const seen = [];
  for (let at = run.moment(1, 0); at < Infinity; at = run.moment(1, at)) seen.push(at);
  assert.deepEqual(seen, [...new Set(run.views.map((view) => view.at))].slice(1));
  assert.equal(run.moment(-1, seen.at(-1)), seen.at(-2));
  assert.equal(run.moment(-1, 0), 0);
});

/// A frame of a screen has 16 ms. The best of many rounds counts, in time of the processor: the machine may be busy.
test('2,000 events are reduced within a frame', () => {
  const events = long(2000);
  const took = [];
  for (let n = 0; n < 40; n++) {
    const before = process.cpuUsage();
    views(events);
    const { user, system } = process.cpuUsage(before);
    took.push((user + system) / 1000);
  }
  assert.ok(Math.min(...took) < 16, `${Math.min(...took)} ms`);
});

test('a long run is reduced whole', () => {
  const view = views(long(2000)).at(-1);
  assert.equal(view.sequence, 2000);
  assert.ok(view.lanes.length > 300);
});
