//! Tests that the output of `rankscope report --json` matches `rankscope report --schema`.
//!
//! Every field is documented and has the declared type, and no required field is missing.

use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::counters::{self, CounterSamples};
use rankscope_fixtures::sessions::{Job, damaged, structured, traffic};
use rankscope_formats::session::{SESSION_VERSION, Session, schema, selection_schema};
use rankscope_report::document;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::Command;

/// Returns the differences of a value from the schema, a line each. It is stricter than a validator: a field without a
/// schema would be undocumented, and an unknown keyword would not be checked, so both are errors.
fn differences(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let Value::Object(keywords) = schema else {
        return vec![format!("{place}: the schema allows anything")];
    };
    let mut wrong = Vec::new();
    for (keyword, of) in keywords {
        let is_met = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "properties" | "$defs" => true,
            // Names that are no fields, such as those of kinds. They are checked below.
            "additionalProperties" => true,
            "type" => is_of_type(of, value),
            "format" => is_of_format(of, value),
            "minimum" => value.as_f64().is_none_or(|value| Some(value) >= of.as_f64()),
            "maximum" => value.as_f64().is_none_or(|value| Some(value) <= of.as_f64()),
            "const" => of == value,
            "required" => names(of).all(|name| value.get(name).is_some()),
            "$ref" => {
                let target = of
                    .as_str()
                    .and_then(|of| root.pointer(of.trim_start_matches('#')));
                let target = target.unwrap_or_else(|| panic!("{place}: {of} is nowhere"));
                let mut inner = differences(root, target, value, place);
                wrong.append(&mut inner);
                continue;
            }
            "items" => {
                for (at, element) in value.as_array().into_iter().flatten().enumerate() {
                    let mut inner = differences(root, of, element, &format!("{place}/{at}"));
                    wrong.append(&mut inner);
                }
                continue;
            }
            "anyOf" => {
                let each = of.as_array().expect("a list").iter();
                let each: Vec<_> = each.map(|one| differences(root, one, value, place)).collect();
                if each.iter().all(|wrong| !wrong.is_empty()) {
                    // The last alternative is "or null".
                    wrong.extend(each.into_iter().next().unwrap_or_default());
                }
                continue;
            }
            // A closed set of names: each alternative has one, and its meaning.
            "oneOf" => {
                let alternatives = of.as_array().expect("a list").iter();
                let met = alternatives.filter(|one| differences(root, one, value, place).is_empty());
                met.count() == 1
            }
            other => panic!("{place}: nobody checks '{other}' here"),
        };
        if !is_met {
            let shown: String = value.to_string().chars().take(80).collect();
            wrong.push(format!("{place}: {shown} is not {keyword} {of}"));
        }
    }
    if let (Value::Object(fields), false) = (
        value,
        keywords.contains_key("$ref") || keywords.contains_key("anyOf"),
    ) {
        let none = Map::new();
        let known = keywords
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        for (name, field) in fields {
            match known.get(name) {
                Some(schema) => {
                    wrong.append(&mut differences(root, schema, field, &format!("{place}/{name}")))
                }
                None if keywords.contains_key("additionalProperties") => {
                    let of = &keywords["additionalProperties"];
                    wrong.append(&mut differences(root, of, field, &format!("{place}/{name}")));
                }
                None => wrong.push(format!("{place}/{name}: not documented")),
            }
        }
    }
    wrong
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let is_of = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type '{other}'"),
    };
    match types {
        Value::String(name) => is_of(name),
        several => names(several).any(is_of),
    }
}

fn is_of_format(format: &Value, value: &Value) -> bool {
    let Some(number) = value.as_number() else {
        return true;
    };
    match format.as_str() {
        Some("uint32") => number
            .as_u64()
            .is_some_and(|number| u32::try_from(number).is_ok()),
        Some("uint64") => number.is_u64(),
        Some("int64") => number.is_i64(),
        Some("double") => true,
        other => panic!("the format {other:?}"),
    }
}

fn expect_as_documented(name: &str, json: &Value) {
    expect_as_in(&schema(), name, json);
}

fn expect_as_in(schema: &Value, name: &str, json: &Value) {
    let wrong = differences(schema, schema, json, "");
    assert!(
        wrong.is_empty(),
        "{name}:\n{}",
        wrong[..wrong.len().min(20)].join("\n")
    );
}

fn document_of(session: &Session) -> Value {
    serde_json::to_value(document::of(session, &traffic(session))).expect("JSON")
}

