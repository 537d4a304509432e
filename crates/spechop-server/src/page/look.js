// How a branch looks: its bars cut into pieces, its marks and its line of text. Pure; times in ms, no pixels.

/// What a piece can look like, and what that means. The key under the timeline is made of this.
export const LOOKS = {
  sure: 'the answer needs it',
  ahead: 'done ahead of need, and needed',
  open: 'may be thrown away',
  dead: 'thrown away',
  kept: 'thrown away, then taken over',
  waits: 'waits for a turn',
};

export const STAGES = { segment: 'writes', target: 'looks up', speculation: 'guesses' };

/// Who a note is about: drafts have no bar.
const NOTED = { __proto__: null, ...STAGES, draft: 'drafts' };

/// The pieces of a lane: {stage, look, from, to, runs}. A bar that lasts ends now.
export function pieces(lane, now) {
  // What was looked up before it was asked runs beside the writing.
  const split = (piece) => {
    const at = lane.foreseen ? lane.foreseen.at : 0;
    if (piece.stage !== 'target' || piece.from >= at) return [piece];
    const early = { ...piece, to: Math.min(piece.to, at), early: true, runs: false };
    return piece.to > at ? [early, { ...piece, from: at }] : [early];
  };
  return bars(lane, now).flatMap(split);
}

function bars(lane, now) {
  return lane.bars.flatMap((bar) => {
    const runs = bar.to === null;
    const to = Math.max(bar.to ?? now, bar.from);
    const piece = (look, from, until) => ({ stage: bar.stage, look, from, to: until, runs: runs && until === to });
    const only = look(lane, bar);
    if (only) return [piece(only, bar.from, to)];
    // It turns solid at the moment at which the answer began to need it.
    const turn = Math.min(Math.max(lane.hard, bar.from), to);
    const cut = [piece('ahead', bar.from, turn), piece('sure', turn, to)];
    return cut.filter((piece) => piece.to > piece.from || (piece.look === 'sure' && turn === bar.from));
  });
}

/// The one look of a whole bar, or null if it turned from one to another.
function look(lane, bar) {
  if (bar.end === 'waits' || bar.end === 'kept') return bar.end;
  if (lane.fate === 'rolled_back' || bar.end === 'aborted' || bar.end === 'failed') return 'dead';
  if (bar.stage === 'speculation') return guessLook(lane);
  return lane.hard === null ? 'open' : null;
}

/// A guess is never sure before it has been compared.
function guessLook(lane) {
  if (lane.verdicts.some((verdict) => verdict.accepted)) return 'sure';
  const useless = lane.verdicts.length > 0 || lane.observed || (lane.guess && lane.guess.text === null);
  return useless || lane.fate !== 'open' ? 'dead' : 'open';
}

/// The marks of a lane: {at, name, glyph, label, text}.
export function marks(lane) {
  const all = [];
  const mark = (at, name, glyph, label, text = '') => all.push({ at, name, glyph, label, text });
  for (const ahead of lane.ahead) mark(ahead.at, 'ahead', '◇', `looked up before it was asked: ${ahead.question}`);
  if (lane.foreseen) mark(lane.foreseen.at, 'foreseen', '◆', `asked what was already being looked up for ${s(lane.foreseen.saved)}`);
  if (lane.salvaged) mark(lane.salvaged.at, 'salvaged', '', `took over a look-up that had run for ${s(lane.salvaged.saved)}`);
  if (lane.promoted !== null) mark(lane.promoted, 'promoted', '▲', 'the guess before it was accepted: needed from here on');
  for (const { at, accepted, rule, ...both } of lane.verdicts) {
    const [coverage, jaccard] = [both.coverage.toFixed(2), both.jaccard.toFixed(2)];
    const scores = `${rule} ${coverage} / ${jaccard}`;
    const how = `rule ${rule}, coverage ${coverage}, Jaccard ${jaccard}`;
    const told = all.some((mark) => mark.at === at && mark.text === scores) ? '' : scores;
    const [name, glyph] = accepted ? ['accepted', '✓'] : ['rejected', '✗'];
    mark(at, name, glyph, `guess ${name}: ${how}`, told);
  }
  for (const { at, stage, text } of lane.notes) mark(at, 'note', '!', stage in NOTED ? `${NOTED[stage]}: ${text}` : text);
  return all;
}

/// The line of a lane: what it asks, what was guessed, what was found.
export function line(lane) {
  const texts = [];
  const add = (name, text) => texts.push({ name, text });
  if (lane.question) add('asked', lane.question);
  const { guess, observed, draft } = lane;
  const wrong = guess && guess.text !== null && lane.verdicts.length > 0 && lane.verdicts.every(({ accepted }) => !accepted);
  if (wrong) add('wrong', `≈ ${guess.text}`);
  if (observed) add('found', `→ ${observed.found ? observed.answer : 'nothing found'}`);
  else if (guess) add('guessed', guess.text === null ? 'no guess' : `≈ ${guess.text}`);
  if (draft) add('found', `⇒ ${draft.answer}`);
  if (texts.length === 0) add('asked', lane.fate === 'open' ? 'writing…' : 'not written');
  return texts;
}

const FATES = { committed: 'committed', rolled_back: 'rolled back', answered: 'wrote the answer', stopped: 'stopped' };

/// In a word, where a branch is.
export const state = ({ fate, hard }) => FATES[fate] ?? (hard === null ? 'provisional' : 'needed');

export const GLYPHS = { committed: '✓', 'rolled back': '✗', 'wrote the answer': '★', stopped: '–', provisional: '?', needed: '•' };

/// A span of time for people.
export function s(ms) {
  const seconds = ms / 1000;
  return seconds >= 9.95 ? `${seconds.toFixed(1)} s` : seconds >= 0.095 || ms === 0 ? `${seconds.toFixed(2)} s` : `${ms.toFixed(ms < 1 ? 2 : 0)} ms`;
}

/// A text beside others, each of which is read in its own direction. A question begins with its own words, all else
/// with a sign or with ours.
export const apart = (text, name) => `${name === 'asked' ? '\u2068' : '\u2066'}${text}\u2069`;

/// A branch in words, for whoever does not see the timeline.
export function words(lane) {
  const told = [`Hop ${lane.hop}`, state(lane)];
  if (lane.parent !== null) told.push(`behind branch ${lane.parent}`);
  told.push(`from ${s(lane.began)}${lane.ended === null ? '' : ` to ${s(lane.ended)}`}`);
  for (const { text, name } of line(lane)) told.push(apart(text, name));
  for (const { label, at } of marks(lane)) told.push(apart(`${s(at)}: ${label}`));
  return told.join(' · ');
}

/// The upper end of an axis for so many ms, and the distance of its ticks. While a run goes on, the axis grows in
/// steps, so that the run is not drawn anew for each frame.
export function axis(ms, ticks, grows) {
  const size = 10 ** Math.floor(Math.log10(Math.max(ms, 1) / ticks));
  const step = size * [1, 2, 5, 10].find((n) => n * size * ticks >= ms);
  return { end: grows ? Math.ceil(ms / step + 0.25) * step : Math.max(ms * 1.01, 1), step };
}
