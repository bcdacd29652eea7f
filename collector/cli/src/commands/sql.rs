//! `rankscope sql`: starts the query engine.

use super::Exit;
use super::companion::Companion;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  rankscope sql run1                                             a prompt
  rankscope sql run1 \"select * from runs\"
  rankscope sql run1 run2 \"select run, operation, count(*) from operations group by all\"
  rankscope-sql --help                                           all options, tables and functions";

/// The query engine. It is a separate program because it takes longer to build than all of rankscope.
pub const ENGINE: Companion = Companion {
    program: "rankscope-sql",
    where_from: "The query engine is a separate program: install it with `pip install rankscope[sql]`, build it with \
        `make sql`, or put it next to rankscope or on the PATH",
};

/// Query sessions with SQL: the tables of one or more runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Sql {
    /// Runs, sessions or folders of runs; then the query; and the options of rankscope-sql.
    #[arg(
        required = true,
        value_name = "DIR|URL|QUERY",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

impl Sql {
    pub fn run(self) -> Result<Exit> {
        match ENGINE.start(&self.arguments)? {}
    }
}
