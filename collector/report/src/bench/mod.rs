//! Results of `rankscope bench`: the table, curves for a terminal, and curves as SVG and PNG.

pub mod chart;
pub mod curves;
mod ink;
pub mod table;
