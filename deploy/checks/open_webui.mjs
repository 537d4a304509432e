// Open WebUI in a real browser, over our server: asks a question, sees its steps come and its sources listed.
// deploy/checks/open-webui.sh starts both.
//
//   WEBUI_URL      Open WebUI, without a login
//   PAGE_TOOLS     the folder with playwright-core
//   QUESTION, ANSWER, STEP, SOURCE   what is asked, and what must be seen
//   SHOT           where a picture goes

import { createRequire } from "node:module";

const { WEBUI_URL, PAGE_TOOLS, QUESTION, ANSWER, STEP, SOURCE, SHOT } = process.env;
const { chromium } = createRequire(`${PAGE_TOOLS}/`)("playwright-core");
// Chromium's own sandbox does not work for root.
const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args });
try {
  const page = await browser.newPage({ viewport: { width: 1100, height: 900 } });
  page.setDefaultTimeout(180_000);
  await page.goto(`${WEBUI_URL}/?models=spechop-auto`);
  // News of the version, which come once.
  const news = page.getByRole("button", { name: /let's go/i });
  await page.locator("#chat-input").waitFor();
  if (await news.isVisible()) await news.click();
  const input = page.locator("#chat-input");
  await input.click();
  await page.keyboard.type(QUESTION);
  await page.keyboard.press("Enter");
  await page.getByText(STEP).first().waitFor();
  console.log(`seen: ${STEP}`);
  await page.getByText(ANSWER).first().waitFor();
  console.log(`seen: ${ANSWER}`);
  const sources = page.getByRole("button", { name: /source/i }).first();
  await sources.waitFor();
  await sources.click();
  await page.getByText(SOURCE).first().waitFor();
  console.log(`seen: ${SOURCE}`);
  await page.screenshot({ path: SHOT });
} catch (error) {
  const [page] = browser.contexts()[0]?.pages() ?? [];
  await page?.screenshot({ path: SHOT });
  throw error;
} finally {
  await browser.close();
}
