// The timeline as SVG: a row for each branch, and under the axis what was saved. Only rows in sight are drawn, and
// anew only if their branch, the time scale or their running bars have changed.

import { say, set, svg } from './dom.js';
import { apart, axis, GLYPHS, line, marks, pieces, s, STAGES, state, LOOKS } from './look.js';
import { elapsed, sequential } from './reduce.js';

const ROW = 46;
const TEXT = 13; // baseline
const BAR = { segment: [19, 14], target: [19, 14], speculation: [35, 6] };
const GUTTER = 30;
const PAD = 10;
const CHARACTER = 6.9; // about as wide as one is, in px
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}\u{20000}-\u{3ffff}]/u;
const SPACE = 2 * CHARACTER; // between two texts

/// About as wide as a text is, in px: a letter of East Asia is as wide as it is high.
const widthOf = (text) => [...text].reduce((sum, letter) => sum + (WIDE.test(letter) ? 12 : CHARACTER), 0);

/// Rows beyond what is in sight that are drawn, so that scrolling finds them.
const BEYOND = 4;

export class Timeline {
  #rows = new Map(); // {lane, node, bars} of the rows that are drawn, by their number
  #key = '';
  #seen = null;
  #label = '';
  #span = [0, 0];

  /// `moved` is called when other rows come into sight. The list of branches is that of one run.
  constructor(host, moved, isListed) {
    Object.assign(this, { host, isListed });
    this.grid = svg('g', { class: 'grid' });
    this.links = svg('path', { class: 'link' });
    this.dead = svg('path', { class: 'link dead' });
    this.lanes = svg('g');
    this.hooks = svg('g');
    this.cursor = svg('line', { class: 'cursor' });
    // The links lie below all bars, and the hooks above.
    this.root = svg('svg', { role: 'img' }, this.grid, this.cursor, this.links, this.dead, this.lanes, this.hooks);
    host.append(this.root);
    host.addEventListener('scroll', moved, { passive: true });
  }

