//! Launches that CUDA events measure. All calls of a group on one stream have one launch.

use super::call_key::CallKey;
use super::device_interval::DeviceInterval;
use crate::rank::event::{DeviceReport, Enqueue};
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Maximum number of groups whose streams are stored.
const MAX_GROUPS: u32 = 4096;

/// Times of a launch on its device's clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EventTimes {
    /// They may still arrive.
    Pending,
    /// They are known; `None` if the launch has no times.
    Known(Option<DeviceInterval>),
}

/// A launch.
#[derive(Clone, Copy)]
struct Launch {
    /// Number of calls that wait for it.
    users: u32,
    times: EventTimes,
}

/// The calls of a group on one stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct OnStream {
    group: u32,
    stream: u64,
}

/// The launches of one rank.
#[derive(Default)]
pub struct EventLaunches {
    launches: FxHashMap<CallKey, Launch>,
    /// Call under whose key the launch of a group is reported.
    leaders: FxHashMap<OnStream, CallKey>,
}

impl EventLaunches {
    /// Adds a call. Returns the key under which its launch is reported: its own key, or in a group that of the first
    /// call on its stream.
    pub fn awaits(&mut self, call: &Enqueue, key: CallKey) -> CallKey {
        let leader = match call.group.map(NonZeroU32::get) {
            None => key,
            Some(group) => {
                if self.leaders.len() >= MAX_GROUPS as usize {
                    let oldest = group.saturating_sub(MAX_GROUPS / 2);
                    self.leaders.retain(|known, _| known.group > oldest);
                }
                let stream = call.stream;
                *self.leaders.entry(OnStream { group, stream }).or_insert(key)
            }
        };
        let launch = self.launches.entry(leader).or_insert(Launch {
            users: 0,
            times: EventTimes::Pending,
        });
        launch.users += 1;
        leader
    }

    /// Adds the report of a launch. Returns false if no call waits for it.
    pub fn reported(&mut self, key: &CallKey, report: &DeviceReport) -> bool {
        let Some(launch) = self.launches.get_mut(key) else {
            return false;
        };
        launch.times = EventTimes::Known(DeviceInterval::of(report));
        true
    }

    /// Returns the times of a launch.
    pub fn times(&self, leader: &CallKey) -> EventTimes {
        let launch = self.launches.get(leader);
        launch.map_or(EventTimes::Known(None), |launch| launch.times)
    }

    /// Releases the launch of a call that no longer waits for it.
    pub fn forget(&mut self, leader: &CallKey) {
        if let Some(launch) = self.launches.get_mut(leader) {
            launch.users = launch.users.saturating_sub(1);
            if launch.users == 0 {
                self.launches.remove(leader);
            }
        }
    }

    /// Returns true if no call waits for a launch.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }
}
