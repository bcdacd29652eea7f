//! Operations of the reference rank as a sequence of symbols: (communicator, operation, type), with and without sizes.

use crate::model::operation::{NO_TIME, RankOperation};
use crate::rank::anchors::Key;
use crate::rank::{RankBatch, RankReader};
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::OperationState;
use rankscope_ranklog::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Number of events that are sorted by issue time. Worker threads may run them in another order.
const REORDER: usize = 256;
/// Symbol of a wait in DDP's reducer.
pub(super) const REDUCER: u32 = 0;

/// An operation, or a wait of the reducer, of the reference rank.
#[derive(Clone, Copy)]
pub(super) struct Event {
    /// Time at which the program issued it.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// Symbol without the size.
    pub symbol: u32,
    /// Symbol with the size.
    pub sized: u32,
    /// Symbol with the position among the collectives of its launch.
    pub positioned: u32,
    /// Number of collectives in its launch.
    pub collectives: u16,
    /// Number of members of its communicator.
    pub width: u32,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Bytes that the operation reduces. Gradients are reduced; gathered parameters are not.
    pub reduced_bytes: u64,
    /// True if the operation distributes data to ranks, as before and during the forward pass. A step begins with such
    /// operations and ends with others.
    pub opens: bool,
    /// Key on all ranks; `None` for a wait of the reducer.
    pub key: Option<Key>,
    /// True if a device ran it and no host call is known.
    pub is_replay: bool,
}

/// Numbers the symbols of events in order of first use.
pub(super) struct Symbols {
    plain: FxHashMap<(CommunicatorId, Operation, u8, i32), u32>,
    sized: FxHashMap<(u32, u64), u32>,
    positioned: FxHashMap<(u32, u32), u32>,
    /// Descriptions of the symbols without and with sizes, and with positions.
    pub names: Vec<String>,
    pub sized_names: Vec<String>,
    pub positioned_names: Vec<String>,
    /// Number of members that call an operation with this symbol; 0 for messages.
    pub widths: Vec<u32>,
    /// 1 for a send, −1 for a receive, `None` for other operations.
    pub directions: Vec<Option<i64>>,
    /// Orders events by the time of the host call, also for operations with device times.
    by_host: bool,
    /// True if the host's call of an operation has another time than its arrival.
    pub has_calls: bool,
}

impl Symbols {
    pub fn new() -> Self {
        Self {
            plain: FxHashMap::default(),
            sized: FxHashMap::default(),
            positioned: FxHashMap::default(),
            names: vec!["reducer wait".to_owned()],
            sized_names: vec!["reducer wait".to_owned()],
            positioned_names: vec!["reducer wait".to_owned()],
            widths: vec![0],
            directions: vec![None],
            by_host: false,
            has_calls: false,
        }
    }

    /// Creates symbols whose events are ordered by the time of the host call.
    pub fn by_host() -> Self {
        Self {
            by_host: true,
            ..Self::new()
        }
    }

    fn event(&mut self, operation: &RankOperation, width: impl Fn(CommunicatorId) -> u32) -> Event {
        let peer = if operation.is_message() {
            operation.peer
        } else {
            -1
        };
        let key = (
            operation.communicator,
            operation.operation,
            operation.element_bytes,
            peer,
        );
        let symbol = *self.plain.entry(key).or_insert_with(|| {
            self.names.push(format!(
                "{} of {}-byte elements on communicator {}",
                operation.operation.name(),
                operation.element_bytes,
                operation.communicator
            ));
            self.directions.push(match operation.operation {
                Operation::Send => Some(1),
                Operation::Receive => Some(-1),
                _ => None,
            });
            // Only two ranks have the message, so it is a poor boundary for the steps of the others.
            let is_message = operation.is_message();
            self.widths.push(if is_message {
                0
            } else {
                width(operation.communicator)
            });
            self.names.len() as u32 - 1
        });
        let names = &self.names;
        let sized_names = &mut self.sized_names;
        let sized = *self.sized.entry((symbol, operation.bytes)).or_insert_with(|| {
            sized_names.push(format!("{}, {} bytes", names[symbol as usize], operation.bytes));
            sized_names.len() as u32 - 1
        });
        let launch = operation
            .shared
            .as_deref()
            .filter(|launch| launch.collectives > 1 && !operation.is_message());
        let position = launch.map_or(0, |launch| operation.sequence.wrapping_sub(launch.first));
        let positioned_names = &mut self.positioned_names;
        let positioned = *self.positioned.entry((symbol, position)).or_insert_with(|| {
            positioned_names.push(names[symbol as usize].clone());
            positioned_names.len() as u32 - 1
        });
        self.has_calls |= operation.called_ns != NO_TIME && operation.called_ns != operation.arrival_ns();
        let start_ns = if self.by_host && operation.called_ns != NO_TIME {
            operation.called_ns
        } else {
            operation.arrival_ns()
        };
        Event {
            start_ns,
            end_ns: operation.leave_ns.max(start_ns),
            symbol,
            sized,
            positioned,
            collectives: launch.map_or(1, |launch| launch.collectives),
            width: self.widths[symbol as usize],
            bytes: operation.bytes,
            reduced_bytes: if is_reduction(operation.operation) {
                // An unknown size counts as at least one byte.
                operation.bytes.max(1)
            } else {
                0
            },
            opens: opens(operation.operation),
            key: Some(Key::of(operation)),
            is_replay: operation.library == Library::Nccl
                && operation.called_ns == NO_TIME
                && operation.returned_ns == NO_TIME,
        }
    }
}

