// Tests that the check fails on faults that the engine ignores: traces with one fault each, made by hand.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Engine } from "./engine.mjs";
import { problems } from "./problems.mjs";
import { bytesField, intField } from "./protobuf.mjs";

const directory = mkdtempSync(join(tmpdir(), "perfetto-check-"));
after(() => rmSync(directory, { recursive: true }));

const concat = (...parts) => Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part)));
const message = (number, ...parts) => bytesField(number, concat(...parts));
const text = (number, string) => message(number, string);
const SEQUENCE = intField(10, 1);
const packet = (...parts) => message(1, ...parts);

// A process (track 10) and a track under it (20).
const TRACKS = concat(
  packet(SEQUENCE, message(60, intField(1, 10), message(3, intField(1, 100), text(6, "rank 0")))),
  packet(SEQUENCE, message(60, intField(1, 20), intField(5, 10), text(2, "ops"))),
);
const event = (time, ...fields) => packet(SEQUENCE, intField(8, time), message(11, intField(11, 20), ...fields));
const begin = (time, ...fields) => event(time, intField(9, 1), ...fields);
const end = (time) => event(time, intField(9, 2));
const SLICE = concat(begin(2000, text(23, "op")), end(3000));

/** The names of the problems found in a trace. */
async function found(...parts) {
  const path = join(directory, "trace");
  writeFileSync(path, concat(...parts));
  const engine = await Engine.start();
  engine.load(path);
  return problems(engine).map((line) => line.split("\t")[0]);
}

test("a sound trace has no problems", async () => {
  assert.deepEqual(await found(TRACKS, SLICE), []);
});

const FAULTS = {
  "slices never ended (dur = -1)": [TRACKS, begin(2000, text(23, "op"))],
  "slices without a name": [TRACKS, packet(SEQUENCE, intField(8, 1), intField(13, 3)), begin(2000, intField(10, 5)), end(3000)],
  "tracks without a name": [packet(SEQUENCE, message(60, intField(1, 20))), begin(2000, text(23, "")), end(3000)],
  "counter samples without a value (NaN)": [
    packet(SEQUENCE, message(60, intField(1, 30), text(2, "c"), message(8))),
    // double_counter_value is field 44 of wire type 1.
    packet(SEQUENCE, intField(8, 2000), message(11, intField(9, 4), intField(11, 30), Buffer.from([0xe1, 0x02]), Buffer.from(new Float64Array([NaN]).buffer))),
  ],
  "named threads of tid 0 (taken for the idle task)": [
    packet(SEQUENCE, message(60, intField(1, 20), message(4, intField(1, 100), intField(2, 0), text(5, "worker")))),
    SLICE,
  ],
  track_hierarchy_missing_uuid: [packet(SEQUENCE, message(60, intField(1, 20), intField(5, 77), text(2, "ops"))), SLICE],
  packet_skipped_seq_needs_incremental_state_invalid: [TRACKS, packet(SEQUENCE, intField(8, 2000), intField(13, 2), message(11, intField(9, 3), intField(11, 20), text(23, "x")))],
  track_event_missing_sequence_id: [TRACKS, packet(intField(8, 2000), message(11, intField(9, 3), intField(11, 20), text(23, "x")))],
  clock_sync_failure_unknown_source_clock: [TRACKS, packet(SEQUENCE, intField(8, 2000), intField(58, 3), message(11, intField(9, 3), intField(11, 20), text(23, "x")))],
};

for (const [problem, parts] of Object.entries(FAULTS)) {
  test(`found: ${problem}`, async () => {
    const list = await found(...parts);
    assert.ok(list.includes(problem), `found only: ${list.join(", ")}`);
  });
}

test("a query answers with every type of cell", async () => {
  const engine = await Engine.start();
  const { columns, rows } = engine.query("select 1.5 as d, 9007199254740993 as big, -3 as n, null as z, 'a\tb' as s, '' as e, x'00ff' as b");
  assert.deepEqual(columns, ["d", "big", "n", "z", "s", "e", "b"]);
  assert.deepEqual(rows, [[1.5, 9007199254740993n, -3, null, "a\tb", "", "00ff"]]);
  assert.throws(() => engine.query("select nope"), /no such column/);
  assert.match(engine.version(), /^Perfetto v55\.3/);
});
