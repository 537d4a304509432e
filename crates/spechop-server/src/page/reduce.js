// Events of a question in, what is to be seen out. Pure: no clock, no DOM, no network. A live run, a recorded one and
// a shared one all come through here.
//
// A view is never changed. A new one shares every part that an event did not touch, so whoever draws compares parts
// by identity, and a recording keeps the view behind each of its events.

import { list, maybe, num, obj, str, word } from './read.js';

/// Nothing has happened.
export const START = Object.freeze({
  sequence: 0, // of the last event that was taken
  gap: null, // {after, got}: an event is missing; nothing behind it is taken
  at: 0, // ms since the question was admitted
  phase: 'empty', // then 'running', then 'answered' or 'failed'
  lanes: Object.freeze([]), // one for each branch, in the order in which they began
  hops: Object.freeze([]), // committed, oldest first
  draft: null, // {lane, answer, chance, at}: the answer before it is final
  answer: null, // the AskResponse
  error: null, // {code, message, fields, retryAfter}
  tuned: null, // {k, reason, p, alpha, beta}; an estimate is null while nothing is known of it
  usage: null, // as of the last commit
  refused: 0, // calls that were not made ahead of need, or stopped
  providers: Object.freeze([]), // searches that went to another provider
  handed: null, // {lanes, hops, draft} before another model began anew
});

/// Folds one event in. An event that came before changes nothing; one that comes too early is kept out.
export function reduce(view, event) {
  event = obj(event);
  const at = Math.max(view.at, num(event.at_ms));
  const failure = failed(event);
  if (failure) return fail(view, failure, at);
  const sequence = num(event.sequence);
  if (sequence <= view.sequence || view.phase === 'answered' || view.phase === 'failed') return view;
  if (sequence !== view.sequence + 1) return { ...view, gap: { after: view.sequence, got: sequence } };
  // Field by field: a spread of so many is most of the time of an event.
  const { lanes: before, hops, draft, answer, error, tuned, usage, refused, providers, handed } = view;
  const next = { sequence, gap: null, at, phase: 'running', lanes: before, hops, draft, answer, error, tuned, usage, refused, providers, handed };
  const kind = kindOf(event);
  // A newer server may tell more.
  if (!kind) return next;
  const told = obj(event[kind]);
  const whole = WHOLE[kind];
  if (whole) return whole(next, told, at);
  const lanes = view.lanes.slice();
  const id = num(event.branch);
  let place = lanes.length - 1;
  while (place >= 0 && lanes[place].id !== id) place--;
  // The one copy of an event: what it does to its branch is written into it.
  const lane = place < 0 ? begin(view, event, at) : { ...lanes[place] };
  if (place < 0) place = lanes.length;
  lane.hard ??= event.provisional ? null : at;
  lane.touched = sequence;
  EVENTS[kind](lane, told, at, lanes);
  lanes[place] = lane;
  next.lanes = lanes;
  const after = AFTER[kind];
  return after ? after(next, place, told, at) : next;
}

/// The error that ends a stream, as an event or as the body of a response.
function failed(event) {
  const error = event.error ?? (event.sequence === undefined && event.code !== undefined ? event : null);
  if (error == null) return null;
  const { code, message, fields, retry_after_ms } = obj(error);
  return { code: str(code), message: str(message), fields: list(fields), retryAfter: num(retry_after_ms) };
}

function fail(view, error, at) {
  if (view.phase === 'answered' || view.phase === 'failed') return view;
  return { ...view, at, phase: 'failed', error, lanes: ended(view.lanes, at) };
}

