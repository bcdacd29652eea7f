// Checks a dashboard against Grafana's schema: node check.mjs FILE. Prints what is wrong, and exits with 1 then.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const here = dirname(fileURLToPath(import.meta.url));
const file = process.argv[2];
// As a literal: TypeScript then also finds properties that the schema does not have.
const name = join(here, 'dashboard.ts');
const text = `import type { DashboardFile } from './expected';
export const dashboard: DashboardFile =
${readFileSync(file, 'utf8')};`;
const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  target: ts.ScriptTarget.ES2022,
};
const host = ts.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
host.getSourceFile = (path, ...rest) =>
  path === name ? ts.createSourceFile(path, text, rest[0]) : getSourceFile.call(host, path, ...rest);
host.fileExists = (path) => path === name || fileExists.call(host, path);
host.readFile = (path) => (path === name ? text : readFile.call(host, path));
const program = ts.createProgram([name], options, host);
const problems = ts.getPreEmitDiagnostics(program);
for (const problem of problems) {
  const message = ts.flattenDiagnosticMessageText(problem.messageText, '\n  ');
  // Two lines precede the file.
  const line = problem.file?.getLineAndCharacterOfPosition(problem.start).line - 1;
  console.log(problem.file?.fileName === name ? `${file}:${line}: ${message}` : `${problem.file?.fileName}: ${message}`);
}
process.exit(problems.length > 0 ? 1 : 0);
