// What is told beside the timeline: the meters, and how sure an answer is.

import assert from 'node:assert/strict';
import test from 'node:test';
import { savedInWords } from '../../src/page/draw.js';
import { announce, citations, cost, spanOf, sure } from '../../src/page/panels.js';
import { reduce, sequential, START } from '../../src/page/reduce.js';
import { names, recording, views } from './recordings.mjs';

/// The meters of an answer, by name.
const meters = (view) => Object.fromEntries(cost(view).map(([name, value, more]) => [name, `${value} ${more}`.trim()]));
const answered = (answer, events = []) => [...events, { answer }].map((event, n) => ({ sequence: n + 1, ...event })).reduce(reduce, START);

test('tokens, money and time of every kind of call are counted, drafts included', () => {
  const calls = (n) => ({
    prompt_tokens: n,
    completion_tokens: 2 * n,
    wasted_prompt_tokens: 3 * n,
    wasted_completion_tokens: 4 * n,
    time_ms: 1000 * n,
    wasted_time_ms: 100 * n,
    money_micros: 1e5 * n,
    wasted_money_micros: 1e4 * n,
  });
  const kinds = ['segments', 'targets', 'speculations', 'drafts'];
  const all = meters(answered({ usage: Object.fromEntries(kinds.map((kind, n) => [kind, calls(10 ** n)])) }));
  assert.equal(all.tokens, '3333 7777 of them wasted');
  assert.equal(all.money, '111.1000 11.1100 of it wasted');
  assert.equal(all.work, '1111.0 s 111.1 s of it wasted');
  for (const kind of kinds) {
    const one = meters(answered({ usage: { [kind]: calls(7) } }));
    assert.deepEqual([one.tokens, one.money], ['21 49 of them wasted', '0.7000 0.0700 of it wasted'], kind);
  }
});

test('a k that was chosen tells why and by which estimates, as far as there are any', () => {
  const tuned = { k: 4, reason: 'speculation saves 30 %', p: 0.72, alpha: 0.105, beta: 0 };
  const told = meters(answered({}, [{ tuned }]));
  assert.equal(told.k, '4 auto: speculation saves 30 %');
  assert.match(told['p̂'], /^0\.72 share of guesses/);
  assert.match(told['α̂'], /^0\.1[01] time of a guess/);
  assert.match(told['β̂'], /^0\.00 time to write/);
  const unknown = meters(answered({}, [{ tuned: { k: 3, reason: 'the default' } }]));
  assert.deepEqual(Object.keys(unknown), ['k']);
  const named = meters(answered({ applied: { options: { k: 2 } } }));
  assert.deepEqual(named, { k: '2' });
  assert.deepEqual(meters(answered({ applied: { options: { unbounded: {} } } })), { k: '∞' });
});

test('what the calls waited for a turn is told once the answer is there', () => {
  const activities = [
    { stage: 'STAGE_SEGMENT', activity: 'ACTIVITY_TURN', time_ms: 1200 },
    { stage: 'STAGE_SEGMENT', activity: 'ACTIVITY_DECODE', time_ms: 9000 },
    { stage: 'STAGE_TARGET', activity: 'ACTIVITY_TURN', time_ms: 300 },
  ];
  assert.match(meters(answered({ usage: {}, activities })).waited, /^1\.50 s /);
  assert.equal(meters(answered({ usage: {}, activities: [null, 7, { activity: 7 }] })).waited, undefined);
});