/// A branch is heard of for the first time.
function begin(view, event, at) {
  const hop = num(event.hop);
  return {
    id: num(event.branch),
    hop,
    parent: parent(view.lanes, hop),
    began: at,
    promoted: null, // when its guess was accepted
    hard: null, // since when it is part of the way to the answer; null while it stands on a guess
    fate: 'open', // then 'committed', 'rolled_back', 'answered', or 'stopped' with its question
    ended: null,
    question: '',
    bars: [],
    guess: null, // {text, others, confidence, by, at}; the text is null if the speculator had none
    observed: null, // {answer, found, evidence, took, at}
    verdicts: [], // {accepted, rule, coverage, jaccard, at}: one for each guess that was compared
    draft: null, // {answer, chance, at}
    salvaged: null, // {lane, saved, at}: whose look-up it took over
    foreseen: null, // {saved, at}
    ahead: [], // {question, chance, at}: look-ups that were begun before it asked
    notes: [], // {at, stage, text}: refusals and failures
    touched: 0,
  };
}

// The events do not name the branch that another one is built on. It is one hop before, it is alive, and something
// has just happened to it: that is why the new one began.
function parent(lanes, hop) {
  let best = null;
  for (const lane of lanes) {
    if (lane.hop === hop - 1 && lane.fate !== 'rolled_back' && (!best || lane.touched >= best.touched)) best = lane;
  }
  return best && best.id;
}

/// Stages that have bars. A draft has none: it runs while its branch is written, and no branch waits for it. Nor has
/// what a newer server may tell of.
const BARS = ['segment', 'target', 'speculation'];
const stage = (value) => word(value, 'STAGE_');

/// A bar is a stretch of work: {stage, from, to, end}, `to` null while it lasts.
/// `end` is 'running', 'done', 'aborted', 'failed', 'dropped' (a guess that was too late), 'waits' (no turn at the
/// scheduler) or 'kept' (salvaged).
const bar = (stage, from, end = 'running', to = null) => ({ stage, from, to, end });

/// The last open bar of a stage. No event says that a guess was dropped, so more may be told of it.
const open = (lane, stage) => lane.bars.findLastIndex((bar) => bar.stage === stage && (bar.to === null || bar.end === 'dropped'));

/// Ends it. The lane is a copy, its bars are not.
function end(lane, stage, at, how) {
  const last = open(lane, stage);
  if (last >= 0) lane.bars = replaced(lane.bars, last, closed(lane.bars[last], at, how));
}

/// A copy with another item in one place. (`Array.with` came to Node in version 20; Debian 12 has 18.)
function replaced(list, at, item) {
  const copy = list.slice();
  copy[at] = item;
  return copy;
}

const closed = (bar, at, how) => ({ ...bar, to: Math.max(at, bar.from), end: bar.end === 'waits' ? 'waits' : how });

/// Ends everything that still runs, and the branch with it.
function over(lane, at, fate) {
  if (lane.bars.some((bar) => bar.to === null)) {
    lane.bars = lane.bars.map((bar) => (bar.to === null ? closed(bar, at, 'aborted') : bar));
  }
  lane.fate = fate;
  lane.ended = at;
  return lane;
}

const add = (lane, bar) => void (lane.bars = [...lane.bars, bar]);

/// The question is over: nothing runs any more, and what stood on a guess is thrown away.
function ended(lanes, at) {
  return lanes.map((lane) => (lane.fate === 'open' ? over({ ...lane }, at, lane.hard === null ? 'rolled_back' : 'stopped') : lane));
}

