//! The tests of ng-import in one program: one for each file would be linked for minutes.
#![allow(clippy::unwrap_used)]

mod arrow;
mod common;
mod declarations;
mod estimate;
mod memory_independence;
mod messages;
mod narrow;
mod notes;
mod options;
mod real_data;
mod relabel;
mod sparse;
mod strings;
mod text;
