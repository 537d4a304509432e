// The page in a real browser, from a real server. `crates/spechop/tests/real/page.rs` starts both:
//
//   PAGE_URL       the server, over an index with added latency; the passages that hold the answer are hostile
//   PAGE_HOSTILE   what is hostile in them
//   PAGE_WEB       a server that looks up in a slow web, with the same passages
//   PAGE_LOCKED    a server over the same index that asks for keys, and where runs may be shared
//   PAGE_KEYS      two of its keys: one that may ask as it likes, and one that may ask once
//   PAGE_TOOLS     the folder with playwright-core and axe-core
//   PAGE_SHOTS     a folder for pictures; none are taken without it

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { lines } from '../../src/page/trace.js';
import { long, recording } from './recordings.mjs';

const { PAGE_URL: url, PAGE_WEB: web, PAGE_LOCKED: locked, PAGE_TOOLS: tools, PAGE_SHOTS: shots } = process.env;
const hostile = process.env.PAGE_HOSTILE.trim();
const [key, once] = process.env.PAGE_KEYS.split(' ');
const require = createRequire(`${tools}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const QUESTION = "Where did Prince Ferdinand Of Bavaria's mother die?";
// A busy machine with one core needs minutes.
const PATIENCE = { timeout: 600_000 };

let browser;
before(async () => {
  // Chromium's own sandbox does not work for root.
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
});
after(() => browser?.close());

/// A page in a context of its own. Whatever it complains about fails the test, a refusal of its policy included.
async function page(options = {}, at = url) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.on('console', (message) => message.type() === 'error' && page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(error.message));
  page.on('dialog', (dialog) => (page.complaints.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on('request', (request) => {
    const known = request.url().startsWith(new URL('/', at).href) || /^(blob|data):/.test(request.url());
    if (!known || request.url().includes(key)) page.complaints.push(request.url());
  });
  const response = await page.goto(at);
  page.headersOf = response.headers();
  return page;
}

const file = (name) => fileURLToPath(new URL(`recordings/${name}.jsonl`, import.meta.url));
const open = async (page, ...names) => {
  await page.setInputFiles('#open', names.map(file));
  await page.waitForSelector('.lane');
};
const quiet = (page) => assert.deepEqual(page.complaints, []);

async function accessible(page, what) {
  // Into the page by the debugger, which the policy does not bind.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`);
  assert.deepEqual(told, [], what);
}

const shoot = async (page, name) => shots && page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });

test('a question is asked, struck out, made solid, and answered, with the keyboard alone', PATIENCE, async () => {
  const tab = await page();
  const ask = async () => {
    await tab.locator('#question').focus();
    await tab.keyboard.press('ControlOrMeta+A');
    await tab.keyboard.type(QUESTION);
    await tab.keyboard.press('Enter');
  };
  const final = () => tab.waitForSelector('#answer .final', PATIENCE);
  // The memory is empty: there is no guess, and what was planned without one is thrown away.
  await tab.locator('#speculator').focus();
  await tab.keyboard.type('memory');
  await tab.locator('#k').focus();
  await tab.keyboard.type('4');
  await ask();
  await tab.waitForSelector('.lane .bar.open .hatch', { ...PATIENCE, state: 'attached' });
  await tab.waitForSelector('.lane.rolled-back .strike', { ...PATIENCE, state: 'attached' });
  await final();
  const first = await tab.locator('#answer .final .t').textContent();
  assert.equal(await tab.locator('.lane .bar.open').count(), 0, 'nothing is provisional at the end');
  await shoot(tab, 'struck');

  // Now it remembers, so the guesses are right.
  await ask();
  await tab.waitForSelector('.lane .bar.open .hatch', { ...PATIENCE, state: 'attached' });
  const hatched = tab.locator('.lane', { has: tab.locator('.bar.open') }).last();
  assert.equal(await hatched.locator('.bar.sure').count(), 0);
  await tab.waitForSelector('.lane.committed .mark.promoted', { ...PATIENCE, state: 'attached' });
  await final();
  assert.equal(await tab.locator('#answer .final .t').textContent(), first);
  // Whether anything of it was done ahead depends on the machine; that it is solid does not.
  const promoted = tab.locator('.lane.committed', { has: tab.locator('.mark.promoted') });
  assert.ok((await promoted.first().locator('.bar.sure').count()) > 0);
  assert.equal(await tab.locator('.lane .bar.open').count(), 0);
  assert.match(await tab.locator('.words').textContent(), / s /);
  assert.match(await tab.locator('#spoken').textContent(), /^Answer: /);

  // From the answer to the passage that it rests on.
  await tab.locator('#answer .ref').first().focus();
  await tab.keyboard.press('Enter');
  const passage = tab.locator('#passages details[open]').first();
  assert.ok((await passage.locator('mark').count()) > 0);
  assert.equal(await tab.evaluate(() => document.activeElement.localName), 'summary');
  await shoot(tab, 'answered');
  await accessible(tab, 'answered');
  // What is hostile in it stands there as text, in title and passage, and has done nothing.
  assert.match(hostile, /<script>window\.pwned=1<\/script>.*onerror/);
  assert.ok((await passage.locator('summary').innerText()).includes(hostile));
  assert.ok(await passage.locator('.text').isVisible());
  assert.ok((await passage.locator('.text').innerText()).includes(hostile));
  assert.equal(await tab.locator('img, spechop-page script').count(), 0);
  assert.equal(await tab.evaluate(() => window.pwned), undefined);
  quiet(tab);
  await tab.context().close();
});

