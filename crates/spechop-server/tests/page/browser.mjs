// The page in a real browser, from a real server. `crates/spechop/tests/real/page.rs` starts both:
//
//   PAGE_URL       the server, over an index with added latency; the passages that hold the answer are hostile
//   PAGE_HOSTILE   what is hostile in them
//   PAGE_WEB       a server that looks up in a slow web, with the same passages
//   PAGE_LOCKED    a server over the same index that asks for keys, and where runs may be shared
//   PAGE_KEYS      two of its keys: one that may ask as it likes, and one that may ask once
//   PAGE_TOOLS     the folder with playwright-core and axe-core
//   PAGE_SHOTS     a folder for pictures; none are taken without it

import './asking.browser.mjs';
import './breaking.browser.mjs';
import './replaying.browser.mjs';
import './guarding.browser.mjs';
