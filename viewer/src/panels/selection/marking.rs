//! Marks the instances of chosen bins on the timeline. A background thread searches them in the table.

use super::summed::Summed;
use crate::model::{Action, Opened, State, Window};
use crate::panels::background::{Background, DIED, Polled};
use egui::Context;
use rankscope_analysis::model::units;
use rankscope_analysis::selection::{Marks, SelectionRequest, marks};
use rankscope_formats::session::Scope;
use rankscope_formats::session::SelectedOperations;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of marked instances. More marks cannot be distinguished.
const MOST: usize = 4_096;

/// Identity of a class of operations in any selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassKey {
    library: String,
    operation: String,
    size_from_bytes: Option<u64>,
    role: String,
    scope: Scope,
    members: u32,
    launches: bool,
}

impl ClassKey {
    /// Returns the identity of a class.
    pub fn of(class: &SelectedOperations) -> Self {
        Self {
            library: class.library.clone(),
            operation: class.operation.clone(),
            size_from_bytes: class.size_from_bytes,
            role: class.role.clone(),
            scope: class.scope,
            members: class.members,
            launches: class.launches,
        }
    }

    /// Returns true if this is the identity of `class`.
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
    window: Window,
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
    /// Selection in which the instances were searched.
    window: Window,
    times_ns: Range<i64>,
    instances: Arc<BTreeSet<u64>>,
    total: u64,
    /// Whether the timeline shows these marks already.
    is_shown: bool,
}

impl Marking {
    /// Searches instances of a class with times in `times_ns`, in nanoseconds, in the selection that was summed up.
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
        let window = summed.window();
        let (opened, summed, stop) = (opened.clone(), summed.clone(), cancelled.clone());
        let key = ClassKey::of(of);
        let times = times_ns.clone();
        let found = Background::start(ctx, move || {
            let Some(of) = summed.selection.operations.get(class) else {
                return Ok(Marks::default());
            };
            let request = SelectionRequest {
                window: (window.from_ns, window.to_ns),
                ranks: None,
                cancelled: &stop,
            };
            marks(&opened.path, &opened.session, of, times, MOST, request).map_err(|error| error.to_string())
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

    /// Removes the marks.
    pub fn clear(&mut self, actions: &mut Vec<Action>) {
        (self.running, self.marked, self.error) = (None, None, None);
        actions.push(Action::Mark(Arc::default()));
    }

    /// Takes over the result. Forgets the marks if others replaced them.
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

    /// Returns the times whose instances are marked or being searched, in nanoseconds.
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

    /// Returns the displayed result. `window` is the current selection.
    pub fn words(&self, class: &SelectedOperations, window: Window) -> Option<Result<String, String>> {
        if let Some(error) = &self.error {
            return Some(Err(error.clone()));
        }
        let marked = self.marked.as_ref().filter(|marked| marked.class.is_of(class))?;
        let found = marked.instances.len() as u64;
        let words = if found < marked.total {
            let (found, total) = (units::count(found), units::count(marked.total));
            format!("first {found} of {total} are marked")
        } else {
            let are = if found == 1 { "is" } else { "are" };
            format!("{} {are} marked", units::counted(found, "instance"))
        };
        Some(Ok(if marked.window == window {
            words
        } else {
            format!("{words}, from another selection")
        }))
    }

    /// Returns true while instances are being searched.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }
}
