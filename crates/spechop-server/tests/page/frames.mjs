// How long the page takes for a frame: a recorded run of 2,000 events is played at real speed in Chromium, once with
// 32 branches and once with 160 lanes and more. A screen of 60 Hz shows a frame each 16.7 ms.
//     node crates/spechop-server/tests/page/frames.mjs [FOLDER WITH PLAYWRIGHT-CORE]     (or: make bench-page)
//
// Intervals are between the page's own animation frames. They are the machine's, too: whatever else runs on it makes
// them longer. The work is what the page's main thread computes for a frame, in time of the processor.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { lines } from '../../src/page/trace.js';
import { long } from './recordings.mjs';

const { SPECHOP_DATA_DIR, XDG_DATA_HOME } = process.env;
const data = SPECHOP_DATA_DIR || `${XDG_DATA_HOME || `${homedir()}/.local/share`}/spechop`;
const tools = process.argv[2] ?? `${data}/page-tests`;
const { chromium } = createRequire(`${tools}/`)('playwright-core');
const SECONDS = 8;

// The page alone: what it plays needs no server.
const kinds = { html: 'text/html', css: 'text/css', js: 'text/javascript' };
const server = createServer(({ url }, response) => {
  const name = url === '/' ? 'index.html' : url.replace('/page/', '');
  if (!/^[a-z]+\.(html|css|js)$/.test(name)) return response.writeHead(404).end();
  response.setHeader('content-type', kinds[name.split('.')[1]]);
  response.end(readFileSync(new URL(`../../src/page/${name}`, import.meta.url)));
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));

const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
try {
  for (const [name, width, from] of [['32 branches at once', 32, 0], ['160 lanes and more', 32, 12_000]]) {
    const page = await browser.newPage({ viewport: { width: 1100, height: 900 } });
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const buffer = Buffer.from(lines(long(2000, width)));
    await page.setInputFiles('#open', { name: 'run.jsonl', mimeType: 'text/plain', buffer });
    await page.waitForSelector('.lane');
    await page.fill('#time', String(from));
    const debug = await page.context().newCDPSession(page);
    await debug.send('Performance.setTimeDomain', { timeDomain: 'threadTicks' });
    await debug.send('Performance.enable');
    const used = async () => {
      const { metrics } = await debug.send('Performance.getMetrics');
      const of = (name) => metrics.find((metric) => metric.name === name).value * 1000;
      return { task: of('TaskDuration'), script: of('ScriptDuration'), style: of('RecalcStyleDuration'), layout: of('LayoutDuration') };
    };
    await page.click('#play');
    const before = await used();
    const intervals = await page.evaluate((ms) => new Promise((done) => {
      const all = [];
      let last = performance.now();
      const end = last + ms;
      requestAnimationFrame(function next() {
        const now = performance.now();
        all.push(now - last);
        last = now;
        if (now < end) requestAnimationFrame(next);
        else done(all);
      });
    }), SECONDS * 1000);
    const after = await used();
    const lanes = await page.evaluate(() => document.querySelector('#timelines svg').getAttribute('aria-label'));
    const per = (what) => ((after[what] - before[what]) / intervals.length).toFixed(2);
    intervals.sort((a, b) => a - b);
    const at = (share) => intervals[Math.floor((intervals.length - 1) * share)].toFixed(1);
    const late = intervals.filter((ms) => ms > 25).length;
    console.log(`${name} (${/\d+/.exec(lanes)} at the end): ${(intervals.length / SECONDS).toFixed(1)} frames/s; interval median ${at(0.5)}, 95 % ${at(0.95)}, longest ${at(1)} ms; ${late} of ${intervals.length} missed`);
    console.log(`  work of a frame: ${per('task')} ms, of that script ${per('script')}, style ${per('style')}, layout ${per('layout')}`);
    await page.close();
  }
} finally {
  await browser.close();
  server.close();
}
