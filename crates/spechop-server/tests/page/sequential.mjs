// Events on standard input, one a line; on standard output what the page says of the same question at k = 1.
//     node sequential.mjs < EVENTS

import { readFileSync } from 'node:fs';
import { sequential } from '../../src/page/reduce.js';
import { parse } from '../../src/page/trace.js';
import { views } from './recordings.mjs';

const { total, whole } = sequential(views(parse(readFileSync(0, 'utf8'))).at(-1));
console.log(JSON.stringify({ total, whole }));
