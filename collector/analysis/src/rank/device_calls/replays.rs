//! Replays of captured calls. A captured call is a template: each run of its graph is a separate operation.

use super::call_key::CallKey;
use super::call_work::CallWork;
use super::launches::LaunchNumber;
use crate::rank::event::DeviceReport;
use rustc_hash::FxHashMap;

/// Maximum number of captured calls that are distinguished.
const MAX_TEMPLATES: usize = 1 << 18;

/// A captured call.
#[derive(Clone, Copy)]
struct Template {
    parts: u8,
    launch: Option<LaunchNumber>,
    replays: u32,
    /// Device work of the current replay.
    current: CallWork,
}

/// Device work of a replay of a captured call.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// Its device work.
    pub work: CallWork,
    /// Number of the replay, from 1.
    pub number: u32,
    /// The launch of its template.
    pub launch: Option<LaunchNumber>,
}

/// Result of a report of a replay.
pub enum Replayed {
    /// Too many captured calls are known, and this is another one.
    OfUnknownCall,
    /// Further reports of the replay will arrive.
    Partly,
    /// The report completes the replay.
    Whole(Replay),
}

/// The captured calls of one rank.
#[derive(Default)]
pub struct Replays {
    templates: FxHashMap<CallKey, Template>,
}

impl Replays {
    /// Adds a captured call with this number of expected reports per replay.
    pub fn captured(&mut self, key: CallKey, parts: u8, launch: Option<LaunchNumber>) {
        if self.templates.len() < MAX_TEMPLATES {
            self.templates.insert(key, Template::new(parts, launch));
        }
    }

    /// Adds a report of a replay.
    pub fn reported(&mut self, report: &DeviceReport) -> Replayed {
        let key = CallKey::of(&report.fields);
        if self.templates.len() >= MAX_TEMPLATES && !self.templates.contains_key(&key) {
            return Replayed::OfUnknownCall;
        }
        // If the record of the captured call is missing: nearly all calls have one part.
        let template = self.templates.entry(key).or_insert(Template::new(1, None));
        template.current.add(report);
        if template.current.parts < u32::from(template.parts) {
            return Replayed::Partly;
        }
        template.replays += 1;
        Replayed::Whole(Replay {
            work: std::mem::take(&mut template.current),
            number: template.replays,
            launch: template.launch,
        })
    }
}

impl Template {
    fn new(parts: u8, launch: Option<LaunchNumber>) -> Self {
        Self {
            parts,
            launch,
            replays: 0,
            current: CallWork::default(),
        }
    }
}
