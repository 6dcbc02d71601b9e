//! What a plan does, for people.

use std::time::Duration;

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepInfo {
    /// What is done.
    pub op: String,
    /// The device whose kernel does it; none if no element moves.
    pub device: Option<String>,
    /// Whether the result takes the memory of an input.
    pub in_place: bool,
    /// The nodes of the graph whose work it is, with their operations.
    pub nodes: Vec<(String, String)>,
    /// Types and shapes of what it gives, if inputs have types.
    pub shapes: Vec<String>,
}

/// What a plan does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In the order of a run.
    pub steps: Vec<StepInfo>,
    /// Nodes of which only some rows are needed and that all rows are computed of, since their
    /// operation does not treat rows one by one.
    pub whole: Vec<(String, String)>,
    /// How many tensors there are at most at one time, beside inputs and weights.
    pub slots: usize,
}

/// What a step cost in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How long it took.
    pub time: Duration,
    /// Bytes of what it took and gave.
    pub bytes: u64,
}
