// Pages that go, and connections that break, in a real browser.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { Transform } from 'node:stream';
import { test } from 'node:test';
import { page, PATIENCE, QUESTION, quiet, url } from './tab.mjs';

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

/// Firefox keeps over a reload what was enabled: as if the page came so.
test('what has nothing to act on is disabled, however the page came', async () => {
  const tab = await page();
  await tab.route(url, async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replaceAll(' disabled', '');
    await route.fulfill({ response, body });
  });
  await tab.reload();
  await tab.waitForSelector('.key svg', { state: 'attached' });
  for (const id of ['finish', 'cancel', 'events', 'trace']) assert.ok(await tab.locator(`#${id}`).isDisabled(), id);
  quiet(tab);
  await tab.context().close();
});

/// A way to a server that can be cut, or on which what the server says is held back. A browser that goes offline loses
/// what is under way, but Chromium's own emulation of that only keeps it from asking anew.
async function way(to) {
  const { hostname, port } = new URL(to);
  const ends = new Set();
  let held = null;
  const server = createServer((near) => {
    const far = connect(port, hostname);
    const back = new Transform({ transform: async (chunk, _, done) => (held?.hear(), await held?.released, done(null, chunk)) });
    near.pipe(far).pipe(back).pipe(near);
    for (const end of [near, far]) {
      ends.add(end);
      // Either end goes with the other.
      end.on('error', () => {}).on('close', () => (ends.delete(end), near.destroy(), far.destroy()));
    }
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  // Nor does it keep a test going that has failed.
  server.unref();
  const cut = () => ends.forEach((end) => end.destroy());
  const hold = () => {
    held = {};
    held.heard = new Promise((hear) => (held.hear = hear));
    held.released = new Promise((release) => (held.release = release));
    return held;
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, cut, hold, end: () => (server.close(), cut()) };
}

test('a question that is dropped before the server has said a word is cancelled', PATIENCE, async () => {
  const there = await way(url);
  const tab = await page({}, there.url);
  await tab.fill('#question', QUESTION);
  const held = there.hold();
  const [asked] = await Promise.all([tab.waitForRequest('**/v1/ask/stream'), tab.press('#question', 'Enter')]);
  await held.heard;
  const [cancelled] = await Promise.all([tab.waitForRequest('**/cancel'), tab.press('#question', 'Enter')]);
  const { question_id: id } = JSON.parse(asked.postData());
  assert.ok(cancelled.url().includes(id));
  const events = await (await fetch(new URL(`v1/questions/${id}/events?after=0`, url))).text();
  assert.match(events, /event: error|NOT_FOUND/);
  held.release();
  // The second one is asked all the same.
  await tab.waitForSelector('.lane .bar', { ...PATIENCE, state: 'attached' });
  await tab.click('#cancel');
  await tab.waitForSelector('#answer .error', PATIENCE);
  quiet(tab);
  await tab.context().close();
  there.end();
});

test('a question is cancelled whose connection breaks before the server has said a word', PATIENCE, async () => {
  const there = await way(url);
  const tab = await page({}, there.url);
  await tab.fill('#question', QUESTION);
  const held = there.hold();
  const [asked] = await Promise.all([tab.waitForRequest('**/v1/ask/stream'), tab.press('#question', 'Enter')]);
  await held.heard;
  // A browser asks anew on a connection of its own if another one is cut, so there is none any more.
  const [cancelled] = await Promise.all([tab.waitForRequest('**/cancel', PATIENCE), there.end()]);
  const { question_id: id } = JSON.parse(asked.postData());
  assert.ok(cancelled.url().includes(id));
  const told = await tab.waitForSelector('#answer .error', PATIENCE);
  assert.match(await told.textContent(), /cannot be reached/);
  await tab.context().close();
  // That has not arrived, so it would keep its place.
  const head = { 'content-type': 'application/json' };
  await fetch(new URL(`v1/questions/${id}/cancel`, url), { method: 'POST', headers: head, body: '{}' });
});

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
