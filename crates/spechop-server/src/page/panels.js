// Everything beside the timeline: the answer, its hops and passages, the meters, the branches in words.

import { el, say, webAddress } from './dom.js';
import { s, words } from './look.js';
import { list, maybe, num, obj, str, word } from './read.js';
import { elapsed, sequential } from './reduce.js';

/// Fills a node anew if what it is made of is another thing than before. Whoever reads in it goes on reading: what is
/// open stays open, and the focus where it is.
function renew(node, of, make) {
  if (node.madeOf && node.madeOf.length === of.length && of.every((part, n) => part === node.madeOf[n])) return;
  node.madeOf = of;
  const all = (what) => [...node.querySelectorAll(what)];
  const open = all('details[open]').map(({ key }) => key);
  const focused = all('summary, a').indexOf(document.activeElement);
  node.replaceChildren(...make().filter(Boolean));
  for (const details of all('details')) details.open = open.includes(details.key);
  all('summary, a')[focused]?.focus({ preventScroll: true });
}

/// Each passage once, as the hops name them: {passage, key, hops, answers}. A hop that found something rests on the
/// passages that hold its answer, or else on the nearest one, as does a yes or a no.
export function citations(hops) {
  const cited = [];
  hops.forEach((hop, n) => {
    if (!hop.found) return;
    const what = /^(yes|no)$/.test(folded(hop.observed).text) ? '' : hop.observed;
    const placed = hop.evidence.map((passage) => ({ passage, span: spanOf(str(passage.text), what) }));
    const holds = placed.filter(({ span }) => span);
    const whole = holds.filter(({ passage, span }) => isWhole(str(passage.text), span));
    for (const { passage } of [whole, holds, placed.slice(0, 1)].find((some) => some.length) ?? []) {
      // Pages may share a name.
      const key = JSON.stringify([passage.passage_id, passage.text, passage.url]);
      const known = cited.find((one) => one.key === key);
      if (known) known.hops.push(n + 1), known.answers.push(hop.observed);
      else cited.push({ passage, key, hops: [n + 1], answers: [hop.observed] });
    }
  });
  return cited;
}

/// Where an answer stands in a text: [from, to], or null. As words of its own, if it does anywhere: `Niger` is not meant
/// in `Nigeria`.
export function spanOf(text, answer) {
  if (!answer) return null;
  const [within, words] = [folded(text), folded(answer).text];
  const like = words ? [...placesOf(within.text, words)] : [];
  const places = like.map(([from, to]) => [within.places[from][0], within.places[to - 1][1]]);
  const spans = [...placesOf(text, answer), ...places];
  return spans.find((span) => isWhole(text, span)) ?? spans[0] ?? null;
}

function* placesOf(text, what) {
  for (let from = text.indexOf(what); from >= 0; from = text.indexOf(what, from + 1)) yield [from, from + what.length];
}