test('a passage that is read stays open, and keeps the focus, when more comes', PATIENCE, async () => {
  const tab = await page();
  await tab.fill('#question', QUESTION);
  await tab.selectOption('#k', '1');
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('#passages details', PATIENCE);
  assert.equal(await tab.locator('#hops li').count(), 1, 'there is more to come');
  await tab.locator('#passages summary').first().focus();
  await tab.keyboard.press('Enter');
  const read = () =>
    tab.evaluate(() => {
      const { activeElement: focused } = document;
      return [[...document.querySelectorAll('#passages details[open]')].map(({ id }) => id), focused.tagName, focused.parentNode.id];
    });
  const before = [['passage-1'], 'SUMMARY', 'passage-1'];
  assert.deepEqual(await read(), before);
  await tab.waitForSelector('#hops li:nth-child(2)', PATIENCE);
  assert.deepEqual(await read(), before);
  await tab.waitForSelector('#answer .final', PATIENCE);
  assert.deepEqual(await read(), before);
  quiet(tab);
  await tab.context().close();
});

test('the same question at k = 1 is drawn below, aligned', PATIENCE, async () => {
  const tab = await page();
  await tab.fill('#question', QUESTION);
  await tab.selectOption('#speculator', 'memory');
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('#answer .final', PATIENCE);
  await tab.click('#again');
  await tab.waitForSelector('#finish:not(:disabled)', PATIENCE);
  await tab.waitForFunction(() => document.querySelectorAll('.run').length === 2 && document.querySelector('#cancel').disabled, null, PATIENCE);
  const axes = await tab.locator('.axis').evaluateAll((all) => all.map((axis) => axis.outerHTML));
  assert.equal(axes[0], axes[1]);
  assert.equal(await tab.locator('.run').nth(1).locator('.bar.speculation').count(), 0);
  quiet(tab);
  await tab.context().close();
});

test('a question can be finished and cancelled, and a refusal is told', PATIENCE, async () => {
  const tab = await page();
  await tab.fill('#question', QUESTION);
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('#cancel:not(:disabled)', PATIENCE);
  await tab.waitForSelector('.lane .bar', { ...PATIENCE, state: 'attached' });
  await tab.click('#cancel');
  await tab.waitForSelector('#answer .error', PATIENCE);
  assert.equal(await tab.locator('.lane .bar.open').count(), 0);
  assert.match(await tab.locator('#spoken').textContent(), /^No answer\. /);
  quiet(tab);

  await tab.fill('#question', QUESTION);
  await tab.click('#more summary');
  await tab.fill('#target_calls', '1000');
  await tab.fill('#money_micros', '2.5');
  await tab.selectOption('#speculator', 'none');
  const [sent] = await Promise.all([tab.waitForRequest((request) => request.method() === 'POST'), tab.press('#question', 'Enter')]);
  assert.match(sent.postData(), /"budget":\{"target_calls":1000,"money_micros":2500000\}/);
  await tab.waitForSelector('#finish:not(:disabled)', PATIENCE);
  await tab.waitForSelector('.lane .bar.target', { ...PATIENCE, state: 'attached' });
  await tab.click('#finish');
  await tab.waitForSelector('#answer .final', PATIENCE);
  quiet(tab);

  await tab.evaluate(() => document.querySelector('#speculator').add(new Option('nobody')));
  await tab.selectOption('#speculator', 'nobody');
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('#answer .error', PATIENCE);
  assert.match(await tab.locator('#answer .error').textContent(), /speculator/);
  assert.ok(await tab.locator('#runs').isHidden(), 'there is nothing to draw');
  await tab.context().close();
});

