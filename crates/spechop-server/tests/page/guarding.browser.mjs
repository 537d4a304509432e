// What keeps strangers out, and what is there without scripts, in a real browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, key, locked, once, page, PATIENCE, QUESTION, quiet, shoot } from './tab.mjs';

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

  // A question is kept for a time.
  await tab.route('**/share', (route) => route.fulfill({ status: 404, body: '{"code":"NOT_FOUND","message":"it has not begun"}' }));
  await tab.click('#share');
  await tab.waitForSelector('#notice:not([hidden])');
  assert.match(await tab.locator('#notice').textContent(), /no longer keeps this question/);
  assert.ok(tab.complaints.every((text) => text.includes('404')), tab.complaints.join());
  tab.complaints.length = 0;
  await tab.unroute('**/share');

  // Whoever has the link sees the run, and nothing else, without a key.
  await tab.click('#share');
  const link = await tab.locator('#shared a').getAttribute('href');
  // It can be ended, whatever is drawn below the run.
  await tab.selectOption('#if_k', '1');
  await tab.click('#what_if');
  await tab.waitForSelector('.run h2:has-text("k = 1")', PATIENCE);
  assert.equal(await tab.locator('#shared a').getAttribute('href'), link);
  assert.ok(await tab.locator('#shared button').isVisible());
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
  await tab.click('#again');
  const below = await tab.waitForSelector('.run:nth-child(2) .error', PATIENCE);
  assert.match(await below.textContent(), /too many requests.* Try again in /);
  assert.match(await tab.locator('#spoken').textContent(), /^Answer: .* No answer below\. .*too many requests/);
  await ask();
  assert.match(await told('too many requests'), /Try again in [0-9.]+ m?s/);
  // So they are below a run that was refused, too, although nothing is drawn.
  await tab.click('#again');
  await tab.waitForSelector('.run:nth-child(2) .error', PATIENCE);
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
