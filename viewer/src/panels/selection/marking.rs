//! The instances of bins that were chosen, to be marked on the timeline: looked for in the table on another thread.

use super::summed::Summed;
use crate::model::{Action, Opened, State};
use crate::panels::background::{Background, DIED, Polled};
use egui::Context;
use rankscope_collector::report::units;
use rankscope_collector::selection::{Marks, Wanted, marks};
use rankscope_formats::session::SelectedOperations;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Instances that are marked at most: of more nobody sees which they are.
const MOST: usize = 4_096;

/// What tells a class of operations from others, in any selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassKey {
    library: String,
    operation: String,
    size_from_bytes: Option<u64>,
    role: String,
    scope: String,
    members: u32,
    launches: bool,
}

impl ClassKey {
    /// Of a class.
    pub fn of(class: &SelectedOperations) -> Self {
        Self {
            library: class.library.clone(),
            operation: class.operation.clone(),
            size_from_bytes: class.size_from_bytes,
            role: class.role.clone(),
            scope: class.scope.clone(),
            members: class.members,
            launches: class.launches,
        }
    }

    /// True of a class that it was made of.
    pub fn is_of(&self, class: &SelectedOperations) -> bool {
        self.library == class.library
            && self.operation == class.operation
            && self.size_from_bytes == class.size_from_bytes
            && self.role == class.role
            && self.scope == class.scope
            && self.members == class.members
            && self.launches == class.launches
    }
}

/// Marks of a histogram.
#[derive(Default)]
pub struct Marking {
    running: Option<Running>,
    marked: Option<Marked>,
    error: Option<String>,
}

struct Running {
    class: ClassKey,
    window: (i64, i64),
    times_ns: Range<i64>,
    cancelled: Arc<AtomicBool>,
    found: Background<Result<Marks, String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

struct Marked {
    class: ClassKey,
    /// The selection in which they were looked for, ns.
    window: (i64, i64),
    times_ns: Range<i64>,
    instances: Arc<BTreeSet<u64>>,
    total: u64,
    /// They are those that the timeline shows; before that they are on their way to it.
    is_shown: bool,
}

impl Marking {
    /// Looks for the instances of a class whose times lie between two, ns, in the selection that was summed up.
    pub fn start(
        &mut self,
        ctx: &Context,
        opened: &Arc<Opened>,
        summed: &Arc<Summed>,
        class: usize,
        times_ns: Range<i64>,
    ) {
        let Some(of) = summed.selection.operations.get(class) else {
            return;
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        let window = (summed.selection.from_ns, summed.selection.to_ns);
        let (opened, summed, stop) = (opened.clone(), summed.clone(), cancelled.clone());
        let key = ClassKey::of(of);
        let times = times_ns.clone();
        let found = Background::start(ctx, move || {
            let Some(of) = summed.selection.operations.get(class) else {
                return Ok(Marks::default());
            };
            let wanted = Wanted {
                window,
                ranks: None,
                cancelled: &stop,
            };
            marks(&opened.path, &opened.session, of, times, MOST, wanted).map_err(|error| error.to_string())
        });
        self.error = None;
        self.running = Some(Running {
            class: key,
            window,
            times_ns,
            cancelled,
            found,
        });
    }

    /// Marks nothing any more.
    pub fn clear(&mut self, actions: &mut Vec<Action>) {
        (self.running, self.marked, self.error) = (None, None, None);
        actions.push(Action::Mark(Arc::default()));
    }

    /// Takes what was found; forgets what others have marked over.
    pub fn poll(&mut self, state: &State, actions: &mut Vec<Action>) {
        if let Some(marked) = &mut self.marked {
            let is_shown = Arc::ptr_eq(&marked.instances, &state.marked);
            if marked.is_shown && !is_shown {
                self.marked = None;
            } else {
                marked.is_shown = is_shown;
            }
        }
        let Some(running) = &self.running else {
            return;
        };
        let found = match running.found.poll() {
            Polled::Pending => return,
            Polled::Done(found) => found,
            Polled::Died => Err(DIED.to_owned()),
        };
        match found {
            Ok(found) => {
                let instances: BTreeSet<u64> = found.list.iter().map(|mark| mark.instance).collect();
                let instances = Arc::new(instances);
                actions.push(Action::Mark(instances.clone()));
                self.marked = Some(Marked {
                    class: running.class.clone(),
                    window: running.window,
                    times_ns: running.times_ns.clone(),
                    instances,
                    total: found.total,
                    is_shown: false,
                });
            }
            Err(error) => self.error = Some(error),
        }
        self.running = None;
    }

    /// The times whose instances are marked, ns, or will be soon.
    pub fn times_of(&self, class: &SelectedOperations) -> Option<Range<i64>> {
        let running = self
            .running
            .as_ref()
            .map(|running| (&running.class, &running.times_ns));
        let marked = self
            .marked
            .as_ref()
            .map(|marked| (&marked.class, &marked.times_ns));
        let (of, times) = running.or(marked)?;
        of.is_of(class).then(|| times.clone())
    }

    /// What came of it, for people who look at this selection, ns.
    pub fn words(&self, class: &SelectedOperations, window: (i64, i64)) -> Option<Result<String, String>> {
        if let Some(error) = &self.error {
            return Some(Err(error.clone()));
        }
        let marked = self.marked.as_ref().filter(|marked| marked.class.is_of(class))?;
        let found = marked.instances.len() as u64;
        let words = if found < marked.total {
            let (found, total) = (units::count(found), units::count(marked.total));
            format!("the first {found} of {total} are marked")
        } else {
            let are = if found == 1 { "is" } else { "are" };
            format!("{} {are} marked", units::counted(found, "instance"))
        };
        Some(Ok(if marked.window == window {
            words
        } else {
            format!("{words}, of another selection")
        }))
    }

    /// True while instances are being looked for.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }
}
