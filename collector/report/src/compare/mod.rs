//! Output of a comparison in all formats. All functions are pure functions of a [`Comparison`] and decide nothing.
//!
//! In this order: [`shown`] formats a change and its uncertainty, [`severities`] gives the severity, [`phrases`] has the
//! sentences and [`rows`] the rows of tables that all formats share. The formats are [`text`] for a terminal (with
//! [`lines`]), [`markdown`] for a pull request, [`github`] for the log of a workflow, [`junit`] for every other CI, and
//! [`html`] for a page with charts.
//!
//! [`Comparison`]: rankscope_formats::comparison::Comparison

mod github;
mod html;
mod junit;
mod lines;
mod markdown;
mod phrases;
mod rows;
mod severities;
mod shown;
mod text;

pub use github::comparison_workflow_commands;
pub use html::{Side, StepPicture, comparison_page};
pub use junit::comparison_junit;
pub use markdown::{MAX_CHARACTERS, comparison_markdown};
pub use text::{Listed, comparison_text};
