// The timeline as SVG: a row for each branch, and under the axis what was saved. Rows are drawn anew only if their
// branch, the time scale or their running bars have changed.

import { say, set, svg } from './dom.js';
import { axis, GLYPHS, line, marks, pieces, s, STAGES, state, LOOKS } from './look.js';
import { elapsed, sequential } from './reduce.js';

const ROW = 46;
const TEXT = 13; // baseline
const BAR = { segment: [19, 14], target: [19, 14], speculation: [35, 6] };
const GUTTER = 30;
const PAD = 10;
const CHARACTER = 6.9; // about as wide as one is, in px

export class Timeline {
  #rows = [];
  #key = '';
  #seen = [];

  constructor(host) {
    this.host = host;
    this.grid = svg('g', { class: 'grid' });
    this.links = svg('g');
    this.lanes = svg('g');
    this.hooks = svg('g');
    this.cursor = svg('line', { class: 'cursor' });
    this.root = svg('svg', { role: 'img' }, this.grid, this.cursor, this.links, this.lanes, this.hooks);
    host.append(this.root);
  }

  /// Draws a view at a time.
  draw(view, now, scale) {
    const { width } = scale;
    const key = `${scale.key} ${view.lanes.length}`;
    const anew = key !== this.#key;
    const height = Math.max(view.lanes.length, 1) * ROW;
    if (anew) {
      this.#key = key;
      set(this.root, { width, height, viewBox: `0 0 ${width} ${height}` });
      this.grid.replaceChildren(...ticks(scale).map(({ x }) => svg('line', { x1: x, x2: x, y1: 0, y2: height })));
    }
    const news = view.lanes !== this.#seen || anew;
    if (news) this.#drawAll(view, now, scale, anew);
    else view.lanes.forEach((lane, n) => runs(lane) && this.#grow(lane, n, now, scale));
    const x = scale.x(now);
    set(this.cursor, { x1: x, x2: x, y1: 0, y2: height });
  }

  #drawAll(view, now, scale, anew) {
    const before = this.#seen;
    this.#seen = view.lanes;
    view.lanes.forEach((lane, n) => {
      if (!anew && lane === before[n]) return runs(lane) && this.#grow(lane, n, now, scale);
      const row = this.#row(this.#rows[n], lane, n, now, scale);
      // The links lie below all bars, and the hooks above.
      for (const [layer, make] of [['links', linkOf], ['hooks', hookOf]]) {
        row[layer]?.remove();
        row[layer] = make(view.lanes, lane, n, scale);
        if (row[layer]) this[layer].append(row[layer]);
      }
    });
    for (const { node, links, hooks } of this.#rows.splice(view.lanes.length)) node.remove(), links?.remove(), hooks?.remove();
    const count = (fate) => view.lanes.filter((lane) => state(lane) === fate).length;
    const many = view.lanes.length;
    const label = `Timeline: ${many} branches, ${count('committed')} committed, ${count('rolled back')} rolled back. The list of branches below says the same.`;
    set(this.root, { 'aria-label': label });
  }

  #row(row, lane, n, now, scale) {
    const node = svg('g', { class: `lane ${state(lane).replaceAll(' ', '-')}`, transform: `translate(0 ${n * ROW})` });
    const bars = pieces(lane, now).map((piece) => barOf(piece, scale));
    node.append(
      svg('line', { class: 'rule', x1: 0, x2: scale.width, y1: ROW - 1, y2: ROW - 1 }),
      svg('text', { class: 'hop', x: 2, y: TEXT }, `${lane.hop} ${GLYPHS[state(lane)]}`),
      textOf(lane, scale),
      // It is alive, even if nothing of it runs.
      svg('line', { class: 'life', x1: scale.x(lane.began), x2: scale.x(lane.ended ?? now), y1: 26, y2: 26 }),
      ...bars,
    );
    if (lane.fate === 'rolled_back' && lane.bars.length) {
      const [from, to] = [scale.x(lane.began), Math.max(scale.x(lane.ended), scale.x(lane.began) + 8)];
      node.append(svg('line', { class: 'strike', x1: from - 2, x2: to + 2, y1: 26, y2: 26 }));
    }
    node.append(...marksOf(lane, scale));
    if (row) row.node.replaceWith(node);
    else this.lanes.append(node);
    this.#rows[n] = { ...row, node, bars };
    return this.#rows[n];
  }

  /// Only what runs has become longer.
  #grow(lane, n, now, scale) {
    pieces(lane, now).forEach((piece, at) => {
      const bar = this.#rows[n].bars[at];
      if (!bar) this.#row(this.#rows[n], lane, n, now, scale);
      else if (piece.runs) for (const rect of bar.children) if (rect.localName === 'rect') set(rect, { width: wide(piece, scale) });
    });
  }
}

const runs = (lane) => lane.bars.some((bar) => bar.to === null);

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

/// Kind by colour, place and height; fate by border and filling.
function barOf(piece, scale) {
  const [y, height] = BAR[piece.early ? 'speculation' : piece.stage];
  const box = { x: scale.x(piece.from), y, height, width: wide(piece, scale), rx: 2 };
  const group = svg('g', { class: `bar ${piece.stage} ${piece.look}` });
  group.append(svg('title', {}, `${STAGES[piece.stage]}, ${s(piece.to - piece.from)}: ${LOOKS[piece.look]}`));
  group.append(svg('rect', { ...box, class: 'fill' }));
  if (piece.look === 'open' || piece.look === 'ahead') {
    group.append(svg('rect', { ...box, class: 'hatch', fill: `url(#hatch-${piece.look})` }));
  }
  if (height > 10 && box.width > STAGES[piece.stage].length * CHARACTER + 8) {
    group.append(svg('text', { x: box.x + 5, y: y + 10.5 }, STAGES[piece.stage]));
  }
  return group;
}