  /// Draws a view at a time: the rows in sight, and of them those whose branch or scale is another one.
  draw(view, now, scale) {
    const { width } = scale;
    const { lanes } = view;
    const height = Math.max(lanes.length, 1) * ROW;
    const key = `${scale.key} ${lanes.length}`;
    const anew = !this.#key.startsWith(`${scale.key} `);
    if (key !== this.#key) {
      this.#key = key;
      set(this.root, { width, height, viewBox: `0 0 ${width} ${height}` });
      this.grid.replaceChildren(...ticks(scale).map(({ x }) => svg('line', { x1: x, x2: x, y1: 0, y2: height })));
      set(this.cursor, { y1: 0, y2: height });
    }
    const { scrollTop, clientHeight } = this.host;
    const first = Math.max(Math.floor(scrollTop / ROW) - BEYOND, 0);
    const end = Math.min(Math.ceil((scrollTop + clientHeight) / ROW) + BEYOND, lanes.length);
    for (const [n, { node }] of this.#rows) if (n < first || n >= end) node.remove(), this.#rows.delete(n);
    for (let n = first; n < end; n++) {
      const row = this.#rows.get(n);
      if (anew || row?.lane !== lanes[n]) this.#row(row, lanes[n], n, now, scale);
      else if (lanes[n].ended === null) this.#grow(row, n, now, scale);
    }
    if (anew || lanes !== this.#seen || first !== this.#span[0] || end !== this.#span[1]) this.#connect(lanes, first, end, scale);
    if (lanes !== this.#seen) this.#tell(lanes);
    this.#seen = lanes;
    this.#span = [first, end];
    const x = scale.x(now);
    set(this.cursor, { x1: x, x2: x });
  }

  #tell(lanes) {
    const count = (fate) => lanes.filter((lane) => lane.fate === fate).length;
    const label = `Timeline: ${lanes.length} branches, ${count('committed')} committed, ${count('rolled_back')} rolled back.${this.isListed ? ' The list of branches below says the same.' : ''}`;
    if (label !== this.#label) set(this.root, { 'aria-label': (this.#label = label) });
  }

  /// What leads from one branch to another, as far as it is in sight.
  #connect(lanes, first, end, scale) {
    const rows = new Map(lanes.map((lane, n) => [lane.id, n]));
    const inSight = (one, other) => Math.max(one, other) >= first && Math.min(one, other) < end;
    const paths = { links: '', dead: '' };
    const hooks = [];
    lanes.forEach((lane, n) => {
      const above = rows.get(lane.parent);
      if (above < n && inSight(above, n)) {
        paths[lane.fate === 'rolled_back' ? 'dead' : 'links'] += `M${scale.x(lane.began)} ${above * ROW + 41}V${n * ROW + BAR.segment[0]}`;
      }
      const from = lane.salvaged ? rows.get(lane.salvaged.lane) : undefined;
      if (from !== undefined && inSight(from, n)) hooks.push(hookOf(lanes[from], from, lane, n, scale));
    });
    for (const [layer, d] of Object.entries(paths)) set(this[layer], { d });
    this.hooks.replaceChildren(...hooks.filter(Boolean));
  }

  #row(row, lane, n, now, scale) {
    const node = svg('g', { class: `lane ${state(lane).replaceAll(' ', '-')}`, transform: `translate(0 ${n * ROW})` });
    const bars = pieces(lane, now).map((piece) => barOf(piece, scale));
    // It is alive, even if nothing of it runs.
    const life = svg('line', { class: 'life', x1: scale.x(lane.began), x2: scale.x(lane.ended ?? now), y1: 26, y2: 26 });
    node.append(
      svg('line', { class: 'rule', x1: 0, x2: scale.width, y1: ROW - 1, y2: ROW - 1 }),
      svg('text', { class: 'hop', x: 2, y: TEXT }, `${lane.hop} ${GLYPHS[state(lane)]}`),
      textOf(lane, scale),
      life,
      ...bars,
    );
    if (lane.fate === 'rolled_back' && lane.bars.length) {
      const [from, to] = [scale.x(lane.began), Math.max(scale.x(lane.ended), scale.x(lane.began) + 8)];
      node.append(svg('line', { class: 'strike', x1: from - 2, x2: to + 2, y1: 26, y2: 26 }));
    }
    node.append(...marksOf(lane, scale));
    if (row) row.node.replaceWith(node);
    else this.lanes.append(node);
    this.#rows.set(n, { lane, node, bars, life });
  }

  /// Only what runs has become longer, and the life of the branch; unless a piece has begun since, or, a step back, has
  /// not begun yet.
  #grow(row, n, now, scale) {
    const all = pieces(row.lane, now);
    if (all.length !== row.bars.length) return this.#row(row, row.lane, n, now, scale);
    set(row.life, { x2: scale.x(now) });
    all.forEach((piece, at) => {
      const bar = row.bars[at];
      if (piece.runs) {
        for (const rect of bar.children) if (rect.localName === 'rect') set(rect, { width: wide(piece, scale) });
        say(bar.firstChild, titleOf(piece));
      }
    });
  }
}

/// From ms to px, for an axis that reaches so far; `grows` if it will have to reach further.
export function scaleOf(reach, width, grows) {
  const { end, step } = axis(reach, width > 600 ? 8 : 4, grows);
  const room = width - GUTTER - PAD;
  return { x: (ms) => GUTTER + (Math.min(ms, end) / end) * room, end, step, width, key: `${end} ${width}` };
}

function ticks({ end, step, x }) {
  return [...Array(Math.floor(end / step) + 1).keys()].map((n) => ({ ms: n * step, x: x(n * step) }));
}

const wide = (piece, scale) => Math.max(scale.x(piece.to) - scale.x(piece.from), 2);

const titleOf = (piece) => `${STAGES[piece.stage]}, ${s(piece.to - piece.from)}: ${LOOKS[piece.look]}`;

