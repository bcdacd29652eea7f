//! Finds an instance by its number on a background thread, for the command line.

use crate::model::{Opened, PickedInstance};
use crate::timeline::instance_members::by_number;
use egui::Context;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// A search for an instance by its number.
pub struct InstanceLookup {
    instance: u64,
    found: Receiver<Option<PickedInstance>>,
}

impl InstanceLookup {
    /// Starts the search.
    pub fn start(opened: &Arc<Opened>, instance: u64, ctx: &Context) -> Self {
        let (sender, found) = channel();
        let (opened, wake) = (opened.clone(), ctx.clone());
        std::thread::spawn(move || {
            if sender.send(by_number(&opened, instance)).is_ok() {
                wake.request_repaint();
            }
        });
        Self { instance, found }
    }

    /// Returns the instance once the search is complete, or the reason why there is none.
    pub fn poll(&self) -> Option<Result<PickedInstance, String>> {
        let found = self.found.try_recv().ok()?;
        Some(found.ok_or_else(|| format!("there is no instance {} in this session", self.instance)))
    }
}