test('if its hops are not all that a question took, nothing is said of k = 1', () => {
  const before = views(recording('rejected')).at(-2);
  const { answer } = recording('rejected').at(-1);
  const handed_over = { of_form: 0.1 };
  const behind = (view, event) => reduce(view, { sequence: view.sequence + 1, at_ms: view.at + 1, ...event });
  const over = behind(before, { handed_over });
  assert.deepEqual(sequential(over).tiles, []);
  for (const [view, expected] of [
    [behind(before, { answer }), true],
    [behind(before, { answer: { ...answer, plans: 1 } }), true],
    [behind(before, { answer: { ...answer, plans: 5 } }), false],
    // What was under way when the budget ran out, or the answer was wanted at once, took a part of the time.
    [behind(before, { answer: { ...answer, stop_reason: 'STOP_REASON_BUDGET' } }), false],
    [behind(over, { answer: { ...answer, handed_over } }), false],
    // The fallback has failed, and took its time.
    [behind(over, { answer }), false],
    // Only the answer was still kept.
    [behind(before, { answer: { ...answer, handed_over } }), false],
  ]) {
    assert.equal(view.phase, 'answered');
    const says = [sequential(view).total > 0, savedInWords(view) !== '', 'time hidden' in meters(view)];
    assert.deepEqual(says, Array(3).fill(expected), JSON.stringify([view.answer.plans, view.answer.stop_reason, view.answer.handed_over]));
  }
});

test('how sure an answer is is told in words, as far as it is known', () => {
  assert.deepEqual(sure({}), []);
  assert.deepEqual(sure({ confidence: { supported: true } }), []);
  assert.deepEqual(sure({ confidence: { chance: 0.834, supported: true } }), ['Right with chance 83 %.']);
  assert.deepEqual(sure({ confidence: { chance: 0, supported: false, withheld: '<b>Paris</b>' } }), [
    'Withheld: <b>Paris</b>',
    'Right with chance less than 1 %.',
    'It stands in nothing that was looked up.',
  ]);
  for (const odd of [null, 1, 'x', [], { chance: 'x', withheld: 7, supported: 'no', of_form: [] }]) {
    assert.ok(sure({ confidence: odd }).every((told) => typeof told === 'string'), JSON.stringify(odd));
  }
});

test('what is hardly a question is said to be none if its answer is withheld or the fallback stepped in', () => {
  const hardly = 'is hardly a question of the form that the planner was trained on.';
  const confidence = (of_form, withheld) => ({ chance: 0.02, of_form, supported: true, withheld });
  const told = (of_form, withheld, handed_over) => sure({ confidence: confidence(of_form, withheld), handed_over });
  const likely = 'Right with chance 2 %.';
  assert.deepEqual(told(0.07, 'Serbian'), [`This ${hardly}`, 'Withheld: Serbian', likely]);
  assert.deepEqual(told(0, ''), [`This ${hardly}`, 'Withheld: ', likely]);
  // Withheld for another reason, or nobody knows the form.
  for (const of_form of [0.5, 1, null, undefined]) assert.deepEqual(told(of_form, 'Serbian'), ['Withheld: Serbian', likely]);
  assert.deepEqual(told(0.07), [likely]);
  assert.deepEqual(told(0.07, undefined, { of_form: 0.07 }), [`By the fallback: this ${hardly}`, likely]);
});

test('whoever hears the page hears what went wrong with the run below', () => {
  const node = { textContent: '' };
  const spoken = (...all) => (announce(node, ...all), node.textContent);
  const refused = reduce(START, { error: { message: 'too many requests' } });
  const right = answered({ answer: 'Paris' });
  assert.equal(spoken(right), 'Answer: Paris');
  assert.equal(spoken(right, [right]), 'Answer: Paris');
  assert.equal(spoken(right, [refused]), 'Answer: Paris No answer below. too many requests');
  assert.equal(spoken(refused), 'No answer. too many requests');
  assert.equal(spoken(START), '');
});

test('every view of every recording has its meters', () => {
  for (const name of names) for (const view of views(recording(name))) assert.ok(cost(view).every((row) => row.every((part) => typeof part === 'string')));
});