/// What each event does to its branch: a copy that may be written to. `lanes` are those before.
const EVENTS = {
  launched: (lane, told, at) => {
    const kind = stage(told.stage);
    if (!BARS.includes(kind)) return;
    end(lane, kind, at, 'aborted');
    add(lane, bar(kind, at));
  },
  planned: (lane, told, at) => {
    end(lane, 'segment', at, 'done');
    lane.question = str(told.sub_question);
  },
  drafted: (lane, told, at) => {
    end(lane, 'segment', at, 'done');
    lane.draft = { answer: str(told.answer), chance: num(told.chance), at };
  },
  guessed: (lane, told, at) => {
    end(lane, 'speculation', at, 'done');
    lane.guess = {
      text: typeof told.guess === 'string' ? told.guess : null,
      others: list(told.others).map(str),
      confidence: maybe(told.confidence),
      by: str(told.by),
      at,
    };
  },
  observed: (lane, told, at) => {
    end(lane, 'target', at, 'done');
    end(lane, 'speculation', at, 'dropped');
    lane.observed = { ...seen(told.observation), took: num(told.took_ms), at };
  },
  verified: (lane, told, at) => void (lane.verdicts = [...lane.verdicts, verdict(told.verdict, at)]),
  committed: (lane, _, at) => over(lane, at, 'committed'),
  rolled_back: (lane, _, at) => over(lane, at, 'rolled_back'),
  promoted: (lane, _, at) => {
    lane.hard ??= at;
    lane.promoted = at;
  },
  failed: (lane, told, at) => {
    const kind = stage(told.stage);
    end(lane, kind, at, 'failed');
    note(lane, at, kind, str(told.reason));
  },
  salvaged: (lane, told, at, lanes) => {
    const from = orphan(lanes, lane);
    add(lane, bar('target', at));
    lane.salvaged = { lane: from && from.id, saved: num(told.saved_ms), at };
  },
  // The look-up began when it was drafted.
  foreseen: (lane, told, at) => {
    const saved = num(told.saved_ms);
    const drafted = lane.ahead.find((ahead) => same(ahead.question, lane.question));
    const from = Math.max(drafted ? drafted.at : at - saved, 0);
    add(lane, bar('target', Math.min(from, at)));
    lane.foreseen = { saved, at };
  },
  asked_ahead: (lane, told, at) => {
    const ahead = { question: str(told.sub_question), chance: num(told.chance), at };
    lane.ahead = [...lane.ahead, ahead];
  },
  not_speculated: (lane, told, at) => {
    const kind = stage(told.stage);
    const reason = word(told.reason, 'REFUSAL_');
    // The event is about a branch that was never built.
    if (reason === 'unlikely') return note(lane, at, kind, 'branch behind it not built: too unlikely');
    note(lane, at, kind, REFUSALS[reason] ?? 'not made ahead of need');
    const last = open(lane, kind);
    if (last < 0) return undefined;
    // If there was never a place for it, then all that it did was to wait.
    const never = reason === 'no_place' || reason === 'no_core';
    lane.bars = replaced(lane.bars, last, { ...lane.bars[last], ...(never ? { end: 'waits' } : { to: at, end: 'aborted' }) });
    return never ? undefined : add(lane, bar(kind, at, 'waits'));
  },
  provider_changed: () => {},
};

const REFUSALS = {
  __proto__: null,
  denied: 'this tool may not be called ahead of need',
  no_place: 'waited for a place until nobody needed it',
  preempted: 'made room for a call that an answer needed',
  pushed_back: 'the backend asked for less',
  budget: 'the rest of the budget is kept for what the answer needs',
  no_core: 'waited for an idle core until nobody needed it',
};

const note = (lane, at, stage, text) => void (lane.notes = [...lane.notes, { at, stage, text }]);

function seen(told) {
  const { answer, found, evidence } = obj(told);
  return { answer: str(answer), found: found === true, evidence: list(evidence).map(obj) };
}

function verdict(told, at) {
  const { accepted, rule, coverage, jaccard } = obj(told);
  return { accepted: accepted === true, rule: str(rule), coverage: num(coverage), jaccard: num(jaccard), at };
}

const same = (one, other) => one.trim().split(/\s+/).join(' ') === other.trim().split(/\s+/).join(' ');

/// The aborted branch whose look-up this one takes over: the last one that asked the same words.
function orphan(lanes, lane) {
  const asks = (other) => other.id !== lane.id && other.bars.some((bar) => bar.stage === 'target');
  return lanes.findLast((other) => asks(other) && other.fate === 'rolled_back' && same(other.question, lane.question));
}

