// Questions that are asked and answered, in a real browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, hostile, page, PATIENCE, QUESTION, quiet, shoot, web } from './tab.mjs';

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
  const [sent] = await Promise.all([tab.waitForRequest('**/v1/ask/stream'), tab.click('#again')]);
  // What the run above has found would serve it else, and its times would be of no use.
  const { k, fresh } = JSON.parse(sent.postData()).options;
  assert.deepEqual({ k, fresh }, { k: 1, fresh: true });
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
  // If the server does not cancel it, the question goes on, and the page says so.
  await tab.route('**/cancel', (route) => route.fulfill({ status: 429, body: '{"message":"too many requests"}' }));
  await tab.click('#cancel');
  await tab.waitForSelector('#notice:not([hidden])');
  assert.equal(await tab.locator('#notice').textContent(), 'too many requests');
  assert.equal(await tab.locator('#answer .error').count(), 0);
  assert.ok(tab.complaints.every((text) => text.includes('429')), tab.complaints.join());
  tab.complaints.length = 0;
  await tab.unroute('**/cancel');
  await tab.click('#cancel');
  await tab.waitForSelector('#answer .error', PATIENCE);
  assert.equal(await tab.locator('.lane .bar.open').count(), 0);
  assert.match(await tab.locator('#spoken').textContent(), /^No answer\. /);
  assert.ok(await tab.locator('#share').isDisabled(), 'the server has forgotten what was cancelled');
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

test('a wrong value that is folded away is shown', async () => {
  const tab = await page();
  await tab.fill('#question', QUESTION);
  await tab.click('#more summary');
  await tab.fill('#target_calls', '0');
  await tab.click('#more summary');
  await tab.press('#question', 'Enter');
  await tab.waitForSelector('#more[open]');
  assert.equal(await tab.evaluate(() => document.activeElement.id), 'target_calls');
  quiet(tab);
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
