//! The JSON Schema of what `rankscope report --json` prints, made of the types that write it: their documentation is that of
//! the fields. `formats/SESSION.md` says what may change from version to version.

use super::{Document, SESSION_VERSION, Selection};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The schema of `report --json`, of draft 2020-12. It describes `session.json` too, which is the same without `pairs` and
/// `rollups`.
pub fn schema() -> Value {
    let mut schema = schema_of::<Document>(&format!("rankscope report --json, version {SESSION_VERSION}"));
    schema["properties"]["version"]["const"] = json!(SESSION_VERSION);
    schema
}

/// The schema of `report --range FROM..TO --json`, of draft 2020-12.
pub fn selection_schema() -> Value {
    schema_of::<Selection>(&format!(
        "rankscope report --range --json, of sessions of version {SESSION_VERSION}"
    ))
}

pub(crate) fn schema_of<T: JsonSchema>(title: &str) -> Value {
    // As it is written, not as it may be read: older versions lacked some fields.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    for_readers_of_json(&mut schema);
    schema["title"] = json!(title);
    schema
}

/// Links of Rust's documentation lead nowhere from JSON: the names stay.
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
