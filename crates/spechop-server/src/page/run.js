// A run of a question, live or recorded: its events, the view behind each, and a clock.

import { reduce, START, elapsed, sequential } from './reduce.js';

/// Most events; a question of 1024 hops has fewer.
const EVENTS_MAX = 200_000;

/// Most items that views do not share: some 256 MB.
const COPIED_MAX = 32_000_000;

/// How many items a view does not share with the one before.
function copied(view, before) {
  const items = (value) => (Array.isArray(value) ? value.length : 1);
  let sum = 0;
  for (const name in view) if (view[name] !== before[name]) sum += items(view[name]);
  view.lanes.forEach((lane, n) => {
    if (lane !== before.lanes[n]) for (const name in lane) sum += items(lane[name]);
  });
  return sum;
}

export class Run {
  events = [];
  views = [START];
  /// ms that are shown; null follows a live run.
  position = null;
  #arrived = 0;
  #copied = 0;

  /// The server's name for its question; '' for a recording.
  id = '';

  constructor(title, live) {
    this.title = title;
    this.live = live;
    if (!live) this.position = 0;
  }

  /// A run that is over.
  static of(title, events) {
    const run = new Run(title, false);
    for (const event of events) run.push(event);
    return run;
  }

  /// Takes an event, `clock` being the time at which it came, in ms of any origin.
  push(event, clock = 0) {
    const before = this.last;
    // What ends a live run has no time of its own: it is now.
    if (this.live && event?.error) event = { ...event, at_ms: this.end(clock) };
    let view = reduce(before, event);
    if (view === before) return;
    this.#copied += copied(view, before);
    if (this.events.length >= EVENTS_MAX || this.#copied > COPIED_MAX) {
      event = { at_ms: view.at, error: { message: 'The run is longer than this page can show.' } };
      view = reduce(before, event);
      if (view === before) return;
    }
    if (view.gap) {
      this.views[this.views.length - 1] = view;
      if (event.answer || event.error) this.live = false;
      return;
    }
    this.events.push(event);
    this.views.push(view);
    this.#arrived = clock;
    if (view.phase === 'answered' || view.phase === 'failed') this.live = false;
  }

  get last() {
    return this.views.at(-1);
  }

  /// The end of what is known, in ms.
  end(clock) {
    const { at } = this.last;
    return this.live && this.views.length > 1 ? at + Math.max(clock - this.#arrived, 0) : at;
  }

  /// The time that is shown.
  now(clock) {
    return this.position === null ? this.end(clock) : Math.min(this.position, this.end(clock));
  }

  /// The view at the time that is shown: the last one that had been by then.
  view(clock) {
    return this.position === null ? this.last : this.views[this.indexAt(this.now(clock))];
  }

  /// How many events had been by then.
  indexAt(ms) {
    let [low, high] = [0, this.events.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.views[middle].at <= ms) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /// The next moment after `now` at which something happened, or the one before; Infinity or 0 if none.
  moment(direction, now) {
    const moments = this.views.map((view) => view.at);
    if (direction > 0) return moments.find((at) => at > now) ?? Infinity;
    return moments.findLast((at) => at < now) ?? 0;
  }

  /// How far the axis goes.
  reach(clock) {
    const { last } = this;
    const end = this.end(clock);
    return Math.max(end, sequential(last, end).total, elapsed(last) ?? 0);
  }
}
