//! Numbers that were computed by hand, from logs to the session. A comment draws each case, in microseconds, with the
//! result of METRICS.md. There is one file per metric.
//!
//!
//! | case | waiting, transfer | blame | bandwidth | parts, idle | matching, steps |
//! |---|---|---|---|---|---|
//! | ties in arrivals | `waiting` | `blame` | `bandwidth` | – | – |
//! | nested, touching, zero-length | `waiting` (zero-length) | – | `bandwidth` (t = 0) | `parts`; `intervals/overlap.rs`, `rank/activity/` | – |
//! | rooted operations | `waiting` | `blame` | `bandwidth` | – | – |
//! | messages | `waiting.rs` | – | – | – | `merge.rs` |
//! | one rank, no operation | `unusual` | `unusual` | `unusual` | `unusual` | `unusual` |
//! | missing rank | `unusual` | `unusual` | `unusual` | – | `merge.rs` |
//! | restart, used again: keys, names | `unusual` | `unusual` | – | – | `unusual`, `merge.rs` |
//! | loss in the middle | `unusual` | `unusual` | – | – | `unusual`, `tests/tests/cupti_order.rs` |
//! | steps of a known length | – | – | – | – | `steps` (any sequence), `steps.rs` |
//! | stragglers of every class, a tie | – | `stragglers` | – | – | `stragglers` |
//! | stalls and their causes | – | – | – | `rank/activity/`, `measures/stalls.rs` | – |
//!
//!
//! Slow and simple reference implementations are next to the real ones in `waiting.rs`, `blame.rs`,
//! `intervals/` (`overlap.rs`, `device_overlap.rs`, `counted.rs`), `quantiles.rs`, `matching.rs` and `axis/`.

#[path = "golden/bandwidth.rs"]
mod bandwidth;
#[path = "golden/blame.rs"]
mod blame;
#[path = "golden/parts.rs"]
mod parts;
#[path = "golden/scene.rs"]
mod scene;
#[path = "golden/steps.rs"]
mod steps;
#[path = "golden/stragglers.rs"]
mod stragglers;
#[path = "golden/unusual.rs"]
mod unusual;
#[path = "golden/waiting.rs"]
mod waiting;