fn rankscope(arguments: &[&str]) -> Vec<u8> {
    let done = Command::new(env!("CARGO_BIN_EXE_rankscope"))
        .args(arguments)
        .output();
    let done = done.expect("the program");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

#[test]
fn printed_sessions_match_the_schema() {
    let slow = Job {
        ranks: 8,
        steps: 60,
        slow: Some(5),
        hosts: 2,
    };
    for (name, session) in [
        ("1 rank", Job::new(1, 5).session()),
        ("8 ranks", slow.session()),
        ("damaged", damaged()),
        ("pipelines and named times", structured()),
    ] {
        expect_as_documented(name, &document_of(&session));
    }
    let folder = tempfile::tempdir().expect("a directory");
    let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hta");
    for files in [
        &["two_ranks_rank0", "two_ranks_rank1"][..],
        &["fsdp_rank3"],
        &["nccl_metadata_rank0"],
    ] {
        let run = folder.path().join(files[0]);
        let traces: Vec<String> = files
            .iter()
            .map(|file| traces.join(format!("{file}.json.gz")).display().to_string())
            .collect();
        let run = run.display().to_string();
        let mut arguments = vec!["import", "kineto", "--json", "--compat", "hta", "--output", &run];
        arguments.extend(traces.iter().map(String::as_str));
        let printed = rankscope(&arguments);
        expect_as_documented(files[0], &serde_json::from_slice(&printed).expect("JSON"));
        let reported = rankscope(&["report", "--json", &run]);
        expect_as_documented(files[0], &serde_json::from_slice(&reported).expect("JSON"));
        let window = rankscope(&["report", "--range", "0s..1h", "--json", &run]);
        let window = serde_json::from_slice(&window).expect("JSON");
        expect_as_in(&selection_schema(), files[0], &window);
        // The file is the same, but without the content of the tables and without sums over its own figures.
        let file =
            std::fs::read(folder.path().join(files[0]).join("session/session.json")).expect("a summary");
        let mut file: Value = serde_json::from_slice(&file).expect("JSON");
        let reported: Value = serde_json::from_slice(&reported).expect("JSON");
        for more in ["pairs", "rollups"] {
            file[more] = reported[more].clone();
        }
        assert_eq!(file, reported, "{}", files[0]);
    }
}

#[test]
fn a_window_with_counters_matches_the_schema() {
    let folder = tempfile::tempdir().expect("a directory");
    let job = Ddp {
        ranks: 2,
        steps: 20,
        ..Ddp::default()
    };
    let counters = |rank: u32| {
        let samples = |name: &str, values: [f64; 3]| CounterSamples {
            name: name.to_owned(),
            samples: (1..).map(|at| at * 3_000_000).zip(values).collect(),
        };
        vec![
            samples("loss", [2.5, f64::NAN, 1.5 + f64::from(rank)]),
            samples("broken_bytes", [f64::INFINITY; 3]),
        ]
    };
    counters::write(folder.path(), &job, counters).expect("logs");
    let run = folder.path().display().to_string();
    rankscope(&["merge", &run]);
    // The second window is before the first sample.
    for (range, is_known) in [("0s..1h", true), ("0s..1ms", false)] {
        let window = rankscope(&["report", "--range", range, "--json", &run]);
        let window: Value = serde_json::from_slice(&window).expect("JSON");
        expect_as_in(&selection_schema(), range, &window);
        let listed = window["counters"].as_array().expect("a list");
        assert_eq!(listed.len(), 4, "{range}");
        for counter in listed {
            assert_eq!(counter["figures"]["value"].is_object(), is_known, "{counter}");
            assert_eq!(counter["figures"]["reason"].is_string(), !is_known, "{counter}");
        }
    }
}

#[test]
fn every_field_has_a_description() {
    fn undocumented(schema: &Value, place: &str, wrong: &mut Vec<String>) {
        let Value::Object(keywords) = schema else { return };
        for (name, field) in keywords
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let is_described = field["description"].as_str().is_some_and(|text| text.len() > 2);
            if !is_described {
                wrong.push(format!("{place}/{name}"));
            }
            undocumented(field, &format!("{place}/{name}"), wrong);
        }
        for (name, of) in keywords
            .get("$defs")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            undocumented(of, &format!("{place}/{name}"), wrong);
        }
        for of in ["items", "additionalProperties"] {
            if let Some(each) = keywords.get(of) {
                undocumented(each, place, wrong);
            }
        }
    }
    for (argument, schema) in [("--schema", schema()), ("--schema=range", selection_schema())] {
        let mut wrong = Vec::new();
        undocumented(&schema, "", &mut wrong);
        assert_eq!(wrong, Vec::<String>::new(), "{argument}");
        let printed: Value = serde_json::from_slice(&rankscope(&["report", argument])).expect("JSON");
        assert_eq!(printed, schema);
        // Descriptions are for readers of JSON and contain no links of Rust documentation.
        assert!(!schema.to_string().contains("[`"), "{argument}");
    }
    assert_eq!(schema()["properties"]["version"]["const"], json!(SESSION_VERSION));
    let prose = include_str!("../../../formats/SESSION.md");
    assert!(
        prose.contains(&format!("version {SESSION_VERSION}")),
        "SESSION.md tells another version"
    );
}

/// Checks that the test above can fail.
#[test]
fn deviations_from_the_schema_are_found() {
    let schema = schema();
    let whole = document_of(&structured());
    for (pointer, wrong) in [
        ("/version", json!(SESSION_VERSION + 1)),
        ("/totals/operations", json!("many")),
        ("/totals/operations", json!(-1)),
        ("/totals/exposed_wait_rank_ns", json!(0.5)),
        ("/steps/duration_ns/value/p50", json!(null)),
        ("/ranks/0", json!({"name": "rank 0"})),
        ("/ranks/1/pid", json!(1u64 << 32)),
        ("/rollups/host/total/named/checkpoint", json!("long")),
        ("/rollups/role/roles/0/transfer_ns", json!(5)),
        ("/hosts", json!(null)),
        ("/tool", json!({"name": "x", "version": "y", "mood": "z"})),
    ] {
        let mut json = whole.clone();
        *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = wrong.clone();
        let found = differences(&schema, &schema, &json, "");
        assert!(!found.is_empty(), "{pointer} may be {wrong}");
        assert!(
            found.iter().all(|line| line.starts_with(pointer)),
            "{pointer}: {found:?}"
        );
    }
}
