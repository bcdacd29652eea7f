//! Members of a dump, collected one by one from any source of serde. If the source fails, what was collected remains.

use super::dump::{Dump, Entry, Frame, ProcessGroup, State};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Parts of the paths of PyTorch's own files.
const PYTORCH: [&str; 5] = [
    "packages/torch/",
    "/torch/distributed/",
    "/torch/nn/",
    "/torch/autograd/",
    "/torch/_",
];

/// Reads a dump into `dump`.
///
/// # Errors
///
/// If the source fails, or is no dictionary. What precedes the failure is in `dump`.
pub fn collect<'de, D: Deserializer<'de>>(source: D, dump: &mut Dump) -> Result<(), D::Error> {
    source.deserialize_map(Members(dump))
}

struct Members<'d>(&'d mut Dump);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a dictionary with the member entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Value>()? {
            match name.as_str().unwrap_or_default() {
                "version" => self.0.version = text(members.next_value()?),
                // Since version 2.10 `comm_lib_version`.
                "nccl_version" | "comm_lib_version" => self.0.library_version = text(members.next_value()?),
                "pg_config" => self.0.groups = groups(members.next_value()?),
                "entries" => {
                    self.0.has_entries = true;
                    members.next_value_seed(Entries(self.0))?;
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The list of operations.
struct Entries<'d>(&'d mut Dump);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of operations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_element_seed(OneEntry(self.0))?.is_some() {}
        Ok(())
    }
}

/// One operation. It is added to the dump when all of its members were read.
struct OneEntry<'d>(&'d mut Dump);

impl<'de> DeserializeSeed<'de> for OneEntry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneEntry<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an operation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut entry = Entry::default();
        while let Some(name) = members.next_key::<Value>()? {
            match name.as_str().unwrap_or_default() {
                "frames" => entry.caller = members.next_value_seed(Caller)?,
                name if is_used(name) => set(&mut entry, name, members.next_value()?),
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.entries.push(entry);
        Ok(())
    }
}

fn is_used(name: &str) -> bool {
    matches!(
        name,
        "record_id"
            | "process_group"
            | "pg_name"
            | "collective_seq_id"
            | "seq_id"
            | "p2p_seq_id"
            | "is_p2p"
            | "profiling_name"
            | "time_created_ns"
            | "time_discovered_started_ns"
            | "time_discovered_completed_ns"
            | "input_sizes"
            | "input_dtypes"
            | "output_sizes"
            | "output_dtypes"
            | "state"
            | "retired"
    )
}

/// Sets a member of an operation. A value of another type is ignored.
fn set(entry: &mut Entry, name: &str, value: Value) {
    match name {
        "record_id" => entry.record = value.as_u64(),
        "process_group" | "pg_name" => {
            // Before version 2.0 it is the name alone.
            (entry.group, entry.group_description) = match value {
                Value::Array(list) => {
                    let mut list = list.into_iter();
                    (list.next().and_then(text), list.next().and_then(text))
                }
                other => (text(other), None),
            };
        }
        "collective_seq_id" | "seq_id" => entry.collective = value.as_u64(),
        "p2p_seq_id" => entry.message = value.as_u64(),
        "is_p2p" => entry.is_message = value.as_bool().unwrap_or(false),
        "profiling_name" => entry.name = text(value).unwrap_or_default(),
        "time_created_ns" => entry.created_ns = time(&value),
        "time_discovered_started_ns" => entry.found_started_ns = time(&value),
        "time_discovered_completed_ns" => entry.found_completed_ns = time(&value),
        "input_sizes" => entry.input_elements = elements(&value),
        "output_sizes" => entry.output_elements = elements(&value),
        "input_dtypes" => entry.input_type = first_type(value),
        "output_dtypes" => entry.output_type = first_type(value),
        "state" => {
            entry.state = match value.as_str() {
                Some("completed") => State::Completed,
                Some("started") => State::Started,
                Some("scheduled") => State::Scheduled,
                _ => State::Unknown,
            };
        }
        "retired" => entry.is_retired = value.as_bool().unwrap_or(false),
        _ => {}
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a time, which is 0 in JSON and `None` in a pickle if it is unknown.
fn time(value: &Value) -> Option<i64> {
    value.as_i64().filter(|&ns| ns > 0)
}

/// Returns the number of elements of all tensors.
fn elements(sizes: &Value) -> Option<u64> {
    let tensors = sizes.as_array().filter(|tensors| !tensors.is_empty())?;
    tensors.iter().try_fold(0u64, |sum, tensor| {
        let product = tensor
            .as_array()?
            .iter()
            .try_fold(1u64, |product, size| product.checked_mul(size.as_u64()?));
        sum.checked_add(product?)
    })
}

/// Returns the element type, if all tensors have the same.
fn first_type(types: Value) -> Option<String> {
    let Value::Array(types) = types else { return None };
    let is_same = types.windows(2).all(|pair| pair[0] == pair[1]);
    types.into_iter().next().filter(|_| is_same).and_then(text)
}

/// Returns the process groups. Their `ranks` are a text: `"[0, 1]"`.
fn groups(config: Value) -> Vec<ProcessGroup> {
    let Value::Object(config) = config else {
        return Vec::new();
    };
    config
        .into_iter()
        .filter_map(|(name, mut group)| {
            let ranks = match group.get("ranks")? {
                Value::String(list) => serde_json::from_str(list).ok()?,
                list => serde_json::from_value(list.clone()).ok()?,
            };
            let description = group.get_mut("desc").map(Value::take).and_then(text);
            Some(ProcessGroup {
                name,
                description: description.unwrap_or_default(),
                ranks,
            })
        })
        .collect()
}

/// The innermost frame of the program in a stack.
struct Caller;

impl<'de> DeserializeSeed<'de> for Caller {
    type Value = Option<Frame>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Option<Frame>, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Caller {
    type Value = Option<Frame>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of frames")
    }

    fn visit_unit<E>(self) -> Result<Option<Frame>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut frames: A) -> Result<Option<Frame>, A::Error> {
        // The innermost frame is the first one.
        let mut found = None;
        while found.is_none() {
            let Some(frame) = frames.next_element::<Value>()? else {
                return Ok(None);
            };
            found = program_frame(&frame);
        }
        while frames.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Returns a frame that is not PyTorch's own.
fn program_frame(frame: &Value) -> Option<Frame> {
    let file = frame.get("filename")?.as_str()?;
    let is_own = PYTORCH.iter().any(|part| file.contains(part)) || file.starts_with('<');
    // Frames of C++ have no file.
    let is_program = !is_own && !file.is_empty() && file != "??";
    is_program.then(|| Frame {
        function: frame
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        file: file.to_owned(),
        line: frame.get("line").and_then(Value::as_u64).unwrap_or(0),
    })
}
