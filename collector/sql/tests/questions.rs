//! The questions of the book, on two runs; and numbers of queries, compared with those of the summaries.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use rankscope_analysis::merge::{MergeOptions, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::counters::{self, CounterSamples};
use rankscope_fixtures::periods::{LATER, SECOND_NS, in_periods, options};
use rankscope_formats::session::{InstanceRow, Session, TableReader, part_path};
use rankscope_sql::output::{self, Format};
use rankscope_sql::{Engine, EngineOptions, Runs};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const BOOK: &str = include_str!("../../../docs/book/src/how-to/sql.md");

/// Both runs, as a user would have them in one folder.
struct Fixture {
    folder: tempfile::TempDir,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let yesterday = Ddp {
        hosts: 2,
        noise: 3,
        ..Ddp::default()
    };
    // A slow rank, and transfers that take twice as long.
    let today = Ddp {
        slow: Some((2, 400_000)),
        transfer_ns: 100_000,
        ..yesterday.clone()
    };
    for (name, job) in [("yesterday", &yesterday), ("today", &today)] {
        let run = folder.path().join(name);
        std::fs::create_dir(&run).expect("a folder");
        counters::write(&run, job, |rank| {
            let at = |number: u32| (u64::from(number) * 1_000_000, f64::from(rank * 100 + number));
            vec![CounterSamples {
                name: "queue_bytes".to_owned(),
                samples: (0..60).map(at).collect(),
            }]
        })
        .expect("logs");
        let options = MergeOptions {
            directories: vec![run.clone()],
            output: run.join("session"),
            threads: Some(2),
            most_pending: None,
            origins: Vec::new(),
        };
        merge(&options, &mut |_| {}).expect("a session");
    }
    Fixture { folder }
});

impl Fixture {
    fn run(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn session(&self, name: &str) -> Session {
        Session::read(&self.run(name).join("session")).expect("a session")
    }
}

fn engine(paths: &[PathBuf]) -> Engine {
    let options = EngineOptions {
        memory_bytes: 64 << 20,
        threads: 2,
    };
    Engine::new(&Runs::open(paths).expect("runs"), options).expect("an engine")
}

fn both() -> Engine {
    engine(&[FIXTURE.folder.path().to_path_buf()])
}

fn ask(engine: &Engine, query: &str) -> Result<Vec<RecordBatch>, String> {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let (_, rows) = engine.query(query).await.map_err(|error| format!("{error:#}"))?;
        rows.try_collect().await.map_err(|error| error.to_string())
    })
}

fn answer(engine: &Engine, query: &str) -> Vec<RecordBatch> {
    ask(engine, query).unwrap_or_else(|error| panic!("{error}\n{query}"))
}

/// Returns the questions of the book, with their queries.
fn questions() -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for part in BOOK.split("\n**").skip(1) {
        let (title, rest) = part.split_once("**").expect("a title");
        let (_, query) = rest.split_once("```sql\n").expect("a query");
        let (query, _) = query.split_once("```").expect("its end");
        found.push((title, query));
    }
    found
}

#[test]
fn the_questions_of_the_book_have_answers() {
    let engine = both();
    let questions = questions();
    assert_eq!(questions.len(), 20);
    let mut all = String::new();
    let mut empty = Vec::new();
    for (title, query) in questions {
        let rows = answer(&engine, query);
        if rows.iter().all(|batch| batch.num_rows() == 0) {
            empty.push(title.split_once('.').expect("a number").0);
        }
        let table = pretty_format_batches(&rows).expect("a table");
        all.push_str(&format!("{title}\n{table}\n\n"));
    }
    // These runs ended well, and their program requested no other operations.
    assert_eq!(empty, ["11", "12", "14"]);
    insta::assert_snapshot!(all);
}