/// What some events do beyond their branch.
const AFTER = {
  observed: (view, at) => {
    const { salvaged, observed } = view.lanes[at];
    const from = salvaged && view.lanes.findIndex((lane) => lane.id === salvaged.lane);
    if (salvaged === null || from < 0) return view;
    const { bars } = view.lanes[from];
    const last = bars.findLastIndex((bar) => bar.stage === 'target');
    const whole = bars[last].end === 'done' ? bars[last].to : bars[last].from + observed.took;
    const kept = { ...bars[last], to: Math.min(Math.max(whole, bars[last].to), observed.at), end: 'kept' };
    return { ...view, lanes: replaced(view.lanes, from, { ...view.lanes[from], bars: replaced(bars, last, kept) }) };
  },
  drafted: (view, at) => {
    const { id, draft } = view.lanes[at];
    return { ...view, draft: { ...draft, lane: id } };
  },
  rolled_back: (view, at) => (view.draft && view.draft.lane === view.lanes[at].id ? { ...view, draft: null } : view),
  not_speculated: (view) => ({ ...view, refused: view.refused + 1 }),
  provider_changed: (view, _, told) => {
    const change = { from: str(told.from), to: str(told.to), why: str(told.why) };
    return { ...view, providers: [...view.providers, change] };
  },
  committed: (view, at, told, now) => {
    const lane = view.lanes[at];
    const hop = hopOf(told.hop, lane, now);
    const usage = told.usage ? obj(told.usage) : view.usage;
    return { ...view, usage, hops: [...view.hops, hop] };
  },
};

function hopOf(told, lane, at) {
  const hop = obj(told);
  const { answer: observed, ...more } = seen(hop.observation);
  return {
    lane: lane.id,
    at,
    question: str(hop.sub_question),
    answer: str(hop.sub_answer),
    kind: word(hop.kind, 'COMMIT_KIND_'),
    guess: typeof hop.guess === 'string' ? hop.guess : null,
    by: str(hop.guess_by),
    observed,
    ...more,
    verdict: lane.verdicts.find((verdict) => verdict.accepted) ?? lane.verdicts[0] ?? null,
    salvaged: lane.salvaged !== null,
    times: timesOf(lane),
  };
}

/// The stages of a hop, by the events: when each was launched and when it was done. A look-up that was taken over had
/// begun before.
function timesOf({ bars, observed }) {
  const wrote = bars.findLast((bar) => bar.stage === 'segment' && bar.end === 'done');
  return { segment: wrote ? wrote.to - wrote.from : 0, target: observed ? observed.took : 0 };
}

/// What is not about one branch.
const WHOLE = {
  tuned: (view, { k, reason, p, alpha, beta }) => {
    const tuned = { k: num(k), reason: str(reason), p: maybe(p), alpha: maybe(alpha), beta: maybe(beta) };
    return { ...view, tuned };
  },
  // Another model begins anew: nothing before it counts, unless it comes to nothing.
  handed_over: (view, _, at) => {
    const { draft, hops } = view;
    const over = ended(view.lanes, at);
    const lanes = over.map((lane) => ({ ...lane, fate: 'rolled_back' }));
    const before = over.map((lane, n) => (draft && lane.id === draft.lane ? view.lanes[n] : lane));
    return { ...view, lanes, hops: [], draft: null, handed: { lanes: before, hops, draft } };
  },
  answer: (view, told, at) => {
    if (view.handed && !told.handed_over) view = takenBack(view, at);
    const hops = list(told.hops).map((told, n) => {
      const seen = view.hops[n];
      const lane = view.lanes.findLast((lane) => seen && lane.id === seen.lane);
      const hop = hopOf(told, lane ?? begin(view, {}, at), seen ? seen.at : at);
      const times = obj(obj(told).times);
      return {
        ...hop,
        verdict: obj(told).verdict ? verdict(told.verdict, hop.at) : hop.verdict,
        salvaged: obj(told).salvaged === true,
        times: told?.times ? { segment: num(times.segment_ms), target: num(times.target_ms) } : hop.times,
      };
    });
    const last = view.draft && view.draft.lane;
    const wrote = (lane) => ({ ...lane, fate: 'answered', ended: at, hard: lane.hard ?? at });
    const lanes = ended(view.lanes.map((lane) => (lane.id === last && lane.fate === 'open' ? wrote(lane) : lane)), at);
    const usage = told.usage ? obj(told.usage) : view.usage;
    return { ...view, phase: 'answered', answer: told, usage, hops, lanes };
  },
};