test('what is told of a run that is no longer shown is left aside', PATIENCE, async () => {
  const tab = await page();
  await tab.fill('#question', QUESTION);
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('#answer .final', PATIENCE);
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await tab.route('**/what-if', async (route) => (await released, route.continue()));
  await tab.click('#what_if');
  await tab.click('#again');
  await tab.waitForSelector('#cancel:not(:disabled)', PATIENCE);
  const told = tab.waitForResponse('**/what-if');
  release();
  await (await told).finished();
  await tab.waitForSelector('#cancel:disabled', { ...PATIENCE, state: 'attached' });
  assert.match(await tab.locator('.run h2').textContent(), /run again at k = 1/);
  assert.ok(await tab.locator('#again').isVisible());
  quiet(tab);
  await tab.context().close();
});

test('a page that goes takes its question with it', PATIENCE, async () => {
  const tab = await page();
  await tab.fill('#question', QUESTION);
  const [response] = await Promise.all([tab.waitForResponse('**/v1/ask/stream'), tab.press('#question', 'Enter')]);
  const id = response.headers()['spechop-question-id'];
  await tab.waitForSelector('.lane .bar', { ...PATIENCE, state: 'attached' });
  await tab.reload();
  const events = await (await fetch(new URL(`v1/questions/${id}/events?after=0`, url))).text();
  // What was cancelled is forgotten, or tells so if the cancel is still on its way.
  assert.match(events, /event: error|NOT_FOUND/);
  await tab.context().close();
});