#[test]
fn numbers_equal_those_of_the_summary() {
    let engine = both();
    for name in ["yesterday", "today"] {
        let session = FIXTURE.session(name);
        let count = format!("select count(*) from operations where run = '{name}'");
        let rows = answer(&engine, &count);
        let counted = rows[0].column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!(counted as u64, session.totals.operations);
        // Percentiles of each class, by the same sketch.
        let mut classes = 0;
        for class in &session.operations {
            let (Ok(transfer), Ok(bus), Some(from)) = (
                class.transfer_ns.get(),
                class.bus_bytes_per_s.get(),
                class.size_from_bytes,
            ) else {
                continue;
            };
            let query = format!(
                "select percentile(transfer_ns, 0.5), percentile(transfer_ns, 0.99), percentile(bus_bytes_per_s, 0.25),
                        min(size_class(size_bytes)), count(*)
                 from instances where run = '{name}' and operation = '{}' and size_class(size_bytes) = {}
                 and state = 'complete'",
                class.operation, from
            );
            let rows = answer(&engine, &query);
            let number = |column: usize| rows[0].column(column).as_primitive::<Float64Type>().value(0);
            assert_eq!(
                [number(0), number(1), number(2)],
                [transfer.p50, transfer.p99, bus.p25],
                "{query}"
            );
            let lower = rows[0].column(3).as_primitive::<UInt64Type>().value(0);
            assert_eq!(lower, from);
            classes += 1;
        }
        assert!(classes > 0);
    }
}