function barOf(piece, scale) {
  const [y, height] = BAR[piece.early ? 'speculation' : piece.stage];
  const box = { x: scale.x(piece.from), y, height, width: wide(piece, scale), rx: 2 };
  const group = barIn(piece, box, svg('title', {}, titleOf(piece)));
  if (height > 10 && box.width > STAGES[piece.stage].length * CHARACTER + 8) {
    group.append(svg('text', { x: box.x + 5, y: y + 10.5 }, STAGES[piece.stage]));
  }
  return group;
}

/// Kind by colour, place and height; fate by border and filling.
export function barIn({ stage, look }, box, title) {
  const hatch = (look === 'open' || look === 'ahead') && svg('rect', { ...box, class: 'hatch', fill: `url(#hatch-${look})` });
  return svg('g', { class: `bar ${stage} ${look}` }, title, svg('rect', { ...box, class: 'fill' }), hatch);
}

function textOf(lane, scale) {
  const { x, texts } = placed(lane, scale);
  const all = line(lane).map(({ text, name }) => apart(text, name)).join('  ');
  const shown = texts.map(({ name, text }, n) => svg('tspan', { class: name, dx: n ? 8 : 0 }, text));
  return svg('text', { class: 'line', x, y: TEXT }, svg('title', {}, all), ...shown);
}

/// The line stands over its branch, moved to the left if it would not fit there: {x, texts}, as much of each as has room.
export function placed(lane, scale) {
  const room = scale.width - GUTTER - PAD;
  const parts = line(lane);
  let left = room;
  const texts = parts.map(({ name, text }, n) => {
    // What was asked leaves room for what was found.
    const later = parts.slice(n + 1).reduce((sum, { text }) => sum + Math.min(widthOf(text), room * 0.4) + SPACE, 0);
    const cut = short(text, Math.max(left - later, 6 * CHARACTER));
    left -= widthOf(cut) + SPACE;
    return { name, text: cut };
  });
  return { x: Math.max(Math.min(scale.x(lane.began), GUTTER + left), GUTTER), texts };
}

/// As much of a text as is so wide.
function short(text, most) {
  const letters = [...text.slice(0, 400)];
  if (widthOf(letters) <= most) return letters.join('');
  let left = most - CHARACTER;
  const end = letters.findIndex((letter) => (left -= widthOf(letter)) < 0);
  return `${letters.slice(0, end).join('')}…`;
}

function marksOf(lane, scale) {
  let taken = 0; // so far to the right is written already
  return marks(lane).filter(({ glyph }) => glyph).flatMap(({ at, name, glyph, label, text }) => {
    const y = name === 'ahead' || name === 'foreseen' ? 42 : name === 'promoted' || name === 'note' ? 43 : 31;
    const x = scale.x(at) + (text ? 9 : 0);
    const mark = svg('text', { class: `mark ${name}`, x, y }, svg('title', {}, label), glyph);
    if (!text) return [mark];
    // Beside the mark; if there is no room, below and to the left.
    const long = text.length * CHARACTER;
    const fits = x + long + 8 < scale.width && x > taken;
    taken = x + long;
    const place = fits ? { x: x + 8, y: 30 } : { x, y: 43, 'text-anchor': 'end' };
    return [mark, svg('text', { class: `score ${name}`, ...place }, text)];
  });
}

/// From the look-up that a branch took over.
function hookOf(left, from, lane, n, scale) {
  const kept = left.bars.findLast((bar) => bar.stage === 'target');
  if (!kept) return null;
  const x = scale.x(lane.salvaged.at);
  const start = Math.min(scale.x(kept.to ?? lane.salvaged.at), x);
  const [down, up] = n > from ? [8, n * ROW + 18] : [-8, n * ROW + 34];
  return svg('path', { class: 'hook', d: `M${start} ${from * ROW + 26 + down}H${x}V${up}`, 'marker-end': 'url(#tip)' });
}

