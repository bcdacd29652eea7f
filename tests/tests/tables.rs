//! Tests that the tables of a session are Parquet files that other readers accept.
//!
//! rankscope's own encoders write them. Arrow and DuckDB find in them, value by value, what the Parquet library of
//! rankscope's reader finds.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rankscope_tests::cupti_run::{Settings, run};
use rankscope_tests::{artefacts, process, skip, turn};
use serde_json::Value;

/// Modulus of the sums.
const PRIME: u128 = (1 << 61) - 1;

fn number(field: &Field) -> Option<u128> {
    let of_signed = |value: i128| value.rem_euclid(PRIME as i128) as u128;
    Some(match field {
        Field::Null => return None,
        Field::Bool(value) => u128::from(*value),
        Field::Byte(value) => of_signed(i128::from(*value)),
        Field::Short(value) => of_signed(i128::from(*value)),
        Field::Int(value) => of_signed(i128::from(*value)),
        Field::Long(value) => of_signed(i128::from(*value)),
        Field::UByte(value) => u128::from(*value),
        Field::UShort(value) => u128::from(*value),
        Field::UInt(value) => u128::from(*value),
        Field::ULong(value) => u128::from(*value) % PRIME,
        Field::Double(value) => u128::from(value.to_bits()) % PRIME,
        Field::Str(text) => text
            .bytes()
            .fold(0, |sum, byte| (sum * 256 + u128::from(byte)) % PRIME),
        other => panic!("no table has {other:?}"),
    })
}

/// Returns the number of rows, and for each column the number of values and a sum in which each value is weighted by
/// its position.
fn sums(path: &Path) -> (u64, BTreeMap<String, (u64, u128)>) {
    let reader = SerializedFileReader::new(File::open(path).expect("a table")).expect("Parquet");
    let mut columns: BTreeMap<String, (u64, u128)> = BTreeMap::new();
    let mut rows = 0;
    for row in reader.get_row_iter(None).expect("rows") {
        rows += 1;
        for (name, field) in row.expect("a row").get_column_iter() {
            let sum = columns.entry(name.clone()).or_default();
            if let Some(value) = number(field) {
                sum.0 += 1;
                sum.1 = (sum.1 + u128::from(rows) * (value + 1)) % PRIME;
            }
        }
    }
    (rows, columns)
}

fn tables(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn arrow_and_duckdb_read_every_table_alike() {
    let turn = turn::take();
    let setup = artefacts::root().join("tests/setup/tables.sh");
    let output = Command::new(setup).output().expect("the script runs");
    let python = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if python.is_empty() {
        skip("no readers of Parquet to compare with");
        return;
    }
    let settings = Settings {
        steps: 150,
        more: &[("CUPTI_JOB_LATE", "1")],
        ..Settings::default()
    };
    let Some(run) = run(&turn, &settings) else { return };
    run.expect_well().session();
    let files = tables(run.directory.path());
    let kinds: Vec<String> = files
        .iter()
        .filter_map(|file| Some(file.parent()?.file_name()?.to_string_lossy().into_owned()))
        .collect();
    for kind in ["operations", "works", "spans", "steps", "stalls", "names"] {
        assert!(
            kinds.iter().any(|found| found == kind),
            "{kind} is not in {kinds:?}"
        );
    }
    let mut command = Command::new(python);
    command
        .arg(artefacts::root().join("tests/programs/table_sums.py"))
        .args(&files);
    let reported = process::run(command, Duration::from_secs(120));
    let mut readers: BTreeMap<(String, String), Value> = BTreeMap::new();
    for line in reported.text().lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |of: &str| value[of].as_str().expect("a text").to_owned();
        readers.insert((text("file"), text("reader")), value);
    }
    let mut values = 0;
    for file in &files {
        let (rows, columns) = sums(file);
        for reader in ["arrow", "duckdb"] {
            let found = &readers[&(file.display().to_string(), reader.to_owned())];
            let theirs = found["columns"].as_object().expect("columns");
            assert_eq!(found["rows"], rows, "{reader}: {}", file.display());
            if rows > 0 {
                assert_eq!(theirs.len(), columns.len(), "{reader}: {}", file.display());
            }
            for (name, &(there, sum)) in &columns {
                let theirs = &theirs[name];
                assert_eq!(
                    (&theirs[0], theirs[1].as_u64().map(u128::from)),
                    (&Value::from(there), Some(sum)),
                    "{reader}: {name} of {}",
                    file.display()
                );
                values += there;
            }
        }
    }
    assert!(values > 100_000, "{values} values");
}