#[test]
fn functions_give_the_columns_of_the_tables() {
    let rows = answer(
        &both(),
        "select bus_bytes_per_s, busbw(operation, size_bytes, transfer_ns, members),
                algorithm_bytes_per_s, algbw(size_bytes, transfer_ns)
         from instances where bus_bytes_per_s is not null",
    );
    let mut compared = 0;
    for batch in &rows {
        for pair in [0, 2] {
            let of = |column: usize| batch.column(column).as_primitive::<Float64Type>();
            for (table, function) in of(pair).iter().zip(of(pair + 1)) {
                let (table, function) = (table.expect("a number"), function.expect("a number"));
                assert!((table / function - 1.0).abs() < 1e-12, "{table} {function}");
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
    let rows = answer(
        &both(),
        "select busbw('barrier', 0, 5, 4), busbw('AllReduce', 1000, 1000, 4), busbw('all-reduce', 1000, 0, 4),
                algbw(-5, 3), size_class(-1), size_class(18446744073709551615), busbw(null, 1, 1, 1), overlaps(null, 1, 0, 1),
                overlaps(0, 5, 5, 9), overlaps(0, 5, 4, 9), overlap_ns(0, 5, 3, 9), size_class(0), size_class(1025)",
    );
    let shown = pretty_format_batches(&rows).expect("a table").to_string();
    let values: Vec<&str> = shown
        .lines()
        .nth(3)
        .expect("a row")
        .split('|')
        .map(str::trim)
        .collect();
    let expected = [
        "",
        "1500000000.0",
        "",
        "",
        "",
        "9223372036854775808",
        "",
        "",
        "false",
        "true",
        "2",
        "0",
        "1024",
    ];
    assert_eq!(values[1..14], expected, "{shown}");
}

#[test]
fn rows_equal_those_that_rankscope_reads() {
    let path = part_path::<InstanceRow>(&FIXTURE.run("today").join("session"));
    let read = TableReader::<InstanceRow>::read_all(&path).expect("rows");
    let rows = answer(
        &both(),
        "select start_ns, size_bytes from instances where run = 'today' order by instance",
    );
    let mut found = Vec::new();
    for batch in &rows {
        let starts = batch.column(0).as_primitive::<Int64Type>();
        let sizes = batch.column(1).as_primitive::<UInt64Type>();
        found.extend(starts.iter().zip(sizes));
    }
    let mut read: Vec<_> = read
        .iter()
        .map(|row| (row.instance, Some(row.start_ns), row.size_bytes))
        .collect();
    read.sort_unstable();
    assert_eq!(found, read.iter().map(|row| (row.1, row.2)).collect::<Vec<_>>());
}

#[test]
fn conditions_on_runs_and_ranks_skip_files() {
    let engine = both();
    let files = |query: &str| {
        let plan = pretty_format_batches(&answer(&engine, &format!("explain {query}"))).expect("a table");
        plan.to_string().matches(".parquet").count()
    };
    let all = "select sum(bytes) from operations";
    let (whole, part) = (
        files(all),
        files(&format!("{all} where rank = 1 and run = 'today'")),
    );
    assert!(whole > part && part == 1, "{whole} {part}");
    assert_eq!(files(&format!("{all} where run = 'tomorrow'")), 0);
    let rows = answer(&engine, &format!("{all} where run = 'tomorrow'"));
    assert_eq!(rows[0].column(0).null_count(), 1, "an empty sum");
    // A condition on a rank and a row.
    let rows = answer(
        &engine,
        "select count(*) from operations where rank = 1 or operation = 'broadcast' and run = 'today'",
    );
    let expected = rows[0].column(0).as_primitive::<Int64Type>().value(0);
    let per_rank = FIXTURE.session("today").totals.operations / 4;
    assert_eq!(
        expected as u64,
        2 * per_rank + 3 * 2,
        "rank 1 of both runs, and two broadcasts of three ranks"
    );
}

#[test]
fn all_forms_have_all_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "select run, rank, step, late, own_delay_ns, kind from steps order by run, rank, step";
    let engine = both();
    let expected: usize = answer(&engine, query).iter().map(RecordBatch::num_rows).sum();
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let write = |format: Format, query: &str, max_rows: usize| {
        let mut out = Vec::new();
        let written = runtime
            .block_on(async { output::write(engine.query(query).await?, format, max_rows, &mut out).await })
            .expect("a result");
        (written, out)
    };
    let (written, csv) = write(Format::Csv, query, 3);
    assert_eq!((written.rows, written.is_cut), (expected, false));
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), expected + 1);
    assert!(csv.starts_with("run,rank,step,late,own_delay_ns,kind\n"), "{csv}");
    let (_, json) = write(Format::Json, query, 3);
    let json: Vec<serde_json::Value> = String::from_utf8(json)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(json.len(), expected);
    assert!(
        json.iter()
            .all(|row| row["kind"] == "train" && row.as_object().expect("an object").len() == 6)
    );
    let (_, parquet) = write(Format::Parquet, query, 3);
    let path = folder.path().join("steps.parquet");
    std::fs::write(&path, parquet).expect("a file");
    let read = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(
        File::open(&path).expect("a file"),
        1000,
    )
    .expect("Parquet");
    assert_eq!(
        read.map(|batch| batch.expect("rows").num_rows()).sum::<usize>(),
        expected
    );
    let (written, table) = write(Format::Table, query, 3);
    assert_eq!((written.rows, written.is_cut), (3, true));
    assert_eq!(String::from_utf8(table).expect("text").lines().count(), 7);
    let (written, _) = write(Format::Table, query, expected);
    assert_eq!((written.rows, written.is_cut), (expected, false));
    let none = "select run, rank from steps where rank > 77";
    for (format, shown) in [(Format::Csv, "run,rank\n"), (Format::Json, "")] {
        assert_eq!(String::from_utf8(write(format, none, 3).1).expect("text"), shown);
    }
    assert!(
        String::from_utf8(write(Format::Table, none, 3).1)
            .expect("text")
            .contains("run | rank")
    );
}

