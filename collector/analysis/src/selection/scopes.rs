//! Which communicators count together: the same library, role, scope and number of members.

use super::Wanted;
use rankscope_formats::session::Session;

/// What communicators have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// See [`rankscope_formats::session::CommunicatorSummary`].
    pub library: String,
    /// See there.
    pub role: String,
    /// See there.
    pub scope: String,
    /// How many.
    pub members: u32,
}

/// The scopes of a session.
pub struct Scopes {
    all: Vec<Scope>,
    /// Scope of each communicator; `None`: none of the wanted ranks is a member.
    of: Vec<Option<u32>>,
}

impl Scopes {
    /// Of the communicators of which a wanted rank is a member.
    pub fn new(session: &Session, wanted: &Wanted<'_>) -> Self {
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
                    wanted.ranks.is_none() || known.members.iter().flatten().any(|&rank| wanted.has(rank));
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

    /// Number of a communicator's scope; `None`: it does not count. One that the summary does not know has the number 0.
    pub fn number(&self, communicator: u32) -> Option<u32> {
        self.of.get(communicator as usize).copied().unwrap_or(Some(0))
    }

    /// A scope by its number.
    pub fn get(&self, number: u32) -> Option<&Scope> {
        self.all.get(number as usize)
    }
}