/// A text as it is compared, and where each letter of that stands in it. As `canonical_name` of the server has it: in
/// lower case, without accents, apostrophes and full stops, with a blank for all else that is no letter.
function folded(text) {
  const [letters, places] = [[], []];
  let [at, gap] = [0, false];
  for (const c of text) {
    const [from, to, last] = [at, (at += c.length), letters.at(-1) ?? ''];
    if ("'’‘ʼ`.".includes(c)) {
      gap ||= /\d/.test(last) && /\d/.test(text[to] ?? '');
      continue;
    }
    const plain = (c < '\x80' ? c : c.normalize('NFKD').replace(/[\u0300-\u036f]/g, '')).toLowerCase();
    const isSign = '+#♯♭'.includes(c) && !gap && /[\p{L}+#♯♭]/u.test(last);
    if (plain && !isSign && !/[\p{L}\p{N}\p{M}]/u.test(plain)) {
      gap = true;
    } else if (plain) {
      if (gap && last) letters.push(' '), places.push([from, from]);
      gap = false;
      for (let n = 0; n < plain.length; n++) letters.push(plain[n]), places.push([from, to]);
    }
  }
  return { text: letters.join(''), places };
}

/// Letters of scripts in which words stand side by side or, in Korean, with their particles. `cited.rs` has the same.
const UNPARTED = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{sc=Hang}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/u;

/// Whether no word reaches over the ends of a span.
function isWhole(text, [from, to]) {
  const isInWord = (beside, edge) => /[\p{L}\p{N}]/u.test(text[beside] ?? '') && !UNPARTED.test(text[beside] + text[edge]);
  return !isInWord(from - 1, from) && !isInWord(to, to - 1);
}

/// Leads to a passage.
const ref = (n) => el('a', { href: `#passage-${n + 1}`, class: 'ref' }, `[${n + 1}]`);
const t = (text, name = 't') => el('span', { class: name, dir: 'auto' }, text);
const quiet = (...parts) => el('p', { class: 'quiet' }, ...parts);

export function answer(node, view) {
  renew(node, [view.answer, view.draft, view.error, view.phase, view.gap, view.hops], () => {
    if (view.answer) {
      // What is said in place of an answer that is withheld rests on nothing.
      const isWithheld = typeof obj(view.answer.confidence).withheld === 'string';
      const refs = isWithheld ? [] : citations(view.hops).map((_, n) => ref(n));
      const why = STOPS[word(view.answer.stop_reason, 'STOP_REASON_')];
      return [
        el('p', { class: 'kind' }, 'Answer'),
        el('p', { class: 'final' }, t(str(view.answer.answer)), ' ', ...refs),
        ...sure(view.answer).map((told) => quiet(t(told))),
        why && quiet(`${why}, so it was answered from these hops.`),
      ];
    }
    if (!view.draft || view.error) return told(view);
    const { answer, chance } = view.draft;
    const likely = chance < 1 ? `: it stands on guesses, ${Math.round(chance * 100)} % likely to hold` : '';
    return [...told(view), el('p', { class: 'kind' }, `Provisional${likely}`), el('p', { class: 'draft' }, t(answer))];
  });
}

/// What went wrong with a run, if anything did.
export const wrong = (node, view) => renew(node, [view.error, view.gap], () => told(view));

const told = ({ error, gap }) => [error && failure(error), gap && missing(gap)];

/// How sure an answer is, in sentences; none if the server did not say.
export function sure({ confidence, handed_over }) {
  const { chance, of_form, supported, withheld } = obj(confidence);
  const isWithheld = typeof withheld === 'string';
  const asked = handed_over ? 'By the fallback: this' : isWithheld && (maybe(of_form) ?? 1) < 0.5 && 'This';
  const percent = num(chance) < 0.01 ? 'less than 1' : Math.round(num(chance) * 100);
  return [
    asked && `${asked} is hardly a question of the form that the planner was trained on.`,
    isWithheld && `Withheld: ${withheld}`,
    maybe(chance) !== null && `Right with chance ${percent} %.`,
    supported === false && 'It stands in nothing that was looked up.',
  ].filter(Boolean);
}

const STOPS = {
  __proto__: null,
  hop_budget: 'No more hops were allowed',
  repeated: 'The same sub-question came twice',
  not_found: 'Too many look-ups found nothing',
  budget: 'The budget was used up, or the answer was wanted at once',
};

const missing = ({ after, got }) =>
  el('p', { class: 'error' }, `Events are missing: after number ${after} came number ${got}. Nothing behind it is shown.`);

function failure({ code, message, fields, retryAfter }) {
  const wrong = fields.map((field) => {
    const { field: name, description, message } = obj(field);
    return el('li', {}, t(`${str(name)}: ${str(description) || str(message)}`));
  });
  const again = retryAfter ? ` Try again in ${s(retryAfter)}.` : '';
  return el(
    'div',
    { class: 'error' },
    el('p', {}, el('strong', {}, 'No answer. '), t(message), again),
    code === 'UNAUTHENTICATED' && el('p', {}, 'Enter an API key of this server under Budget and key, and ask again.'),
    code && quiet(t(code)),
    wrong.length > 0 && el('ul', {}, ...wrong),
  );
}

const HOWS = {
  __proto__: null,
  accepted: 'The guess was right, and its branch was already under way',
  rejected: 'The guess was wrong, and what stood on it was thrown away',
  observed: 'Looked up: nothing was built on a guess of it',
};

export function hops(node, view) {
  renew(node, [view.hops], () => {
    const cited = citations(view.hops);
    return view.hops.map((hop, n) => {
      const refs = cited.flatMap((one, at) => (one.hops.includes(n + 1) ? [ref(at)] : []));
      const { verdict } = hop;
      const scores =
        verdict && t(` Rule: ${verdict.rule}, coverage ${verdict.coverage.toFixed(2)}, Jaccard ${verdict.jaccard.toFixed(2)}.`);
      const guess = hop.guess !== null && hop.kind === 'rejected' && [' Guess: ', t(hop.guess, 't struck'), '.'];
      const times = `${s(hop.times.segment)} to write, ${s(hop.times.target)} to look up.`;
      return el(
        'li',
        { class: hop.kind },
        el('p', {}, t(hop.question), ' → ', t(hop.answer, 't found'), ' ', ...refs),
        quiet(`${HOWS[hop.kind] ?? 'Committed'}.`, ...(guess || []), scores, ' ', times,
          hop.salvaged && ' A branch that was thrown away had begun its look-up.'),
      );
    });
  });
}

export function passages(node, view) {
  renew(node, [view.hops], () =>
    citations(view.hops).map(({ passage, key, hops, answers }, n) => {
      const address = webAddress(passage.url);
      const id = str(passage.passage_id);
      const source = address && el('a', { href: address, rel: 'noopener noreferrer', target: '_blank' }, t(address));
      const details = el(
        'details',
        { id: `passage-${n + 1}` },
        el('summary', {}, t(str(passage.title) || 'untitled'), el('span', { class: 'quiet' }, ` · hop ${hops.join(', ')}`)),
        el('p', { dir: 'auto', class: 't text' }, ...marked(str(passage.text), answers)),
        // A page's own identifier is its address, and a part of it.
        quiet(...(source && id.startsWith(passage.url) ? [source] : [t(id), source && ' · ', source])),
      );
      details.key = key;
      return el('li', {}, details);
    }),
  );
}

/// A text with the answers in it marked.
function marked(text, answers) {
  const spans = answers.map((answer) => spanOf(text, answer)).filter(Boolean).sort((a, b) => a[0] - b[0]);
  const parts = [];
  let at = 0;
  for (const [from, to] of spans) {
    if (from < at) continue;
    parts.push(text.slice(at, from), el('mark', {}, text.slice(from, to)));
    at = to;
  }
  return [...parts, text.slice(at)];
}

export function meters(node, view) {
  renew(node, [view.usage, view.tuned, view.answer, view.refused, view.providers], () =>
    cost(view).map(([name, value, more]) =>
      el('div', {}, el('dt', {}, name), el('dd', {}, el('strong', {}, t(value)), ' ', t(more, 't quiet'))),
    ),
  );
}

/// What a question has cost, and by what its k was chosen: [name, value, more] of each meter.
export function cost(view) {
  const { usage, tuned, answer, refused, providers } = view;
  const of = (kind) => obj(usage[kind]);
  const sum = (...fields) =>
    ['segments', 'targets', 'speculations', 'drafts'].flatMap((kind) => fields.map((field) => num(of(kind)[field]))).reduce((a, b) => a + b);
  const rows = [];
  const row = (name, value, more = '') => rows.push([name, `${value}`, more]);
  if (usage) {
    const [targets, guesses] = [of('targets'), of('speculations')];
    row('look-ups', num(targets.started), `${num(targets.wasted)} of them wasted`);
    const again = num(usage.salvaged);
    if (again) row('taken over', again, 'look-ups of branches that were thrown away');
    const early = num(usage.drafted);
    if (early) row('begun early', early, `${num(usage.foreseen)} of them asked for`);
    row('guesses', num(guesses.started), `${num(guesses.wasted)} of them of no use`);
    const [{ tiles, total }, took] = [sequential(view), elapsed(view)];
    if (took !== null && tiles.length) row('time hidden', s(Math.max(total - took, 0)), `of ${s(total)}`);
    row('work', s(sum('time_ms')), `${s(sum('wasted_time_ms'))} of it wasted`);
    const turns = list(obj(answer).activities).map(obj).filter(({ activity }) => word(activity, 'ACTIVITY_') === 'turn');
    const waited = turns.reduce((all, { time_ms }) => all + num(time_ms), 0);
    if (waited >= 1) row('waited', s(waited), 'for turns at the scheduler, within the bars');
    const lost = sum('wasted_prompt_tokens', 'wasted_completion_tokens');
    row('tokens', sum('prompt_tokens', 'completion_tokens'), `${lost} of them wasted`);
    const money = (...fields) => (sum(...fields) / 1e6).toFixed(4);
    if (sum('money_micros')) row('money', money('money_micros'), `${money('wasted_money_micros')} of it wasted`);
  }
  if (refused) row('held back', refused, 'calls that were not made ahead of need');
  const { k } = obj(obj(obj(answer).applied).options);
  if (tuned) row('k', tuned.k, `auto: ${tuned.reason}`);
  else if (answer) row('k', k == null ? '∞' : num(k));
  const { p = null, alpha = null, beta = null } = tuned ?? {};
  if (p !== null) row('p̂', p.toFixed(2), 'share of guesses that were right so far');
  if (alpha !== null) row('α̂', alpha.toFixed(2), 'time of a guess, by that of a look-up');
  if (beta !== null) row('β̂', beta.toFixed(2), 'time to write a sub-question, by that of a look-up');
  for (const { from, to, why } of providers) row('provider', `${from} → ${to}`, why);
  return rows;
}

export function branches(node, view) {
  renew(node, [view.lanes], () => view.lanes.map((lane) => el('li', {}, t(words(lane)))));
}

/// What a reader of the screen hears: commits, how it ends, and what went wrong with the run below.
export function announce(node, view, below = []) {
  const last = view.hops.at(-1);
  const spoken = [];
  if (view.answer) spoken.push(`Answer: ${str(view.answer.answer)}`);
  else if (view.error) spoken.push(`No answer. ${str(view.error.message)}`);
  else if (last) spoken.push(`Hop ${view.hops.length} is committed: ${last.question} ${last.answer}`);
  for (const { error } of below) if (error) spoken.push(`No answer below. ${str(error.message)}`);
  say(node, spoken.join(' '));
}