#[test]
fn every_column_is_described() {
    let rows = answer(
        &both(),
        "select i.table_name, i.column_name from information_schema.columns i
         left join columns c on i.table_name = c.table_name and i.column_name = c.column_name
         where i.table_schema = 'public' and (c.meaning is null or length(c.meaning) < 4)",
    );
    let missing: usize = rows.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(missing, 0, "{}", pretty_format_batches(&rows).expect("a table"));
    let rows = answer(
        &both(),
        "select meaning from columns where meaning like '%super::%' or meaning like '%[`%' or meaning like '%::%'",
    );
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[test]
fn bad_input_is_named() {
    let failure = |paths: &[PathBuf]| match Runs::open(paths) {
        Ok(_) => panic!("no error"),
        Err(error) => format!("{error:#}"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = failure(&[folder.path().to_path_buf()]);
    assert!(nothing.contains("rankscope merge"), "{nothing}");
    let absent = failure(&[folder.path().join("absent")]);
    assert!(absent.contains("absent"), "{absent}");
    let wrong = ask(&both(), "select busbandwidth from instances").expect_err("no such column");
    assert!(wrong.contains("busbandwidth"), "{wrong}");
    let arguments = ask(&both(), "select busbw(5, 3) from operations").expect_err("no such arguments");
    assert!(
        arguments.contains("busbw(operation, bytes, ns, ranks)"),
        "{arguments}"
    );
    let share = ask(&both(), "select percentile(bytes, 5) from operations").expect_err("no share");
    assert!(share.contains("from 0 to 1"), "{share}");

    for statement in [
        "drop table runs",
        "insert into runs select * from runs",
        "copy (select 1) to '/tmp/x.csv'",
    ] {
        let refused = ask(&both(), statement).expect_err("a query only reads");
        assert!(refused.contains("not supported"), "{refused}");
    }
    let distinct =
        ask(&both(), "select percentile(distinct bytes, 0.5) from operations").expect_err("not done");
    assert!(distinct.contains("distinct"), "{distinct}");

    // A truncated table: the others can be read.
    let copy = folder.path().join("today");
    copy_session(&FIXTURE.run("today").join("session"), &copy);
    let path = copy.join("operations/rank=1.parquet");
    let bytes = std::fs::read(&path).expect("a table");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("a table");
    let engine = engine(&[copy]);
    let damaged = ask(&engine, "select sum(bytes) from operations").expect_err("it is damaged");
    assert!(damaged.contains("rank=1.parquet"), "{damaged}");
    answer(&engine, "select sum(bytes) from operations where rank <> 1");
}

#[test]
fn percentiles_of_negative_values_and_of_parts() {
    let rows = answer(
        &both(),
        "with numbers as (select cast(value as double) - 500 as v from unnest(range(1001)) t(value))
         select percentile(v, 0), percentile(v, 0.1), percentile(v, 0.5), percentile(v, 0.9), percentile(v, 1),
                percentile(case when v > 1000 then v end, 0.5), percentile(cast('nan' as double), 0.5) from numbers",
    );
    let number = |column: usize| {
        let column = rows[0].column(column).as_primitive::<Float64Type>();
        (!column.is_null(0)).then(|| column.value(0))
    };
    for (column, exact) in [(0, -500.0), (1, -399.0), (2, 0.0), (3, 400.0), (4, 500.0)] {
        let found: f64 = number(column).expect("a number");
        assert!(
            (found - exact).abs() <= f64::abs(exact) / 64.0 + 1.0,
            "{column}: {found} is not {exact}"
        );
    }
    assert_eq!([number(5), number(6)], [None, None]);
}

/// Each period is a run, and together the periods have all operations.
#[test]
fn periods_are_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("pretrain");
    Ddp::of_long_steps(200).write(&run).expect("written");
    let list = in_periods(&run, &run.join("session"), 7 * SECOND_NS, LATER);
    assert!(list.periods.len() > 2, "{}", list.periods.len());
    let query =
        "select run, count(*), cast(sum(bytes) as bigint unsigned) from operations group by run order by run";
    let rows = answer(&engine(std::slice::from_ref(&run)), query);
    let mut found = Vec::new();
    for batch in &rows {
        let runs = arrow::compute::cast(batch.column(0), &DataType::Utf8).expect("text");
        let counts = batch.column(1).as_primitive::<Int64Type>();
        let bytes = batch.column(2).as_primitive::<UInt64Type>();
        for row in 0..batch.num_rows() {
            let run = runs.as_string::<i32>().value(row).to_owned();
            found.push((run, counts.value(row) as u64, bytes.value(row)));
        }
    }
    let expected = list.periods.iter().map(|period| {
        let name = format!("pretrain/{}", period.name);
        (name, period.operations, period.bytes)
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    let whole = folder.path().join("whole");
    merge(&options(&run, &whole), &mut |_| {}).expect("merged");
    let whole = Session::read(&whole).expect("a session").totals.operations;
    assert_eq!(
        found.iter().map(|(_, operations, _)| operations).sum::<u64>(),
        whole
    );
}

fn copy_session(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_session(&entry.path(), &target),
            false => {
                std::fs::copy(entry.path(), target).expect("a copy");
            }
        }
    }
}