/// The model that began anew came to nothing: what was before it counts after all.
function takenBack(view, at) {
  const before = new Map(view.handed.lanes.map((lane) => [lane.id, lane]));
  const lanes = ended(view.lanes, at).map((lane) => before.get(lane.id) ?? { ...lane, fate: 'rolled_back' });
  return { ...view, lanes, hops: view.handed.hops, draft: view.handed.draft };
}

/// The same question at k = 1, by the times of its own stages, one after the other: {tiles, total, whole}.
/// A tile is {stage, hop, ms, open}; it is open if it stands on a guess that has not been compared yet.
/// Before the question is answered (`whole`), these are the committed hops and, up to `now`, the branches behind them.
/// There are none if another model, other plans, or work that was given up for the answer took a part of the time.
export function sequential(view, now = view.at) {
  const tiles = [];
  const whole = view.phase === 'answered';
  const { handed, answer } = view;
  const isCut = word(answer?.stop_reason, 'STOP_REASON_') === 'budget';
  if (handed || answer?.handed_over || num(answer?.plans) > 1 || isCut) return { tiles, whole, total: 0 };
  const add = (stage, hop, ms, open) => void tiles.push({ stage, hop, ms, open });
  view.hops.forEach(({ times }, n) => {
    add('segment', n + 1, times.segment, false);
    add('target', n + 1, times.target, false);
  });
  if (whole) add('segment', 0, num(answer.final_segment_ms), false);
  else ahead(view).forEach((lane, n) => {
    const hop = view.hops.length + n + 1;
    const open = lane.hard === null;
    for (const stage of ['segment', 'target']) {
      const ms = spent(lane, stage, now);
      if (ms > 0) add(stage, hop, ms, open);
    }
  });
  return { tiles, whole, total: tiles.reduce((sum, tile) => sum + tile.ms, 0) };
}

/// The branches behind the last committed hop, one for each hop. Of several it is one that is needed, then one that
/// stands on the branch before, then the one to which something happened last.
function ahead({ lanes }) {
  const path = [];
  let before = lanes.findLast(({ fate }) => fate === 'committed') ?? null;
  const rank = (lane) => [lane.hard !== null, before !== null && lane.parent === before.id, lane.touched];
  for (;;) {
    const hop = before ? before.hop + 1 : lanes.reduce((least, lane) => Math.min(least, lane.hop), Infinity);
    const alive = lanes.filter((lane) => lane.fate === 'open' && lane.hop === hop);
    if (alive.length === 0) return path;
    before = alive.reduce((best, lane) => (later(rank(lane), rank(best)) ? lane : best));
    path.push(before);
  }
}

/// Whether the first number that differs is the greater one.
function later(one, other) {
  const at = one.findIndex((number, n) => number !== other[n]);
  return at >= 0 && one[at] > other[at];
}

/// How long a branch has been at a stage. What was looked up ahead of it counts, since k = 1 would not have.
function spent(lane, stage, now) {
  if (stage === 'target' && lane.observed) return lane.observed.took;
  const bar = lane.bars.findLast((bar) => bar.stage === stage && bar.end !== 'aborted' && bar.end !== 'failed');
  return bar && bar.end !== 'waits' ? Math.max((bar.to ?? now) - bar.from, 0) : 0;
}

const KINDS = new Set([...Object.keys(EVENTS), ...Object.keys(WHOLE)]);

function kindOf(event) {
  for (const name in event) {
    if (KINDS.has(name) && event[name] !== null && typeof event[name] === 'object') return name;
  }
  return undefined;
}

/// How long the question took, in ms; null before it is answered.
export const elapsed = (view) => (view.answer ? num(view.answer.elapsed_ms) : null);
