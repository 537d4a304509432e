// What `spechop eval report` writes, in a real browser: on wide and narrow screens, light and dark, and for print.
// `crates/spechop/tests/real/page.rs` starts it:
//
//   REPORT       its file
//   PAGE_TOOLS   the folder with playwright-core

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';

const { REPORT: report, PAGE_TOOLS: tools } = process.env;
const url = pathToFileURL(report).href;
const { chromium } = createRequire(`${tools}/`)('playwright-core');
// A busy machine with one core needs minutes.
const PATIENCE = { timeout: 600_000 };

let browser;
before(async () => {
  // Chromium's own sandbox does not work for root.
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
});
after(() => browser?.close());

/// Runs in the page. To ask for a size lays the page out.
function seen() {
  const brightness = (color) => color.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
  const isSeen = (svg) => {
    const { width, height } = svg.getBoundingClientRect();
    return width > 100 && height > 50 && svg.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  };
  const root = document.documentElement;
  const svgs = [...document.querySelectorAll('svg')];
  const ground = brightness(getComputedStyle(document.body).backgroundColor);
  return {
    beyond: root.scrollWidth - root.clientWidth,
    figures: document.querySelectorAll('figure').length,
    drawn: svgs.length,
    unseen: svgs.filter((svg) => !isSeen(svg)).map((svg) => svg.getAttribute('aria-labelledby')),
    isDark: ground < 3 * 128,
    contrasts: [
      getComputedStyle(document.body).color,
      getComputedStyle(document.querySelector('svg text')).fill,
    ].map((color) => Math.abs(brightness(color) - ground)),
    hasContents: document.querySelector('nav').checkVisibility(),
  };
}

for (const [width, colorScheme, media] of [
  [1280, 'light', 'screen'],
  [1280, 'dark', 'screen'],
  [390, 'light', 'screen'],
  [390, 'dark', 'screen'],
  // Paper is white, whatever the screen is like.
  [1280, 'dark', 'print'],
]) {
  test(`the report is whole at ${width} px, ${colorScheme}, ${media}`, PATIENCE, async () => {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
    context.setDefaultTimeout(PATIENCE.timeout);
    const page = await context.newPage();
    const complaints = [];
    page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => request.url() === url || complaints.push(request.url()));
    await page.emulateMedia({ media });
    // Until all of it has loaded. There are no scripts that would change it later.
    await page.goto(url, { waitUntil: 'load' });
    await page.evaluate(() => document.fonts.ready.then(() => {}));
    const { figures, drawn, contrasts, ...rest } = await page.evaluate(seen);
    assert.ok(figures > 0 && drawn === figures, `${figures} figures, ${drawn} of them drawn`);
    assert.ok(contrasts.every((contrast) => contrast > 3 * 100), `contrasts: ${contrasts}`);
    const isPrint = media === 'print';
    const isDark = colorScheme === 'dark' && !isPrint;
    assert.deepEqual(rest, { beyond: 0, unseen: [], isDark, hasContents: !isPrint });
    assert.deepEqual(complaints, []);
    await context.close();
  });
}
