//! Replays of captured calls. A captured call is a template: each run of its graph is a separate operation.

use super::call_key::CallKey;
use super::call_work::CallWork;
use super::launches::LaunchNumber;
use crate::rank::event::DeviceReport;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

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

/// A captured call of an earlier part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarriedTemplate {
    key: CallKey,
    parts: u8,
    /// Position of its launch in the list of carried launches.
    launch: Option<u32>,
    replays: u32,
    /// Number of reports of the current replay.
    reports: u32,
}

/// Counts a report that was stored late, and belongs to the earlier part of the log.
pub fn reported_late(templates: &mut [CarriedTemplate], report: &DeviceReport) {
    let key = CallKey::of(&report.fields);
    let known = templates.iter_mut().find(|template| template.key == key);
    if let Some(template) = known {
        template.reports += 1;
        if template.reports >= u32::from(template.parts) {
            (template.replays, template.reports) = (template.replays + 1, 0);
        }
    }
}

/// The captured calls of one rank.
#[derive(Clone, Default)]
pub struct Replays {
    templates: FxHashMap<CallKey, Template>,
}

impl Replays {
    /// Returns what a later part of the log needs. `place` returns the position of a launch in a list.
    pub fn carried(&self, mut place: impl FnMut(LaunchNumber) -> u32) -> Vec<CarriedTemplate> {
        let mut templates: Vec<_> = self.templates.iter().collect();
        templates.sort_by_key(|(key, _)| **key);
        let carry = |(&key, template): (&CallKey, &Template)| CarriedTemplate {
            key,
            parts: template.parts,
            launch: template.launch.map(&mut place),
            replays: template.replays,
            reports: template.current.parts,
        };
        templates.into_iter().map(carry).collect()
    }

    /// Goes on after an earlier part of the log. `launches` are the carried launches.
    pub fn resume(&mut self, carried: &[CarriedTemplate], launches: &[Option<LaunchNumber>]) {
        for template in carried {
            let launch = template.launch.and_then(|launch| *launches.get(launch as usize)?);
            let resumed = Template {
                replays: template.replays,
                current: CallWork::without_times(template.reports),
                ..Template::new(template.parts, launch)
            };
            self.templates.insert(template.key, resumed);
        }
    }

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
