#!/usr/bin/env node
// Measures the real Perfetto engine's import of a trace: import_time.mjs ROUNDS TRACE. Prints seconds per round, as
// JSON.

import { Engine } from "./engine.mjs";

const [rounds, trace] = process.argv.slice(2);
const times = [];
for (let round = 0; round < Number(rounds); round++) {
  const engine = await Engine.start();
  const begin = performance.now();
  engine.load(trace);
  engine.query("select count(*) from slice");
  times.push((performance.now() - begin) / 1000);
}
console.log(JSON.stringify(times));
