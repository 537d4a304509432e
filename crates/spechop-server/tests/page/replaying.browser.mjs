// Recordings in a real browser.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { lines } from '../../src/page/trace.js';
import { long, recording } from './recordings.mjs';
import { accessible, open, page, quiet, shoot } from './tab.mjs';

test('whatever a recording holds, it is text', async () => {
  const tab = await page();
  const evil = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>" onload="window.pwned=1';
  const spoil = (value, name) => {
    if (typeof value === 'string') return /^(STAGE|COMMIT|REFUSAL|STOP|VERIFIER|ACTIVITY)_/.test(value) ? value : `${evil} ${'x'.repeat(300)} ${value}`;
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
    const wider = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
    assert.equal(await tab.evaluate(wider), 0, 'a long word is wider than the window');
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
  // The list of branches is that of the first one.
  const labels = await tab.locator('.lanes svg').evaluateAll((all) => all.map((svg) => svg.getAttribute('aria-label')));
  assert.deepEqual(labels.map((label) => label.includes('The list of branches below')), [true, false]);
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
  // A step back to where it was accepted takes away what came of it.
  const drawn = () => tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const step = (key) => tab.press('body', key).then(drawn);
  const sure = () => second.locator('.bar.sure').count();
  await tab.fill('#time', '3000').then(drawn);
  for (let n = 0; n < 100 && (await sure()) === 0; n++) await step('ArrowRight');
  assert.ok((await sure()) > 0);
  await step('ArrowLeft');
  assert.equal(await sure(), 0);
  // Only what changed is drawn anew.
  await tab.fill('#time', '5000').then(drawn);
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

test('the clock can show a run of milliseconds', async () => {
  const tab = await page();
  const events = recording('rejected').map((event) => ({ ...event, at_ms: event.at_ms / 1000 }));
  await tab.setInputFiles('#open', { name: 'quick.jsonl', mimeType: 'text/plain', buffer: Buffer.from(lines(events)) });
  await tab.waitForSelector('.lane');
  assert.match(await tab.locator('#clock').textContent(), /^[1-9]\d* ms \/ [1-9]\d* ms$/);
  quiet(tab);
  await tab.context().close();
});

test('of two runs the rest of the longer is stepped through, too', async () => {
  const tab = await page();
  await open(tab, 'failed', 'foreseen');
  const drawn = () => tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const step = async (key) => {
    await tab.press('body', key).then(drawn);
    return Number(await tab.locator('#time').inputValue());
  };
  // They end at 7.9 s and 12.3 s.
  const end = await step('End');
  assert.ok(end > 12_300, `${end}`);
  const times = [end];
  for (let n = 0; n < 60 && times.at(-1) > 7_900; n++) times.push(await step('ArrowLeft'));
  assert.ok(times.some((at) => at > 8_000 && at < 12_000), `${times}`);
  assert.ok(times.at(-1) < 7_950, `${times}`);
  assert.ok((await step('ArrowRight')) > times.at(-1));
  quiet(tab);
  await tab.context().close();
});

test('what is said in place of an answer that is withheld cites nothing', async () => {
  const tab = await page();
  const events = recording('rejected');
  const { answer, ...last } = events.at(-1);
  const shown = async (answer) => {
    const buffer = Buffer.from(lines([...events.slice(0, -1), { ...last, answer }]));
    await tab.setInputFiles('#open', { name: 'withheld.jsonl', mimeType: 'text/plain', buffer });
    await tab.waitForSelector('.lane');
    await tab.press('body', 'End');
    const final = tab.locator('#answer .final .t', { hasText: answer.answer });
    await final.waitFor();
    return tab.locator('#answer .ref').count();
  };
  assert.ok((await shown(answer)) > 0);
  const withheld = { ...answer, answer: 'Not found.', confidence: { chance: 0.1, supported: false, withheld: answer.answer } };
  assert.equal(await shown(withheld), 0);
  assert.match(await tab.locator('#answer').textContent(), /Withheld: /);
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
    const wider = () => tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    for (const recorded of ['siblings', 'salvaged', 'foreseen', 'failed']) {
      await open(tab, recorded);
      if (recorded === 'salvaged') await accessible(tab, `${name}, ${recorded}`);
      assert.equal(await wider(), 0, `${name}: wider than the window`);
      await shoot(tab, `${name}-${recorded}`);
    }
    const buffer = Buffer.from(lines(recording('failed')));
    await tab.setInputFiles('#open', { name: `${'x'.repeat(90)}.jsonl`, mimeType: 'text/plain', buffer });
    await tab.waitForFunction(() => document.querySelector('.run h2').textContent.startsWith('xxx'));
    assert.equal(await wider(), 0, `${name}: a long name is wider than the window`);
    quiet(tab);
    await tab.context().close();
  }
});
