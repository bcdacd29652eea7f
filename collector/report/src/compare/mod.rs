//! What a comparison says, to everybody who reads it. All are pure functions of a [`Comparison`] and decide nothing.
//!
//! In this order: [`shown`] writes a change and how far it may be off, [`moods`] says what is good and what is bad, [`words`] has
//! the sentences and [`rows`] the rows of tables that all of them share. Then [`text`] for a terminal (on [`lines`]),
//! [`markdown`] for a pull request, [`github`] for the log of a workflow, [`junit`] for every other CI, and [`html`] for people
//! who want to see it.
//!
//! [`Comparison`]: rankscope_formats::comparison::Comparison

mod github;
mod html;
mod junit;
mod lines;
mod markdown;
mod moods;
mod rows;
mod shown;
mod text;
mod words;

pub use github::comparison_workflow_commands;
pub use html::{Picture, Side, comparison_page};
pub use junit::comparison_junit;
pub use markdown::{MOST_CHARACTERS, comparison_markdown};
pub use text::{Listed, comparison_text};
