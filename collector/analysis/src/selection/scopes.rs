//! Communicators that are counted together: same library, role, scope and number of members.

use super::request::SelectionRequest;
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::{Scope, Session};

/// Properties that communicators have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommunicatorKind {
    /// Library, as in [`rankscope_formats::session::CommunicatorSummary`].
    pub library: String,
    /// Role.
    pub role: String,
    /// Scope.
    pub scope: Scope,
    /// Number of members.
    pub members: u32,
}

/// The scopes of a session.
pub struct Scopes {
    all: Vec<CommunicatorKind>,
    /// Scope of each communicator; `None` if no requested rank is a member.
    of: Vec<Option<u32>>,
}

impl Scopes {
    /// Collects the scopes of communicators that have a requested rank as a member.
    pub fn new(session: &Session, request: &SelectionRequest<'_>) -> Self {
        let mut all = vec![CommunicatorKind {
            library: "unknown".to_owned(),
            role: "unknown".to_owned(),
            scope: Scope::Unknown,
            members: 0,
        }];
        let of = session
            .communicators
            .iter()
            .map(|known| {
                let is_requested = request.ranks.is_none()
                    || known
                        .members
                        .iter()
                        .flatten()
                        .any(|&rank| request.has(RankIndex(rank)));
                let scope = CommunicatorKind {
                    library: known.library.clone(),
                    role: known.role.clone(),
                    scope: known.scope,
                    members: known.size,
                };
                is_requested.then(|| {
                    let known = all.iter().position(|known| *known == scope);
                    known.unwrap_or_else(|| {
                        all.push(scope);
                        all.len() - 1
                    }) as u32
                })
            })
            .collect();
        Self { all, of }
    }

    /// Returns the index of a communicator's scope, or `None` if it does not count. A communicator that the summary
    /// does not know has index 0.
    pub fn number(&self, communicator: CommunicatorId) -> Option<u32> {
        self.of.get(communicator.index()).copied().unwrap_or(Some(0))
    }

    /// Returns a scope by its index.
    pub fn get(&self, number: u32) -> Option<&CommunicatorKind> {
        self.all.get(number as usize)
    }
}