test('a citation is a passage that holds the answer', () => {
  const { hops } = views(recording('rejected')).at(-1);
  const cited = citations(hops);
  // One of them writes the name of hop 1 without its accent.
  assert.deepEqual(cited.map(({ hops }) => hops), [[1], [1], [2]]);
  const plain = (text) => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  for (const { passage, answers } of cited) {
    const [from, to] = spanOf(passage.text, answers[0]);
    assert.equal(plain(passage.text.slice(from, to)), plain(answers[0]));
  }
  assert.equal(spanOf('nothing of it', 'absent'), null);
  assert.deepEqual(spanOf('Nigeria, beside niger', 'Niger'), [16, 21]);
  assert.deepEqual(spanOf('Nigeria', 'Niger'), [0, 5]);
  assert.deepEqual(spanOf('İİİ abc', 'ABC'), [4, 7]);
  // As the server folds texts.
  for (const [text, answer, found] of [
    ['He lives in St. John’s.', "St. John's", 'St. John’s'],
    ['In Washington D.C. it is.', 'Washington, D.C.', 'Washington D.C'],
    ['It took 1994-1998.', '1994–1998', '1994-1998'],
    ['In Ma\u0301laga.', 'Málaga', 'Ma\u0301laga'],
    ['𝐀 is 1.5 m.', 'a is 1.5 m', '𝐀 is 1.5 m'],
    ['C is older than C++ is.', 'C++', 'C++'],
    ['Only C.', 'C++', null],
    ['15 m', '1.5', null],
    ['nothing', '…', null],
  ]) {
    const span = spanOf(text, answer);
    assert.equal(span && text.slice(...span), found, text);
  }
  assert.deepEqual(spanOf('He left Málaga for\nNew\nYork.', 'Malaga for New York'), [8, 27]);
  const named = (observed, ...texts) => {
    const evidence = texts.map((text, n) => ({ passage_id: `${n}`, text }));
    return citations([{ found: true, observed, evidence }]).map(({ passage }) => passage.passage_id);
  };
  const among = (observed) => named(observed, 'Nigeria is large.', 'It lies in Niger.');
  assert.deepEqual(['Niger', 'iger', 'Mali'].map(among), [['1'], ['0', '1'], ['0']]);
  assert.deepEqual(['no', 'No.'].map((said) => named(said, 'Nearest.', 'No. 1 in the charts.')), [['0'], ['0']]);
  assert.deepEqual(named('New York', 'The York.', 'New York, New York', 'He moved to New\nYork.'), ['1', '2']);
  // Letters stand beside it in most texts of a script that does not part words.
  assert.deepEqual(named('東京', '日本の首都は東京である。', '東京（とうきょう）は日本の都市。'), ['0', '1']);
  assert.deepEqual(named('서울', '서울은 크다.', '한국: 서울.'), ['0', '1']);
  assert.deepEqual(named('NHK', '日本のNHKは放送局。', 'NHK (Japan)', 'NHKs'), ['0', '1']);
});

/// A hop that saw one passage, as an event tells it.
const hop = (answer, text, found, more = {}) => ({ observation: { answer, found, evidence: [{ passage_id: '1', text, ...more }] } });
const cited = (...hops) => {
  const events = hops.map((hop, n) => ({ sequence: n + 1, branch: n, hop: n + 1, committed: { hop } }));
  const running = events.reduce(reduce, START);
  const answered = reduce(running, { sequence: hops.length + 1, answer: { hops } });
  const [now, then] = [running, answered].map((view) => citations(view.hops).map(({ passage, hops }) => [passage.text, hops]));
  assert.deepEqual(then, now, 'the answer cites what its commits did');
  return now;
};

test('a look-up that found nothing is cited by nothing', () => {
  assert.deepEqual(cited(hop('No relevant information found', 'A film.', false)), []);
  // Not even if the words stand there.
  assert.deepEqual(cited(hop('film', 'A film.', false), hop('film', 'Another film.', true)), [['Another film.', [2]]]);
  assert.deepEqual(cited(hop('in other words', 'A film.', true)), [['A film.', [1]]]);
  for (const odd of [undefined, null, 1, 'true']) assert.deepEqual(cited(hop('film', 'A film.', odd)), [], `${odd}`);
});

test('two passages of one name are two', () => {
  assert.deepEqual(cited(hop('film', 'A film.', true), hop('film', 'Another film.', true)), [['A film.', [1]], ['Another film.', [2]]]);
  const at = (url) => hop('film', 'A film.', true, { url });
  assert.equal(cited(at('https://one.example'), at('https://two.example')).length, 2);
  assert.deepEqual(cited(at(undefined), at(null), at(undefined)), [['A film.', [1, 2, 3]]]);
});
