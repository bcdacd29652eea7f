//! rankscope formats.