/// A way to a server that can be cut. A browser that goes offline loses what is under way, but Chromium's own
/// emulation of that only keeps it from asking anew.
async function way(to) {
  const { hostname, port } = new URL(to);
  const ends = new Set();
  const server = createServer((near) => {
    const far = connect(port, hostname);
    near.pipe(far).pipe(near);
    for (const end of [near, far]) {
      ends.add(end);
      // Either end goes with the other.
      end.on('error', () => {}).on('close', () => (ends.delete(end), near.destroy(), far.destroy()));
    }
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const cut = () => ends.forEach((end) => end.destroy());
  return { url: `http://127.0.0.1:${server.address().port}/`, cut, end: () => (server.close(), cut()) };
}

test('a browser that was offline for a while sees every event, and each once', PATIENCE, async () => {
  const there = await way(url);
  const tab = await page({}, there.url);
  const debug = await tab.context().newCDPSession(tab);
  await debug.send('Network.enable');
  const offline = (offline) =>
    debug.send('Network.emulateNetworkConditions', { offline, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  const resumed = [];
  tab.on('response', (response) => {
    const [, after] = /\/events\?after=(\d+)$/.exec(response.url()) ?? [];
    if (after) resumed.push([response.status(), Number(after)]);
  });
  await tab.fill('#question', QUESTION);
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('.lane .bar', { ...PATIENCE, state: 'attached' });
  await offline(true);
  there.cut();
  await tab.waitForTimeout(3000);
  assert.equal(await tab.locator('#answer .final, #answer .error').count(), 0, 'it is in the middle of the question');
  await offline(false);
  await tab.waitForSelector('#answer .final', PATIENCE);
  assert.equal(resumed.length, 1, JSON.stringify(resumed));
  assert.equal(resumed[0][0], 200);
  assert.ok(resumed[0][1] > 0, 'not from the beginning');
  const [download] = await Promise.all([tab.waitForEvent('download'), tab.click('#events')]);
  const events = readFileSync(await download.path(), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(events.map(({ sequence }) => sequence), events.map((_, n) => n + 1));
  assert.ok(events.at(-1).answer && events.length > resumed[0][1] + 2);
  // All that the browser complains about is that it was offline.
  assert.deepEqual(tab.complaints.filter((text) => !/net::ERR_/.test(text)), []);
  await tab.context().close();
  there.end();
});

test('over a slow web, what was begun on a guess turns solid', PATIENCE, async () => {
  const tab = await page({}, web);
  await tab.fill('#question', QUESTION);
  await tab.selectOption('#k', '4');
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('.lane .bar.segment.open .hatch, .lane .bar.target.open .hatch', { ...PATIENCE, state: 'attached' });
  await shoot(tab, 'web-running');
  await tab.waitForSelector('.lane .mark.promoted', { ...PATIENCE, state: 'attached' });
  await tab.waitForSelector('#answer .final', PATIENCE);
  // What was promoted was done ahead of need, and is needed.
  const solid = tab.locator('.lane.committed, .lane.wrote-the-answer').filter({ has: tab.locator('.mark.promoted') });
  assert.ok((await solid.locator('.bar.ahead').count()) > 0);
  assert.equal(await tab.locator('.lane .bar.open').count(), 0);
  // Its passages are pages, which have addresses of their own.
  await tab.locator('#answer .ref').first().click();
  const cited = tab.locator('#passages details[open]').first();
  assert.match(await cited.locator('a').getAttribute('href'), /^http:/);
  assert.equal((await cited.innerText()).split('http://').length, 2, 'its address once');
  await shoot(tab, 'web');
  quiet(tab);
  await tab.context().close();
});

test('the policy holds: no foreign origin, no inline script, no frame', async () => {
  const tab = await page();
  const policy = tab.headersOf['content-security-policy'];
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"]) {
    assert.ok(policy.includes(rule), `${rule} in ${policy}`);
  }
  assert.equal(tab.headersOf['x-content-type-options'], 'nosniff');
  assert.equal(tab.headersOf['referrer-policy'], 'same-origin');
  quiet(tab);
  // And it is enforced.
  await tab.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.pwned = true';
    document.body.append(script);
    document.body.insertAdjacentHTML('beforeend', '<img src="https://elsewhere.invalid/x.png">');
  });
  assert.equal(await tab.evaluate(() => window.pwned), undefined);
  assert.ok(tab.complaints.some((text) => text.includes('Content Security Policy')));
  await tab.context().close();
});

test('whatever a recording holds, it is text', async () => {
  const tab = await page();
  const evil = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>" onload="window.pwned=1';
  const spoil = (value, name) => {
    if (typeof value === 'string') return /^(STAGE|COMMIT|REFUSAL|STOP|VERIFIER|ACTIVITY)_/.test(value) ? value : `${evil} ${value}`;
    if (Array.isArray(value)) return value.map((part) => spoil(part, name));
    if (value === null || typeof value !== 'object') return value;
    const passage = 'passage_id' in value ? { url: 'javascript:window.pwned=1' } : {};
    return { ...Object.fromEntries(Object.entries(value).map(([key, part]) => [key, spoil(part, key)])), ...passage };
  };
  const lines = ['siblings', 'foreseen', 'failed'].map((name) => recording(name).map((event) => JSON.stringify(spoil(event))).join('\n'));
  for (const text of lines) {
    await tab.setInputFiles('#open', { name: `${evil}.jsonl`, mimeType: 'text/plain', buffer: Buffer.from(text) });
    await tab.waitForSelector('.lane');
    await tab.evaluate(() => document.querySelectorAll('details').forEach((details) => (details.open = true)));
    for (let n = 0; n < 10; n++) await tab.press('#time', 'ArrowLeft');
    await tab.press('#time', 'End');
  }
  assert.equal(await tab.evaluate(() => window.pwned), undefined);
  assert.equal(await tab.locator('img, spechop-page script, a[href^="javascript"]').count(), 0);
  quiet(tab);
  // What cannot be read is refused with a reason.
  await tab.setInputFiles('#open', { name: 'x', mimeType: 'text/plain', buffer: Buffer.from('{"sequence":1}\n<b>') });
  await tab.waitForSelector('#notice:not([hidden])');
  assert.match(await tab.locator('#notice').textContent(), /line 2/);
  await tab.context().close();
});

test('a recording is replayed, scrubbed and stepped through by keys', async () => {
  const tab = await page();
  await open(tab, 'foreseen', 'rejected');
  assert.equal(await tab.locator('.run').count(), 2);
  // An answer is told as provisional before it is final.
  await tab.fill('#time', '11000');
  await tab.waitForSelector('#answer .draft');
  assert.match(await tab.locator('#answer .kind').textContent(), /^Provisional/);
  const clock = () => tab.locator('#clock').textContent();
  await tab.press('body', 'Home');
  await tab.waitForFunction(() => document.querySelector('#clock').textContent.startsWith('0.0'));
  assert.equal(await tab.locator('#answer .final').count(), 0);
  await tab.press('body', 'ArrowRight');
  await tab.waitForFunction(() => document.querySelector('#clock').textContent.startsWith('0.9'));
  // Hatched turns solid where the guess before it was accepted: the second branch, at 4.0 s.
  const second = tab.locator('.run').first().locator('.lane').nth(1);
  await tab.fill('#time', '3000');
  await second.locator('.bar.target.open .hatch').first().waitFor({ state: 'attached' });
  assert.equal(await second.locator('.bar.sure').count(), 0);
  await tab.fill('#time', '5000');
  await second.locator('.bar.target.ahead .hatch').first().waitFor({ state: 'attached' });
  assert.equal(await second.locator('.bar.target.sure').count(), 1);
  assert.equal(await second.locator('.bar.open:not(.speculation)').count(), 0);
  // Only what changed is drawn anew.
  const [committed, running] = await Promise.all([0, 1].map((n) => tab.locator('.run').first().locator('.lane').nth(n).elementHandle()));
  await tab.press('body', 'End');
  await tab.waitForSelector('#answer .final');
  for (let n = 0; n < 3; n++) await tab.press('body', 'ArrowLeft');
  assert.equal(await committed.evaluate((node) => node.isConnected), true, 'nothing has happened to it since');
  assert.equal(await running.evaluate((node) => node.isConnected), false, 'it was committed since');
  assert.notEqual(await clock(), '');
  await tab.press('body', 'Home');
  await tab.press('body', ' ');
  await tab.waitForFunction(() => document.querySelector('#play').textContent === 'Pause');
  await tab.waitForFunction(() => Number(document.querySelector('#time').value) > 500);
  await tab.press('body', ' ');
  await tab.waitForFunction(() => document.querySelector('#play').textContent === 'Play');
  quiet(tab);
  await tab.context().close();
});

test('of many branches those in sight are drawn, wherever one scrolls', async () => {
  const tab = await page();
  const events = long(2000);
  await tab.setInputFiles('#open', { name: 'long.jsonl', mimeType: 'text/plain', buffer: Buffer.from(lines(events)) });
  await tab.waitForSelector('.lane');
  const branches = new Set(events.map(({ branch }) => branch)).size;
  assert.ok((await tab.locator('.lanes svg').getAttribute('aria-label')).includes(`${branches} branches`));
  assert.ok((await tab.locator('.lane').count()) < 40, 'a screen full');
  const last = `.lane[transform="translate(0 ${46 * (branches - 1)})"]`;
  assert.equal(await tab.locator(last).count(), 0);
  await tab.locator('.lanes').evaluate((node) => (node.scrollTop = node.scrollHeight));
  await tab.waitForSelector(last);
  assert.ok((await tab.locator('.lane').count()) < 40);
  // What leads to a branch in sight is there, too.
  assert.match(await tab.locator('.link:not(.dead)').getAttribute('d'), /^M/);
  await tab.locator('.lanes').evaluate((node) => (node.scrollTop = 0));
  await tab.waitForSelector('.lane[transform="translate(0 0)"]');
  quiet(tab);
  await tab.context().close();
});

test('events and trace can be taken away', async () => {
  const tab = await page();
  await open(tab, 'siblings');
  const taken = async (button) => {
    const [download] = await Promise.all([tab.waitForEvent('download'), tab.click(button)]);
    return readFileSync(await download.path(), 'utf8');
  };
  const events = (await taken('#events')).trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(events, recording('siblings'));
  assert.ok(JSON.parse(await taken('#trace')).traceEvents.length > 20);
  quiet(tab);
  await tab.context().close();
});

test('it is accessible and fits, dark, light, narrow, without colours and without motion', async () => {
  for (const [name, options] of Object.entries({
    light: { colorScheme: 'light' },
    dark: { colorScheme: 'dark' },
    narrow: { colorScheme: 'light', viewport: { width: 360, height: 740 } },
    plain: { forcedColors: 'active' },
    still: { reducedMotion: 'reduce' },
  })) {
    const tab = await page(options);
    for (const recording of ['siblings', 'salvaged', 'foreseen', 'failed']) {
      await open(tab, recording);
      if (recording === 'salvaged') await accessible(tab, `${name}, ${recording}`);
      const over = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(over, 0, `${name}: wider than the window`);
      await shoot(tab, `${name}-${recording}`);
    }
    quiet(tab);
    await tab.context().close();
  }
});

test('a server with keys asks for one, and the key stays in its tab', PATIENCE, async () => {
  const tab = await page({}, locked);
  const ask = () => tab.press('#question', 'Enter');
  const told = async (words) => {
    await tab.waitForFunction((words) => document.querySelector('#answer .error')?.textContent.includes(words), words, PATIENCE);
    return tab.locator('#answer .error').textContent();
  };
  const stored = () => tab.evaluate(() => [sessionStorage.getItem('key'), localStorage.length, document.cookie]);
  await tab.fill('#question', QUESTION);
  await ask();
  assert.match(await told('wants an API key'), /Enter an API key/);
  assert.equal(await tab.evaluate(() => document.activeElement.id), 'key');
  await tab.fill('#key', 'spechop_wrong');
  await ask();
  await told('the API key is wrong');
  assert.deepEqual(await stored(), [null, 0, '']);
  // All that a browser complains about until here is that it was refused.
  assert.ok(tab.complaints.every((text) => text.includes('401')), tab.complaints.join());
  tab.complaints.length = 0;

  await tab.fill('#key', key);
  await ask();
  await tab.waitForSelector('#answer .final', PATIENCE);
  const final = await tab.locator('#answer .final .t').textContent();
  assert.deepEqual(await stored(), [key, 0, '']);

  // The same question by another k, over its own times.
  await tab.selectOption('#if_k', 'inf');
  await tab.click('#what_if');
  await tab.waitForSelector('.run:nth-child(2) .lane', PATIENCE);
  assert.match(await tab.locator('.run h2').textContent(), /^simulated over the same stage times: k = ∞/);
  const axes = await tab.locator('.axis').evaluateAll((all) => all.map((axis) => axis.outerHTML));
  assert.equal(axes[0], axes[1]);
  assert.equal(await tab.locator('.run').nth(1).locator('.bar.open').count(), 0);
  await shoot(tab, 'what-if');
  await accessible(tab, 'what if');

  // Whoever has the link sees the run, and nothing else, without a key.
  await tab.click('#share');
  const link = await tab.locator('#shared a').getAttribute('href');
  const guest = await page({}, link);
  await guest.waitForSelector('#answer .final');
  assert.equal(await guest.locator('#answer .final .t').textContent(), final);
  assert.ok((await guest.locator('.lane').count()) > 0);
  for (const hidden of ['#ask', '#cancel', '#again', '#what_if']) assert.ok(await guest.locator(hidden).isHidden(), hidden);
  assert.deepEqual(await guest.evaluate(() => sessionStorage.length), 0);
  await shoot(guest, 'shared');
  await accessible(guest, 'shared');
  quiet(guest);
  await tab.click('#shared button');
  await tab.waitForSelector('#shared', { state: 'hidden' });
  assert.equal((await guest.goto(link)).status(), 404);
  assert.match(await guest.locator('h1').textContent(), /leads nowhere/);
  await guest.context().close();

  // It is there after a reload, and not in another tab.
  quiet(tab);
  await tab.reload();
  assert.equal(await tab.locator('#key').inputValue(), key);
  const other = await page({}, locked);
  assert.equal(await other.locator('#key').inputValue(), '');
  await other.context().close();

  // Too many requests are told, too, with the time to wait.
  await tab.fill('#question', QUESTION);
  await tab.click('#more summary');
  await tab.fill('#key', once);
  await ask();
  await tab.waitForSelector('#answer .final', PATIENCE);
  await ask();
  assert.match(await told('too many requests'), /Try again in [0-9.]+ m?s/);
  await tab.context().close();
});

test('without JavaScript the form is answered with a table', PATIENCE, async () => {
  const tab = await page({ javaScriptEnabled: false });
  await tab.fill('#question', QUESTION);
  await tab.selectOption('#k', '1');
  await tab.click('button.main', PATIENCE);
  await tab.waitForSelector('table', PATIENCE);
  assert.ok((await tab.locator('p.final').textContent()).length > 0);
  const hops = await tab.locator('tbody tr').count();
  assert.ok(hops > 0);
  assert.equal(await tab.locator('tbody tr td').count(), 6 * hops);
  await shoot(tab, 'no-script');
  // From the hop to its passage, and from there to the index.
  await tab.locator('tbody a').first().click();
  assert.match(tab.url(), /#passage-\d+$/);
  await tab.locator('ol li a').first().click();
  await tab.waitForSelector('p.t');
  assert.match(tab.url(), /\/p\/p\d+$/);
  assert.equal(await tab.locator('script').count(), 0);
  quiet(tab);
  await tab.context().close();
});
