// The page: a form that asks, and views of the runs. Everything that is shown is made of a run's events.

import { el, say, svg } from './dom.js';
import { barIn, Saved, savedInWords, scaleOf, Timeline } from './draw.js';
import { LOOKS, s, STAGES } from './look.js';
import * as panels from './panels.js';
import { Run } from './run.js';
import { ask, Refused, shared, tell } from './stream.js';
import { lines, parse, trace } from './trace.js';

/// Most bytes of a recording.
const FILE_MAX = 64 << 20;
const AWAY = 'the server cannot be reached: is it running?';
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const clock = () => performance.now();

/// Names a question, so that it can be cancelled before the server has said a word. Nobody can guess the name.
function newName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `p-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/// The key lives as long as the tab, and stands in no address. A browser may refuse to keep anything.
function kept(key) {
  try {
    if (key) sessionStorage.setItem('key', key);
    else if (key === '') sessionStorage.removeItem('key');
    return sessionStorage.getItem('key') ?? '';
  } catch {
    return '';
  }
}

/// The server keeps a question that is over for a time.
function gone(error) {
  if (error.status === 404) error.message = 'the server no longer keeps this question (server.kept_ms)';
  throw error;
}

class Page extends HTMLElement {
  #runs = []; // the first one is what the panels tell; another is drawn below it, aligned
  #drawn = []; // {box, timeline, saved, words, wrong} of each run
  #asking = null; // {abort, id, begun, key} while a question is open
  #request = null;
  #playing = false;
  #frame = 0;
  #later = 0;
  #before = 0;

  connectedCallback() {
    this.at = Object.fromEntries([...this.querySelectorAll('[id]')].map((node) => [node.id, node]));
    const { at } = this;
    const on = (id, event, act) => at[id].addEventListener(event, act);
    on('ask', 'submit', (event) => {
      event.preventDefault();
      this.#ask(this.#read(), true);
    });
    on('again', 'click', () => this.#ask({ ...this.#request, options: { ...this.#request.options, k: 1, auto: undefined, unbounded: undefined, fresh: true } }, false));
    for (const what of ['finish', 'cancel']) on(what, 'click', () => this.#tell(what));
    on('what_if', 'click', () => this.#whatIf());
    on('share', 'click', () => this.#share());
    on('open', 'change', () => this.#open([...at.open.files].slice(0, 2)));
    on('events', 'click', () => save('spechop-events.jsonl', lines(this.#runs[0].events)));
    on('trace', 'click', () => save('spechop-trace.json', JSON.stringify(trace(this.#runs[0].last))));
    on('play', 'click', () => this.#play());
    on('back', 'click', () => this.#step(-1));
    on('on', 'click', () => this.#step(1));
    on('words', 'toggle', () => this.#draw());
    // A browser cannot point to a wrong field that is not to be seen.
    at.more.addEventListener('invalid', () => (at.more.open = true), true);
    // Its right end is where a live run is followed.
    on('time', 'input', () => this.#seek(Number(at.time.value) >= Number(at.time.max) ? Infinity : Number(at.time.value)));
    this.addEventListener('click', follow);
    // A page that is gone for good cannot come back to its question.
    addEventListener('pagehide', (event) => event.persisted || this.#drop());
    document.addEventListener('keydown', (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(at.timelines);
    this.querySelector('.key').append(...meanings());
    at.key.value = kept();
    // Firefox enables them again after a reload.
    this.#buttons();
    if (document.body.classList.contains('shared')) this.#try(async () => this.#replay([Run.of('', parse(await shared()))]));
  }

  #read() {
    const { at } = this;
    const options = {};
    const request = { question: at.question.value, options };
    const { value: k } = at.k;
    if (k === 'auto') options.auto = {};
    else if (k === 'inf') options.unbounded = {};
    else if (k) options.k = Number(k);
    if (at.speculator.value) options.speculator = at.speculator.value;
    if (at.verifier.value) options.verifier = `VERIFIER_MODE_${at.verifier.value}`;
    const budget = {};
    for (const [field, unit] of Object.entries({ time_ms: 1000, target_calls: 1, tokens: 1, money_micros: 1e6 })) {
      const { value } = at[field];
      if (value) budget[field] = Math.round(Number(value) * unit);
    }
    if (Object.keys(budget).length) request.budget = budget;
    return request;
  }

  /// Ends a question. If it waits for a place, it goes with its request; else the server would wait for a page that comes
  /// back.
  #drop(asking = this.#asking) {
    if (!asking) return;
    asking.abort.abort();
    tell(asking.id, 'cancel', asking.key).catch(() => {});
  }

  async #ask(request, first) {
    this.#drop();
    const id = newName();
    const asking = { abort: new AbortController(), id, begun: false, key: this.at.key.value };
    const run = new Run(first ? '' : 'the same question, run again at k = 1', true);
    this.#asking = asking;
    this.#request = request;
    this.#show(first ? [run] : [this.#runs[0], run]);
    const { signal } = asking.abort;
    const on = {
      begun: () => ((asking.begun = true), (run.id = id), kept(asking.key), this.#buttons()),
      event: (event) => {
        run.push(event, clock());
        this.#draw();
        // It is longer than can be shown.
        if (this.#asking === asking && !run.live && !event.answer && !event.error) this.#drop();
      },
    };
    try {
      await ask({ ...request, question_id: id }, { key: asking.key, signal, on });
    } catch (error) {
      const message = signal.aborted ? 'it was cancelled' : error instanceof Refused ? error.message : AWAY;
      if (error.status === 401) this.#lockedOut();
      // The server may have heard the question all the same.
      if (!(signal.aborted || error instanceof Refused)) this.#drop(asking);
      run.push({ error: { code: error.code, message, fields: error.fields, retry_after_ms: error.retryAfter } }, clock());
    }
    if (this.#asking === asking) this.#asking = null;
    this.#draw();
  }

  #tell(what) {
    const asking = this.#asking;
    this.#try(async () => {
      try {
        await tell(asking.id, what, asking.key);
      } catch (error) {
        const isRefused = error instanceof Refused && error.status !== 404;
        if (what !== 'cancel' || isRefused) throw error;
        // The question has no place yet, or the server is out of reach.
        this.#drop(asking);
      }
    });
  }

  /// There is no such key: it is forgotten, and asked for.
  #lockedOut() {
    const { at } = this;
    kept('');
    at.more.open = true;
    at.key.focus();
    at.key.select();
  }

  /// The same question by another k, simulated over its own stage times.
  #whatIf() {
    const { value } = this.at.if_k;
    const k = value === 'inf' ? { unbounded: {} } : { k: Number(value) };
    const body = { ...k, plan_ahead: this.at.if_ahead.checked };
    const [first] = this.#runs;
    this.#try(async (still) => {
      const { events, plan_ahead, filled_in } = await tell(first.id, 'what-if', this.at.key.value, body).catch(gone);
      if (!still()) return;
      const ahead = plan_ahead ? ', planning ahead' : '';
      const lacks = filled_in ? `; ${Math.round(filled_in * 100)} % of its guesses are those of other questions` : '';
      const title = `simulated over the same stage times: k = ${k.k ?? '∞'}${ahead}${lacks}`;
      this.#replay([first, Run.of(title, events)]);
    });
  }

  #share() {
    const [run] = this.#runs;
    const { id } = run;
    const { shared } = this.at;
    const key = this.at.key.value;
    this.#try(async () => {
      const { path, expires_s } = await tell(id, 'share', key).catch(gone);
      if (run !== this.#runs[0]) return;
      const href = new URL(path.slice(1), location.href).href;
      const end = () => this.#try(async () => (await tell(id, 'share', key, undefined, 'DELETE'), (shared.hidden = true)));
      const time = expires_s < 120 ? `${expires_s} s` : `${Math.floor(expires_s / 60)} min`;
      const words = [` shows this run to whoever has the link, for ${time}. `, el('button', { onclick: end }, 'End it now')];
      shared.replaceChildren(el('a', { href, class: 't' }, href), ...words);
      shared.hidden = false;
    });
  }

  async #open(files) {
    await this.#try(async (still) => {
      const runs = [];
      for (const file of files) {
        if (file.size > FILE_MAX) throw new Error(`${file.name} is larger than ${FILE_MAX >> 20} MB`);
        runs.push(Run.of(file.name, parse(await file.text())));
      }
      if (!runs.length || !still()) return;
      this.#drop();
      this.#replay(runs);
    });
    this.at.open.value = '';
  }

  /// Shows runs that are over, from their end.
  #replay(runs) {
    if (runs[0] !== this.#runs[0]) this.#request = null;
    this.#show(runs);
    this.#seek(Infinity);
  }

  /// If it fails, that is told. What comes of it (`still`) and what is told are of use as long as the same runs are shown.
  async #try(act) {
    const shown = this.#runs;
    const still = () => shown === this.#runs;
    try {
      this.#notice('');
      await act(still);
    } catch (error) {
      if (!still()) return;
      if (error.status === 401) this.#lockedOut();
      this.#notice(error instanceof TypeError ? AWAY : error.message);
    }
  }

  #notice(text) {
    say(this.at.notice, text);
    this.at.notice.hidden = !text;
  }

  #show(runs) {
    // Its link is of use as long as the run is shown, whatever is drawn below.
    if (runs[0] !== this.#runs[0]) this.at.shared.hidden = true;
    this.#runs = runs;
    this.#playing = false;
    if (runs.some((run) => run.live)) for (const run of runs) run.position = null;
    this.#drawn = runs.map((run, n) => {
      const [lanes, saved] = [el('div', { class: 'lanes', tabindex: 0, role: 'group', 'aria-label': 'Branches' }), el('div')];
      const [words, wrong] = [el('p', { class: 'quiet words' }), el('div')];
      const box = el('section', { class: 'run' }, run.title && el('h2', {}, run.title), lanes, saved, words, wrong);
      return { box, words, wrong, timeline: new Timeline(lanes, () => this.#draw(), !n), saved: new Saved(saved) };
    });
    this.at.timelines.replaceChildren(...this.#drawn.map(({ box }) => box));
    this.at.runs.hidden = this.at.rest.hidden = false;
    this.#notice('');
    this.#draw();
  }

  /// At most once for each frame.
  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paint() {
    const time = clock();
    const runs = this.#runs;
    if (runs.length === 0) return;
    const { at } = this;
    // What was refused at once has nothing to draw. What went wrong with the second run stands below its bars.
    at.rest.hidden = runs.every((run) => !run.live && !run.last.lanes.length);
    at.runs.hidden = at.rest.hidden && !runs.slice(1).some(({ last }) => last.error || last.gap);
    const end = this.#end(time);
    if (this.#playing) {
      const position = runs[0].position + time - this.#before;
      if (position >= end) this.#playing = false;
      for (const run of runs) run.position = Math.min(position, end);
    }
    this.#before = time;
    const width = Math.max(at.timelines.clientWidth, 200);
    const scale = scaleOf(Math.max(...runs.map((run) => run.reach(time))), width, runs.some((run) => run.live));
    const [view, ...below] = runs.map((run, n) => {
      const [view, now] = [run.view(time), run.now(time)];
      const { timeline, saved, words, wrong } = this.#drawn[n];
      timeline.draw(view, now, scale);
      saved.draw(view, now, scale);
      say(words, savedInWords(view));
      // That of the first one stands in place of its answer.
      if (n) panels.wrong(wrong, view);
      return view;
    });
    for (const name of ['answer', 'hops', 'passages', 'meters']) panels[name](at[name], view);
    if (at.words.open) panels.branches(at.branches, view);
    panels.announce(at.spoken, view, below);
    const now = this.#now(time);
    at.time.max = Math.ceil(end);
    at.time.value = now;
    at.time.setAttribute('aria-valuetext', `${s(now)} of ${s(end)}`);
    say(at.clock, `${s(now)} / ${s(end)}`);
    say(at.play, this.#playing ? 'Pause' : 'Play');
    this.#buttons();
    if (this.#playing || runs.some((run) => run.live && run.position === null)) {
      if (!calm.matches) this.#draw();
      else {
        this.#later ||= setTimeout(() => {
          this.#later = 0;
          this.#draw();
        }, 500);
      }
    }
  }

  #buttons() {
    const { at } = this;
    const open = this.#asking !== null;
    at.finish.disabled = !(open && this.#asking.begun);
    at.cancel.disabled = !open;
    at.other.hidden = open || this.#request === null;
    const [first] = this.#runs;
    const { phase, error } = first?.last ?? {};
    at.what_if.disabled = phase !== 'answered';
    // What was cancelled may be forgotten; what the page itself gives up has no code.
    at.share.disabled = !(first?.id && (phase === 'answered' || (error?.code && error.code !== 'CANCELLED')));
    at.events.disabled = at.trace.disabled = !first?.events.length;
  }

  /// Where the longest run ends.
  #end(time) {
    return Math.max(...this.#runs.map((run) => run.end(time)));
  }

  /// What is shown; a run that is shorter stands at its end.
  #now(time) {
    return Math.max(...this.#runs.map((run) => run.now(time)));
  }

  #seek(ms) {
    this.#playing = false;
    const time = clock();
    const end = this.#end(time);
    for (const run of this.#runs) {
      // The end of a live run is where it is now, and later where it will be then.
      run.position = run.live && ms >= run.end(time) ? null : Math.min(ms, end);
    }
    this.#draw();
  }

  #step(direction) {
    const [first] = this.#runs;
    if (!first) return;
    const time = clock();
    const now = this.#now(time);
    const moments = (direction) => this.#runs.map((run) => run.moment(direction, now));
    // Behind its end those of a longer one.
    if (direction < 0 && now > first.now(time)) return this.#seek(Math.max(...moments(-1)));
    const to = first.moment(direction, first.now(time));
    this.#seek(to < Infinity ? to : Math.min(...moments(1)));
  }

  #play() {
    if (!this.#runs.length) return;
    const time = clock();
    const now = this.#now(time);
    this.#playing = !this.#playing;
    for (const run of this.#runs) run.position = this.#playing && now >= this.#end(time) ? 0 : now;
    this.#before = time;
    this.#draw();
  }

  #key(event) {
    const { target, key } = event;
    const slider = target === this.at.time;
    const typing = !slider && target.closest?.('input, select, textarea, button, summary, a');
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !this.#runs.length) return;
    const acts = {
      ' ': () => this.#play(),
      ArrowLeft: () => this.#step(-1),
      ArrowRight: () => this.#step(1),
      Home: () => this.#seek(0),
      End: () => this.#seek(Infinity),
    };
    if (!Object.hasOwn(acts, key)) return;
    event.preventDefault();
    acts[key]();
  }
}

/// Opens the passage that a citation names.
function follow(event) {
  const link = event.target.closest?.('a.ref');
  const passage = link && document.getElementById(link.hash.slice(1));
  if (!passage) return;
  // The browser would go there, too, and take the focus away.
  event.preventDefault();
  passage.open = true;
  passage.querySelector('summary').focus();
}

/// The key of the timeline.
function meanings() {
  const swatch = (stage, look) => {
    const box = { x: 1, y: 2, width: 26, height: 9, rx: 2 };
    const strike = look === 'dead' && svg('line', { class: 'strike', x1: 0, x2: 28, y1: 6.5, y2: 6.5 });
    return svg('svg', { width: 28, height: 13, 'aria-hidden': 'true' }, barIn({ stage, look }, box), strike);
  };
  const kinds = Object.entries(STAGES).map(([stage, text]) => el('li', {}, swatch(stage, 'sure'), text));
  const fates = Object.entries(LOOKS).map(([look, text]) => el('li', {}, swatch('target', look), text));
  return [...kinds, ...fates.slice(1)];
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

customElements.define('spechop-page', Page);
