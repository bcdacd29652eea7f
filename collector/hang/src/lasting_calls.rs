//! Which calls of this machine's processes last, without reading their records: what a watcher does every second.

use rankscope_ranklog::peek::{self, CallIdentity};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Calls in progress, with the time at which each was first seen.
#[derive(Debug, Default)]
pub struct LastingCalls {
    since: BTreeMap<(PathBuf, CallIdentity), Instant>,
}

impl LastingCalls {
    /// Reads the calls in progress of these live areas. Returns the time for which the oldest one was seen.
    pub fn look<'a>(&mut self, areas: impl IntoIterator<Item = &'a PathBuf>, now: Instant) -> Duration {
        let mut since = BTreeMap::new();
        for area in areas {
            // A process that has ended has no area. The next full look shows that.
            let Ok(calls) = peek::calls(area) else { continue };
            for call in calls {
                let key = (area.clone(), call);
                let first = self.since.get(&key).copied().unwrap_or(now);
                since.insert(key, first);
            }
        }
        self.since = since;
        let oldest = self.since.values().min();
        oldest.map_or(Duration::ZERO, |&first| now.saturating_duration_since(first))
    }
}
