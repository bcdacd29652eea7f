// Problems of an import. The engine exits with 0 and loads the rest even after it dropped a whole machine. It
// classifies some faults that lose data as severity "info".

/** Faults of severity info (or notice) that mean dropped or nameless events. */
const LOSSES_CALLED_INFO = [
  "track_event_parser_errors",
  "track_event_tokenizer_errors",
  "track_hierarchy_missing_uuid",
  "interned_data_tokenizer_errors",
  "packet_skipped_seq_needs_incremental_state_invalid",
  "tokenizer_skipped_packets",
  "flow_step_without_start",
  "flow_end_without_start",
];

/** Faults that leave no statistic, each as a count that must be 0. */
const SILENT = {
  "slices never ended (dur = -1)": "select count(*) from slice where dur = -1",
  "slices of negative duration": "select count(*) from slice where dur < -1",
  "slices without a name": "select count(*) from slice where name is null or name = ''",
  "tracks without a name": "select count(*) from track where (name is null or name = '') and type glob '*track_event*' and type not glob 'thread*' and type not glob 'process*'",
  // The plus sign prevents an answer by the column's declared type, which has no NULL.
  "counter samples without a value (NaN)": "select count(*) from counter where +value is null",
  "named threads of tid 0 (taken for the idle task)": "select count(*) from thread_track tt join thread t using (utid) where t.tid = 0 and exists (select 1 from slice s where s.track_id = tt.id)",
};

/** The problems of the trace that `engine` holds: lines `what TAB where TAB how often`. */
export function problems(engine) {
  const list = LOSSES_CALLED_INFO.map((name) => `'${name}'`).join(",");
  const { rows } = engine.query(
    `select name, coalesce(idx, ''), severity, value from stats where value <> 0 and (severity <> 'info' or name in (${list})) order by name, idx`,
  );
  const found = rows.map(([name, index, severity, value]) => `${name}\t${severity}${index === "" ? "" : `, index ${index}`}\t${value}`);
  for (const [what, sql] of Object.entries(SILENT)) {
    const count = engine.query(sql).rows[0][0];
    if (count !== 0) found.push(`${what}\tsilent\t${count}`);
  }
  return found;
}
