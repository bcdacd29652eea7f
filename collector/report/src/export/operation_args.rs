//! Arguments of an operation's slice.

use super::instances::InstanceFacts;
use rankscope_formats::perfetto::{Arg, ArgValue};
use rankscope_formats::session::{InstanceState, OperationRow, OperationState, Session};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Algorithm, Protocol};

/// List of arguments. Unknown values are left out.
struct Args<'a>(Vec<Arg<'a>>);

impl<'a> Args<'a> {
    fn text(&mut self, name: &'a str, value: Option<&'a str>) {
        self.0.extend(value.map(|value| (name, ArgValue::Str(value))));
    }

    fn number(&mut self, name: &'a str, value: Option<impl Into<u64>>) {
        self.0
            .extend(value.map(|value| (name, ArgValue::Uint(value.into()))));
    }

    fn duration(&mut self, name: &'a str, ns: Option<i64>) {
        self.0.extend(ns.map(|ns| (name, ArgValue::Int(ns))));
    }

    fn rate(&mut self, name: &'a str, value: Option<f64>) {
        self.0.extend(value.map(|value| (name, ArgValue::Double(value))));
    }
}

/// Returns the arguments of an operation. `facts` are those of its instance, if it is complete.
pub fn operation_args<'a>(
    session: &'a Session,
    row: &OperationRow,
    facts: Option<InstanceFacts>,
) -> Vec<Arg<'a>> {
    let communicator = row
        .communicator
        .and_then(|index| session.communicators.get(index.index()));
    let mut args = Args(Vec::with_capacity(24));
    args.text("operation", Some(row.operation.name()));
    args.text(
        "requested",
        row.operation.requested_as(row.requested).map(Operation::name),
    );
    args.text("library", Some(row.library.name()));
    args.number("communicator", communicator.map(|known| known.index));
    args.text("role", communicator.map(|known| known.role.as_str()));
    args.number("tag", Some(row.tag));
    args.number("sequence", Some(row.sequence));
    args.number("instance", row.instance);
    args.number("bytes", row.bytes);
    args.number(
        "element_bytes",
        Some(row.element_bytes).filter(|&bytes| bytes > 0),
    );
    args.number("peer", row.peer);
    args.number("step", row.step);
    args.text(
        "state",
        (row.state != OperationState::Completed).then(|| row.state.name()),
    );
    args.text(
        "matched",
        (row.matched != InstanceState::Complete).then(|| row.matched.name()),
    );
    args.duration(
        "called_before_ns",
        row.called_ns.map(|called_ns| row.enter_ns - called_ns),
    );
    args.text(
        "algorithm",
        (row.algorithm != Algorithm::Unknown).then(|| row.algorithm.name()),
    );
    args.text(
        "protocol",
        (row.protocol != Protocol::Unknown).then(|| row.protocol.name()),
    );
    args.number("channels", Some(row.channels).filter(|&channels| channels > 0));
    args.number(
        "launch_operations",
        Some(row.launch_operations).filter(|&operations| operations > 1),
    );
    args.duration("queued_ns", row.issue_ns.map(|issue_ns| row.enter_ns - issue_ns));
    args.duration("exposed_wait_ns", row.exposed_wait_ns);
    args.duration("hidden_wait_ns", row.hidden_wait_ns);
    args.number("arrival_order", row.arrival_order);
    if let Some(facts) = facts {
        args.duration("transfer_ns", facts.transfer_ns);
        args.rate("algbw_bytes_per_s", facts.algorithm);
        args.rate("busbw_bytes_per_s", facts.bus);
        let last = facts.last_rank.and_then(|last| session.ranks.get(last.index()));
        args.text("last_to_arrive", last.map(|rank| rank.name.as_str()));
    }
    args.0
}
