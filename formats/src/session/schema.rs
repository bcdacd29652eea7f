//! JSON Schema of the output of `rankscope report --json`.
//!
//! It is generated from the types that write the output: their doc comments become the descriptions of the fields.
//! `formats/SESSION.md` says what may change between versions.

use super::{Document, PERIODS_VERSION, Periods, SESSION_VERSION, Selection};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the schema of `report --json`, in draft 2020-12. It also describes `session.json`, which is the same without
/// `pairs` and `rollups`.
pub fn schema() -> Value {
    let mut schema = schema_of::<Document>(&format!("rankscope report --json, version {SESSION_VERSION}"));
    schema["properties"]["version"]["const"] = json!(SESSION_VERSION);
    schema
}

/// Returns the schema of `report --range FROM..TO --json`, in draft 2020-12.
pub fn selection_schema() -> Value {
    schema_of::<Selection>(&format!(
        "rankscope report --range --json, of sessions of version {SESSION_VERSION}"
    ))
}

/// Returns the schema of `periods.json` and of `report --json` of a run in periods, in draft 2020-12.
pub fn periods_schema() -> Value {
    let mut schema = schema_of::<Periods>(&format!("periods of a run, version {PERIODS_VERSION}"));
    schema["properties"]["version"]["const"] = json!(PERIODS_VERSION);
    schema
}

/// Returns the schema of what is written of a type, in draft 2020-12.
pub fn schema_of<T: JsonSchema>(title: &str) -> Value {
    // Describes what is written, not what may be read: files of older versions lack some fields.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    for_readers_of_json(&mut schema);
    schema["title"] = json!(title);
    schema
}

/// Replaces rustdoc links by the plain names, because the links lead nowhere from JSON.
fn for_readers_of_json(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::String(said)) = keywords.get_mut("description") {
                *said = said
                    .replace("[`super::", "`")
                    .replace("[`", "`")
                    .replace("`]", "`");
            }
            keywords.values_mut().for_each(for_readers_of_json);
        }
        Value::Array(several) => several.iter_mut().for_each(for_readers_of_json),
        _ => {}
    }
}
