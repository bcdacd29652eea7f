//! The JSON Schema of what `rankscope report --json` prints, made of the types that write it: their documentation is that of
//! the fields. `formats/SESSION.md` says what may change from version to version.

use super::{Document, SESSION_VERSION};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The schema, of draft 2020-12. It describes `session.json` too, which is the same without `pairs` and
/// `rollups`.
pub fn schema() -> Value {
    // As it is written, not as it may be read: older versions lacked some fields.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Document>()
        .to_value();
    for_readers_of_json(&mut schema);
    schema["title"] = json!(format!("rankscope report --json, version {SESSION_VERSION}"));
    schema["properties"]["version"]["const"] = json!(SESSION_VERSION);
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