/// The axis, and under it what the question would have taken at k = 1, what it takes, and the difference.
export class Saved {
  #key = '';

  constructor(host) {
    this.axis = svg('g', { class: 'axis' });
    this.tiles = svg('g');
    this.took = svg('rect', { class: 'took', y: 62, height: 8, rx: 2 });
    this.bracket = svg('path', { class: 'bracket' });
    this.gain = svg('text', { class: 'gain', y: 57 });
    this.one = svg('text', { class: 'label', x: GUTTER, y: 30 });
    this.now = svg('text', { class: 'label', x: GUTTER, y: 83 });
    const parts = [this.axis, this.one, this.tiles, this.bracket, this.gain, this.took, this.now];
    this.root = svg('svg', { 'aria-hidden': 'true', height: 88 }, ...parts);
    host.append(this.root);
  }

  draw(view, now, scale) {
    const { width } = scale;
    const { tiles, total, whole } = sequential(view, now);
    const took = elapsed(view) ?? now;
    if (this.#key !== scale.key) {
      this.#key = scale.key;
      set(this.root, { width, viewBox: `0 0 ${width} 88` });
      const labels = ticks(scale).map(({ ms, x }) => svg('text', { x, y: 11 }, `${Number((ms / 1000).toPrecision(6))} s`));
      labels.at(-1)?.classList.add('last');
      this.axis.replaceChildren(svg('line', { x1: GUTTER, x2: width - PAD, y1: 0.5, y2: 0.5 }), ...labels);
    }
    let at = 0;
    const ghost = tiles.map(({ stage, ms, open }) => {
      const from = scale.x(at);
      at += ms;
      const box = { x: from, y: 35, height: 8, width: Math.max(scale.x(at) - from - 1, 1) };
      const look = open ? ' guessed' : at > took + 1 ? ' beyond' : '';
      return svg('rect', { class: `tile ${stage}${look}`, ...box });
    });
    this.tiles.replaceChildren(...ghost);
    const none = tiles.length === 0;
    say(this.one, none ? '' : `one look-up after the other (k = 1): ${s(total)}${whole ? '' : tiles.some(({ open }) => open) ? ' so far, if the guesses are right' : ' so far'}`);
    say(this.now, view.phase === 'empty' ? '' : `${elapsed(view) === null ? 'so far' : 'took'} ${s(took)}`);
    set(this.took, { x: scale.x(0), width: Math.max(scale.x(took) - scale.x(0), 0) });
    // While it runs, the bracket shows how far the answer is already ahead of the standard agent.
    const shown = !none && total > took;
    const [from, to] = [scale.x(took), scale.x(total)];
    set(this.bracket, { d: shown ? `M${from} 60V47M${to} 60V47M${from} 53.5H${to}` : '' });
    say(this.gain, shown ? `${whole ? 'saved' : 'ahead by'} ${s(total - took)}` : '');
    const fits = to - from > 90;
    set(this.gain, fits ? { x: (from + to) / 2, 'text-anchor': 'middle' } : { x: from - 5, 'text-anchor': 'end' });
  }
}

/// The same in a sentence.
export function savedInWords(view) {
  const { tiles, total } = sequential(view);
  const took = elapsed(view);
  if (took === null || !tiles.length) return '';
  const saved = total - took;
  if (Math.abs(saved) < total / 100) return `It took ${s(took)}, as long as its stages one after the other (k = 1).`;
  const share = total > 0 ? ` (${Math.abs(Math.round((saved / total) * 100))} %)` : '';
  const first = `At k = 1 this question would have taken ${s(total)}, by the times of its own stages. It took ${s(took)}. `;
  const last = saved >= 0 ? `Saved: ${s(saved)}${share}.` : `Nothing was saved: it took ${s(-saved)} longer${share}.`;
  return first + last + (view.answer.injected_latency ? ' The server adds latency to each look-up on purpose.' : '');
}
