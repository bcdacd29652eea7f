// Serves Azure Blob Storage on this machine until standard input ends, with the container `runs`.
//
//     node emulator.mjs DIRECTORY
//
// The files of the directory become blobs. Prints a connection string when they are there.

import { BlobServiceClient } from "@azure/storage-blob";
import { spawn } from "node:child_process";
import { readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const directory = process.argv[2];
const program = createRequire(import.meta.url).resolve("azurite/dist/src/blob/main.js");
const options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"];
const server = spawn(process.execPath, [program, ...options], { stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => server.kill("SIGKILL"));
server.on("exit", (code) => process.exit(code ?? 1));

const endpoint = await new Promise((resolve) => {
  let printed = "";
  server.stdout.on("data", (text) => {
    printed += text;
    const found = /listens on (http:\/\/[\d.:]+)/.exec(printed);
    if (found) resolve(found[1]);
  });
});
// The key is that of every emulator, from Microsoft's documentation.
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const connection = `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${key};BlobEndpoint=${endpoint}/devstoreaccount1;`;

const container = BlobServiceClient.fromConnectionString(connection).getContainerClient("runs");
await container.create();
for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const file = path.join(entry.parentPath, entry.name);
  await container.getBlockBlobClient(path.relative(directory, file)).uploadFile(file);
}
console.log(connection);
process.stdin.on("end", () => process.exit(0)).resume();
