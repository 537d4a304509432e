// How long the reducer takes for 2,000 events with 32 branches side by side; a frame of a screen has 16 ms.
//     node crates/spechop-server/tests/page/bench.mjs

import { pieces } from '../../src/page/look.js';
import { long, views } from './recordings.mjs';

const events = long(2000);
const took = [];
for (let n = 0; n < 50; n++) {
  const begin = (process.cpuUsage().user + process.cpuUsage().system) / 1000;
  const view = views(events).at(-1);
  for (const lane of view.lanes) pieces(lane, view.at);
  took.push((process.cpuUsage().user + process.cpuUsage().system) / 1000 - begin);
}
took.sort((a, b) => a - b);
console.log(`2,000 events: median ${took[25].toFixed(1)} ms, slowest ${took[49].toFixed(1)} ms (the first one is not compiled)`);
