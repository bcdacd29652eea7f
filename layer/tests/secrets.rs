//! Secrets in texts of the program do not reach the log.

mod common;

use common::Recorded;
use rankscope_ranklog::mark::{FieldValue, MarkKind};
use std::collections::BTreeMap;
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

const SECRET: &str = "S3cretS3cret";

#[test]
fn child() {
    if !common::is_child() {
        return;
    }
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .init();
    common::wait_for_recorder();
    // The name of a secret is first seen as a value.
    info!(column = "hf_token");
    for _ in 0..3 {
        let _span = info_span!(
            "connect",
            url = "postgres://ann:S3cretS3cret@db/runs",
            hf_token = "S3cretS3cret",
            site_code = "S3cretS3cret",
            max_tokens = 4096,
            optimizer = "adam",
        )
        .entered();
        info!(
            api_key = "S3cretS3cret",
            "password=S3cretS3cret, next corp-S3cretS3cret"
        );
    }
}

#[test]
fn values_under_secret_names_and_secrets_in_texts_are_redacted() {
    if common::is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let variables = [
        ("RANKSCOPE_SECRET_NAMES", "site code"),
        ("RANKSCOPE_SECRET_PREFIXES", "corp-"),
    ];
    common::run("child", directory.path(), &variables);
    let recorded = Recorded::read(directory.path());
    assert_eq!(recorded.lost(), 0);
    let texts = &recorded.log.texts;
    assert!(texts.values().all(|text| !text.contains(SECRET)), "{texts:?}");
    for file in std::fs::read_dir(directory.path().join("run")).expect("a directory") {
        let bytes = std::fs::read(file.expect("an entry").path()).unwrap_or_default();
        let has_it = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!has_it);
    }
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for kind in [MarkKind::Field, MarkKind::EventField] {
        for (_, record) in recorded.marks(kind) {
            let value = FieldValue::from_bits(record.record.element_bytes, record.record.bytes);
            let shown = match value.expect("a known type") {
                FieldValue::Text(text) => texts[&text].clone(),
                other => format!("{other:?}"),
            };
            values.entry(recorded.text(record)).or_default().push(shown);
        }
    }
    for (name, shown) in [
        ("url", "postgres://ann:[redacted]@db/runs"),
        ("hf_token", "[redacted]"),
        ("site_code", "[redacted]"),
        ("api_key", "[redacted]"),
        ("optimizer", "adam"),
    ] {
        assert_eq!(values[name], [shown; 3], "{name}");
    }
    assert!(values["max_tokens"][0].contains("4096"), "{values:?}");
    let messages: Vec<&str> = recorded
        .marks(MarkKind::Event)
        .map(|(_, event)| recorded.text(event))
        .filter(|text| text.contains("password"))
        .collect();
    assert_eq!(messages, ["password=[redacted], next [redacted]"; 3]);
}
