//! Statistics of matching: how many instances are complete, and why others are not (METRICS.md, section 1).

use crate::matching::MEMBER_DID_NOT_CALL;
use crate::measures::figures::InstanceId;
use crate::model::members::Members;
use crate::model::operation::{NO_COMMUNICATOR, RankOperation};
use rankscope_formats::ids::MemberIndex;
use rankscope_formats::session::{InstanceState, Matching, ReasonCount, Unmatched};
use rankscope_ranklog::record::FLAG_CAPTURED;
use std::collections::BTreeMap;

/// Counts of instances by state and reason.
#[derive(Default)]
pub struct MatchCounts {
    /// Counts by state, and the first unmatched instances.
    pub matching: Matching,
    reasons: BTreeMap<&'static str, u64>,
    /// Number of replays of captured calls that lack a member.
    pub incomplete_replays: u64,
}

impl MatchCounts {
    /// Counts an instance that has no figures, by its state.
    pub fn count(&mut self, state: InstanceState, members: &Members) {
        let counts = &mut self.matching;
        match state {
            InstanceState::Complete | InstanceState::Alone => {}
            InstanceState::Incomplete => {
                counts.incomplete += 1;
                self.incomplete_replays += u64::from(members.iter().any(is_replay));
            }
            InstanceState::Mismatched => counts.mismatched += 1,
            InstanceState::Unmatched => counts.unmatched_messages += 1,
            InstanceState::WithoutKey => counts.without_key += 1,
            InstanceState::Enqueued => counts.enqueued += 1,
            InstanceState::OneSided => counts.one_sided += 1,
            InstanceState::Template => counts.templates += 1,
        }
    }

    /// Counts the reason why an instance is not complete, and lists the first such instances. The operations of a hang are
    /// the last ones of a run, so they replace others when the list is full.
    pub fn explain(&mut self, id: InstanceId, members: &Members, state: InstanceState, reason: &'static str) {
        *self.reasons.entry(reason).or_insert(0) += 1;
        if id.communicator == NO_COMMUNICATOR {
            return;
        }
        let Some(first) = members.iter().next() else {
            return;
        };
        if self.matching.listed.len() >= Matching::MAX_LISTED {
            let mut listed = self.matching.listed.iter();
            let other = listed.rposition(|listed| listed.reason != MEMBER_DID_NOT_CALL);
            let Some(other) = other.filter(|_| reason == MEMBER_DID_NOT_CALL) else {
                return;
            };
            self.matching.listed.remove(other);
        }
        self.matching.listed.push(Unmatched {
            kind: if state == InstanceState::Unmatched {
                "unmatched-message"
            } else {
                state.name()
            }
            .to_owned(),
            communicator: id.communicator.0,
            operation: first.operation.name().to_owned(),
            tag: first.tag,
            sequence: first.sequence,
            start_ns: members.iter().map(|member| member.enter_ns).min().unwrap_or(0),
            ranks: members.iter().map(|member| member.rank.0).collect(),
            missing_members: missing(members, first, state)
                .iter()
                .map(|member| member.0)
                .collect(),
            reason: reason.to_owned(),
        });
    }

    /// Completes the list of reasons, the most frequent first.
    pub fn finish(&mut self) {
        let reasons = &mut self.matching.incomplete_reasons;
        *reasons = self
            .reasons
            .iter()
            .map(|(reason, &count)| ReasonCount {
                reason: (*reason).to_owned(),
                count,
            })
            .collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    }
}

/// Returns the numbers of the members that did not arrive.
fn missing(members: &Members, first: &RankOperation, state: InstanceState) -> Vec<MemberIndex> {
    if state == InstanceState::WithoutKey {
        Vec::new()
    } else if first.is_message() {
        members
            .iter()
            .filter(|_| members.all().is_none())
            .filter_map(|operation| u32::try_from(operation.peer).map(MemberIndex).ok())
            .collect()
    } else {
        (0..members.size())
            .filter(|&member| !members.has(member))
            .map(MemberIndex::of)
            .collect()
    }
}

/// Returns true for a replay of a captured call. Its tag is the number of replays that the log recorded before.
pub fn is_replay(operation: &RankOperation) -> bool {
    operation.flags & FLAG_CAPTURED != 0 && operation.tag > 0
}
