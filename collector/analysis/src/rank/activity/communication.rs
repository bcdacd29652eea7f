//! Device work of communication libraries, joined with their calls: by CUPTI's correlation IDs, or by order.

use super::by_correlation::{ByCorrelation, Done};
use super::in_order::InOrder;
use super::stream_order::{LostRecords, Operations, StreamOrder, operations_of, shifts_orders};
use super::sums::CommunicationSums;
use super::work::DeviceWork;
use crate::clocks::clock::Line;
use crate::model::part_window::PartWindow;
use rankscope_ranklog::activity::LinkedTo;
use rankscope_ranklog::communication_kernel::is_communication;
use rankscope_ranklog::reader::RankLog;
use rustc_hash::FxHashMap;

/// The call that a launch belongs to.
#[derive(Clone, Copy)]
struct Link {
    to: LinkedTo,
    /// True if work of it has arrived.
    has_work: bool,
}

impl Done for Link {
    fn is_done(&self) -> bool {
        self.has_work
    }
}

/// Device work of a communication library's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfCall {
    /// The call or group that it belongs to.
    pub to: LinkedTo,
    /// Number of its stream in the log.
    pub stream: u32,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
}

/// Whether device work communicates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Communication {
    /// It does not.
    No,
    /// It does, and its call is unknown.
    OfUnknownCall,
    /// It belongs to this call or group.
    Of(LinkedTo),
}

impl Communication {
    /// Returns the call or group, if it is known.
    pub fn call(self) -> Option<LinkedTo> {
        match self {
            Self::Of(to) => Some(to),
            Self::No | Self::OfUnknownCall => None,
        }
    }
}

/// The communication kernels of one rank.
pub struct CommunicationKernels {
    /// The part of the run that is reported.
    window: PartWindow,
    links: ByCorrelation<Link>,
    /// Operations that a communication kernel may belong to, by the number of its name; `None` means any.
    names: FxHashMap<i32, Option<Operations>>,
    /// Kernels that no correlation ID links to their call.
    pub order: StreamOrder,
    /// Ordered work of calls.
    pub of_calls: Vec<OfCall>,
    /// Launches of calls.
    pub linked: Vec<LinkedTo>,
    /// Launches of calls that were found by order.
    pub linked_by_order: Vec<LinkedTo>,
    /// Sums so far.
    pub sums: CommunicationSums,
}

impl CommunicationKernels {
    /// Creates the kernels of a part of a log.
    pub fn new(log: &RankLog, line: &Line, window: PartWindow) -> Self {
        let names = log
            .texts
            .iter()
            .filter(|(_, text)| is_communication(text.as_bytes()))
            .map(|(&number, text)| (number as i32, operations_of(text)))
            .collect();
        let lost = log
            .losses
            .iter()
            .filter(|loss| shifts_orders(loss))
            .map(|loss| LostRecords {
                first_ns: line.ns(loss.first_ticks),
                last_ns: line.ns(loss.last_ticks),
            })
            .reduce(LostRecords::with);
        Self {
            window,
            links: ByCorrelation::default(),
            names,
            order: StreamOrder::new(log.streams.values(), lost),
            of_calls: Vec::new(),
            linked: Vec::new(),
            linked_by_order: Vec::new(),
            sums: CommunicationSums::default(),
        }
    }

    /// Records that CUPTI links a launch at `near_ns` to a call.
    pub fn link(&mut self, correlation: u32, to: LinkedTo, near_ns: i64) {
        let link = Link { to, has_work: false };
        self.links.insert(correlation, near_ns, link);
        self.linked.push(to);
        self.order.linked(to);
    }

    /// Joins work with its call. All work must arrive in order; `waiting` is the work after it.
    pub fn ran(&mut self, work: &DeviceWork, waiting: &InOrder<DeviceWork>) -> Communication {
        let found = self.find(work, waiting);
        if let Communication::Of(to) = found {
            self.of_calls.push(OfCall {
                to,
                stream: work.stream,
                start_ns: work.start_ns,
                end_ns: work.end_ns,
            });
        }
        let is_counted = found == Communication::OfUnknownCall && self.window.contains(work.start_ns);
        self.sums.without_call += u64::from(is_counted);
        found
    }

    fn find(&mut self, work: &DeviceWork, waiting: &InOrder<DeviceWork>) -> Communication {
        if let Some(link) = self.links.uses(work.correlation, work.end_ns) {
            link.has_work = true;
            let to = link.to;
            self.order.linked_ran(work.stream, to);
            return Communication::Of(to);
        }
        if !work.is_kernel() {
            return Communication::No;
        }
        let Some(&operations) = self.names.get(&work.name) else {
            return Communication::No;
        };
        if work.graph_node != 0 {
            return Communication::OfUnknownCall;
        }
        self.order.reached(work.start_ns);
        if self.order.is_unsettled(work.stream) {
            self.settle_order(work, waiting);
        }
        let Some(to) = self.order.kernel(work.stream, work.start_ns, operations) else {
            return Communication::OfUnknownCall;
        };
        self.sums.by_order += u64::from(self.window.contains(work.start_ns));
        self.linked_by_order.push(to);
        Communication::Of(to)
    }

    /// Determines from the following kernels of a stream which launches they belong to.
    fn settle_order(&mut self, first: &DeviceWork, waiting: &InOrder<DeviceWork>) {
        let is_unlinked = |work: &&DeviceWork| {
            work.stream == first.stream
                && work.is_kernel()
                && work.graph_node == 0
                && self.names.contains_key(&work.name)
                && self.links.get(work.correlation).is_none()
        };
        let waiting = waiting.iter().filter(is_unlinked);
        let mut starts: Vec<i64> = waiting.map(|work| work.start_ns).collect();
        starts.push(first.start_ns);
        starts.sort_unstable();
        self.order.settle(first.stream, &starts);
    }
}
