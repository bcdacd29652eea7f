//! Made-up sessions, at the path from which the viewer's unit tests include them.

pub use rankscope_fixtures::sessions::*;