/// The line stands over its branch, moved to the left if it would not fit there.
function textOf(lane, scale) {
  const room = scale.width - GUTTER - PAD;
  const most = Math.floor(room / CHARACTER);
  const parts = line(lane);
  const all = parts.map(({ text }) => text).join('  ');
  const shown = [];
  let left = most;
  parts.forEach(({ name, text }, n) => {
    // What was asked leaves room for what was found.
    const later = parts.slice(n + 1).reduce((sum, { text }) => sum + Math.min(text.length, most * 0.4) + 2, 0);
    const cut = short(text, Math.max(Math.floor(left - later), 6));
    left -= cut.length + 2;
    shown.push(svg('tspan', { class: name, dx: n ? 8 : 0 }, cut));
  });
  const long = shown.reduce((sum, part) => sum + part.textContent.length + 2, 0) * CHARACTER;
  const x = Math.max(Math.min(scale.x(lane.began), scale.width - PAD - long), GUTTER);
  return svg('text', { class: 'line', x, y: TEXT }, svg('title', {}, all), ...shown);
}

function short(text, most) {
  const letters = [...text.slice(0, 400)];
  return letters.length <= most ? letters.join('') : `${letters.slice(0, most - 1).join('')}…`;
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

/// From the guess that a branch stands on.
function linkOf(lanes, lane, n, scale) {
  const above = lanes.findIndex((other) => other.id === lane.parent);
  if (above < 0 || above >= n) return null;
  const dead = lane.fate === 'rolled_back' ? ' dead' : '';
  return svg('path', { class: `link${dead}`, d: `M${scale.x(lane.began)} ${above * ROW + 41}V${n * ROW + BAR.segment[0]}` });
}

/// From the look-up that a branch took over.
function hookOf(lanes, lane, n, scale) {
  const from = lane.salvaged ? lanes.findIndex((other) => other.id === lane.salvaged.lane) : -1;
  const kept = from >= 0 && lanes[from].bars.findLast((bar) => bar.stage === 'target');
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
    const { tiles, total, whole } = sequential(view);
    const took = elapsed(view) ?? now;
    if (this.#key !== scale.key) {
      this.#key = scale.key;
      set(this.root, { width, viewBox: `0 0 ${width} 88` });
      const labels = ticks(scale).map(({ ms, x }) => svg('text', { x, y: 11 }, `${ms / 1000} s`));
      labels.at(-1)?.classList.add('last');
      this.axis.replaceChildren(svg('line', { x1: GUTTER, x2: width - PAD, y1: 0.5, y2: 0.5 }), ...labels);
    }
    let at = 0;
    const ghost = tiles.map(({ stage, ms }) => {
      const from = scale.x(at);
      at += ms;
      const box = { x: from, y: 35, height: 8, width: Math.max(scale.x(at) - from - 1, 1) };
      return svg('rect', { class: `tile ${stage}${at > took + 1 ? ' beyond' : ''}`, ...box });
    });
    this.tiles.replaceChildren(...ghost);
    const none = tiles.length === 0;
    say(this.one, none ? '' : `one look-up after the other (k = 1): ${s(total)}${whole ? '' : ' for these hops'}`);
    say(this.now, view.phase === 'empty' ? '' : `${elapsed(view) === null ? 'so far' : 'took'} ${s(took)}`);
    set(this.took, { x: scale.x(0), width: Math.max(scale.x(took) - scale.x(0), 0) });
    // While it runs, the bracket shows how far the answer is already ahead of the slow agent.
    const shown = !none && total > took;
    const [from, to] = [scale.x(took), scale.x(total)];
    set(this.bracket, { d: shown ? `M${from} 60V47M${to} 60V47M${from} 53.5H${to}` : '' });
    say(this.gain, shown ? `${whole ? 'saved' : 'ahead by'} ${s(total - took)}` : '');
    const fits = to - from > 90;
    const spot = fits ? { x: (from + to) / 2, 'text-anchor': 'middle' } : { x: from - 5, 'text-anchor': 'end' };
    set(this.gain, { ...spot, class: fits ? 'gain fits' : 'gain' });
  }
}

/// The same in a sentence.
export function savedInWords(view) {
  const { total } = sequential(view);
  const took = elapsed(view);
  if (took === null) return '';
  const saved = total - took;
  if (Math.abs(saved) < total / 100) return `It took ${s(took)}, as long as its stages one after the other (k = 1).`;
  const share = total > 0 ? ` (${Math.abs(Math.round((saved / total) * 100))} %)` : '';
  const first = `At k = 1 this question would have taken ${s(total)}, by the times of its own stages. It took ${s(took)}. `;
  const last = saved >= 0 ? `Saved: ${s(saved)}${share}.` : `Nothing was saved: it took ${s(-saved)} longer${share}.`;
  return first + last + (view.answer.injected_latency ? ' The server adds latency to each look-up on purpose.' : '');
}
