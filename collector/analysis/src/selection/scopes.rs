//! Communicators that are counted together: same library, role, scope and number of members.

use super::request::SelectionRequest;
use rankscope_formats::session::Session;

/// Properties that communicators have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Library, as in [`rankscope_formats::session::CommunicatorSummary`].
    pub library: String,
    /// Role.
    pub role: String,
    /// Scope.
    pub scope: String,
    /// Number of members.
    pub members: u32,
}

/// The scopes of a session.
pub struct Scopes {
    all: Vec<Scope>,
    /// Scope of each communicator; `None` if no requested rank is a member.
    of: Vec<Option<u32>>,
}

impl Scopes {
    /// Collects the scopes of communicators that have a requested rank as a member.
    pub fn new(session: &Session, request: &SelectionRequest<'_>) -> Self {
        let mut all = vec![Scope {
            library: "unknown".to_owned(),
            role: "unknown".to_owned(),
            scope: "unknown".to_owned(),
            members: 0,
        }];
        let of = session
            .communicators
            .iter()
            .map(|known| {
                let is_wanted =
                    request.ranks.is_none() || known.members.iter().flatten().any(|&rank| request.has(rank));
                let scope = Scope {
                    library: known.library.clone(),
                    role: known.role.clone(),
                    scope: known.scope.clone(),
                    members: known.size,
                };
                is_wanted.then(|| {
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
    pub fn number(&self, communicator: u32) -> Option<u32> {
        self.of.get(communicator as usize).copied().unwrap_or(Some(0))
    }

    /// Returns a scope by its index.
    pub fn get(&self, number: u32) -> Option<&Scope> {
        self.all.get(number as usize)
    }
}
