// A browser and its pages, for the tests of `browser.mjs`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';

export const { PAGE_URL: url, PAGE_WEB: web, PAGE_LOCKED: locked } = process.env;
export const hostile = process.env.PAGE_HOSTILE.trim();
export const [key, once] = process.env.PAGE_KEYS.split(' ');
const { PAGE_TOOLS: tools, PAGE_SHOTS: shots } = process.env;
const require = createRequire(`${tools}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
export const QUESTION = "Where did Prince Ferdinand Of Bavaria's mother die?";
// A busy machine with one core needs minutes.
export const PATIENCE = { timeout: 600_000 };

let browser;
before(async () => {
  // Chromium's own sandbox does not work for root.
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
});
after(() => browser?.close());

/// A page in a context of its own. Whatever it complains about fails the test, a refusal of its policy included.
export async function page(options = {}, at = url) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE.timeout);
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
export const open = async (page, ...names) => {
  await page.setInputFiles('#open', names.map(file));
  await page.waitForSelector('.lane');
};
export const quiet = (page) => assert.deepEqual(page.complaints, []);

export async function accessible(page, what) {
  // Into the page by the debugger, which the policy does not bind.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`);
  assert.deepEqual(told, [], what);
}

export const shoot = async (page, name) => shots && page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