/// Events in the order in which the program issued them.
pub(super) struct Sequence<'a, 'b> {
    reader: &'b mut RankReader<'a>,
    batch: RankBatch,
    heap: BinaryHeap<Reverse<(i64, u64)>>,
    waiting: FxHashMap<u64, Event>,
    next: u64,
    incoming: VecDeque<Event>,
    ended: bool,
}

/// Returns true if the operation reduces data of ranks.
fn is_reduction(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter | Operation::ReduceScatterV
    )
}

/// Returns true if the operation distributes data: parameters, inputs, activations.
fn opens(operation: Operation) -> bool {
    matches!(
        operation.pattern(),
        Pattern::FromRoot | Pattern::PointToPoint | Pattern::OneSided
    ) || matches!(
        operation,
        Operation::AllGather | Operation::AllGatherV | Operation::AllToAll | Operation::AllToAllV
    )
}

/// Returns true unless the operation was in progress at the end of its log. An operation that was only enqueued is over
/// for the host. If other operations have device times, host times do not fit into their order.
fn is_over(operation: &RankOperation, has_device_times: bool) -> bool {
    operation.leave_ns != NO_TIME || (operation.state == OperationState::Enqueued && !has_device_times)
}

impl<'a, 'b> Sequence<'a, 'b> {
    pub fn new(reader: &'b mut RankReader<'a>) -> Self {
        Self {
            reader,
            batch: RankBatch::default(),
            heap: BinaryHeap::new(),
            waiting: FxHashMap::default(),
            next: 0,
            incoming: VecDeque::new(),
            ended: false,
        }
    }

    /// Returns the next event. `width` returns the size of a communicator.
    pub fn next(&mut self, symbols: &mut Symbols, width: &impl Fn(CommunicatorId) -> u32) -> Option<Event> {
        while self.heap.len() < REORDER {
            if let Some(event) = self.incoming.pop_front() {
                self.heap.push(Reverse((event.start_ns, self.next)));
                self.waiting.insert(self.next, event);
                self.next += 1;
            } else if self.ended || !self.reader.advance(&mut self.batch) {
                self.ended = true;
                break;
            } else {
                // Two nearly sorted lists. The heap has only capacity for events that are close to each other.
                let has_device_times = self.reader.has_device_times();
                let mut events: Vec<Event> = self
                    .batch
                    .operations
                    .iter()
                    .filter(|operation| operation.has_key() && is_over(operation, has_device_times))
                    .map(|operation| symbols.event(operation, width))
                    .collect();
                events.extend(self.batch.reducer_waits.iter().map(|wait| Event {
                    start_ns: wait.start_ns,
                    end_ns: wait.end_ns,
                    symbol: REDUCER,
                    sized: REDUCER,
                    positioned: REDUCER,
                    collectives: 0,
                    width: 0,
                    bytes: 0,
                    reduced_bytes: 0,
                    opens: false,
                    key: None,
                    is_replay: false,
                }));
                events.sort_by_key(|event| event.start_ns);
                self.incoming.extend(events);
            }
        }
        let Reverse((_, number)) = self.heap.pop()?;
        self.waiting.remove(&number)
    }
}

/// An operation that may end a step.
#[derive(Clone, Copy)]
pub(super) struct StepEnd {
    /// Key of the operation on all ranks.
    pub key: Key,
    /// Its end on the reference rank.
    pub end_ns: i64,
}

/// The last of the operations that involve the most ranks.
#[derive(Clone, Copy, Default)]
pub(super) struct LastOfWidest(Option<(u32, StepEnd)>);

impl LastOfWidest {
    /// Takes an event with this key. Only operations of all members of a communicator qualify: the two ends of a
    /// message have different keys.
    pub fn take(&mut self, event: &Event, key: Key) {
        if is_of_all_members(key) && self.0.is_none_or(|(widest, _)| event.width >= widest) {
            let end = StepEnd {
                key,
                end_ns: event.end_ns,
            };
            self.0 = Some((event.width, end));
        }
    }

    /// Returns the operation.
    pub fn end(self) -> Option<StepEnd> {
        self.0.map(|(_, end)| end)
    }
}

/// Returns true if all members of a communicator call the operation with the same key.
pub(super) fn is_of_all_members(key: Key) -> bool {
    !matches!(key.operation.pattern(), Pattern::PointToPoint | Pattern::OneSided)
}
