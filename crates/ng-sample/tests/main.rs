//! The tests of ng-sample in one program: one for each file would be linked for minutes.
#![allow(clippy::expect_used)]

mod budget;
mod common;
mod compiled;
mod decisions;
mod direct;
mod disjoint;
mod every_way;
mod heat;
mod held_topology;
mod in_memory;
mod induced;
mod labor;
mod links;
mod lookahead;
mod messages;
mod passes;
mod reorganize;
mod same_seed_same_batch;
mod sampling_is_right;
mod scarce;
mod shapes;
mod streaming;
mod temporal;
mod trace;
mod walks;
mod weighted;
mod whole;
