#!/usr/bin/env node
// The real Perfetto engine on the command line.
//
//   node tpwasm.mjs query [--json] TRACE SQL…   results as TSV, or as one JSON list
//   node tpwasm.mjs answer TRACE                one JSON list per line of SQL on standard input, after an empty one
//   node tpwasm.mjs check TRACE                 exit 1 if the import lost or spoilt anything
//   node tpwasm.mjs version                     exit 0 if the engine is installed and intact

import { createInterface } from "node:readline";

import { Engine } from "./engine.mjs";
import { problems } from "./problems.mjs";

const USAGE = "usage: tpwasm.mjs query [--json] TRACE SQL… | answer TRACE | check TRACE | version";

const plain = (cell) => (cell === null ? "[NULL]" : String(cell).replaceAll("\\", "\\\\").replaceAll("\t", "\\t").replaceAll("\n", "\\n"));
const json = (_, value) => (typeof value === "bigint" ? value.toString() : value);

async function main(command, ...args) {
  if (command === "version" && args.length === 0) {
    console.log((await Engine.start()).version());
    return 0;
  }
  if (command === "check" && args.length === 1) {
    const engine = await Engine.start();
    engine.load(args[0]);
    const found = problems(engine);
    found.forEach((line) => console.log(line));
    return found.length === 0 ? 0 : 1;
  }
  if (command === "answer" && args.length === 1) {
    const engine = await Engine.start();
    engine.load(args[0]);
    console.log("[]");
    for await (const sql of createInterface({ input: process.stdin })) {
      console.log(JSON.stringify(engine.query(sql).rows, json));
    }
    return 0;
  }
  if (command === "query") {
    const asJson = args[0] === "--json";
    const [trace, ...statements] = asJson ? args.slice(1) : args;
    if (statements.length > 0) {
      const engine = await Engine.start();
      engine.load(trace);
      const results = statements.map((sql) => engine.query(sql));
      if (asJson) console.log(JSON.stringify(results, json));
      else console.log(results.map(({ columns, rows }) => [columns, ...rows].map((row) => row.map(plain).join("\t")).join("\n")).join("\n\n"));
      return 0;
    }
  }
  console.error(USAGE);
  return 2;
}

// Until proven otherwise: an engine that never becomes ready must not appear as a success.
process.exitCode = 2;
main(...process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error) => {
    console.error(`tpwasm: ${error.message}`);
    process.exitCode = 2;
  },
);
