//! One run of a graph that is run once.

use super::devices::Devices;
use super::error::RunError;
use crate::dfg::{Constant, Dfg};
use crate::kernel::{Context, View};
use crate::plan::{Options, Plan};

/// Runs `dfg` on `inputs`, by name, with the threads of `context`, and returns its outputs in
/// order. To run a graph more than once, make a [`Plan`] of it.
///
/// # Errors
///
/// An input is missing, unknown or wrong, no device has a kernel, or a kernel fails.
pub fn run(
    dfg: &Dfg,
    devices: &Devices,
    inputs: &[(&str, Constant)],
    context: &Context,
) -> Result<Vec<Constant>, RunError> {
    let plan = Plan::new(dfg, devices, &Options::default())?;
    let views: Vec<(&str, View<'_>)> = inputs
        .iter()
        .map(|(name, tensor)| (*name, View::new(tensor.dims(), tensor.elements())))
        .collect();
    Ok(plan.run(&views, &[], context)?.to_constants())
}
