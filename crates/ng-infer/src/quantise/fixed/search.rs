//! GLIST's static search: for each value the fraction bits with the lowest loss.
//!
//! GLIST tries every configuration of each layer. Here each value begins with the widest format
//! that holds what the calibration data makes of it, and one value after the other tries others.
//! The invariant: the same graph and data give the same formats, after a number of runs that is
//! known beforehand.

use super::formats::{widest, with_more};
use super::kinds::Kinds;
use super::loss::{Calibration, loss};
use super::lower::{fixed_point, points};
use crate::dfg::{Constant, Dfg, Dim, Elements, FixedFormat, Source, TensorType};
use crate::kernel::Context;
use crate::quantise::QuantiseError;
use crate::run::{Devices, run};

/// What each value tries: fraction bits more.
const TRIES: [i32; 3] = [1, 2, -1];

/// How formats are searched.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Width of all numbers: 2 to 32.
    pub bits: u32,
    /// How often each value is tried.
    pub rounds: usize,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// By name of a value, its format: what [`fixed_point`] takes.
    pub formats: Vec<(String, FixedFormat)>,
    /// The loss with these formats.
    pub loss: f64,
    /// The loss in single precision.
    pub float_loss: f64,
    /// How often the graph was run in fixed point.
    pub runs: usize,
}

impl Search {
    /// The most runs of a search among `values` values.
    pub fn runs_max(self, values: usize) -> usize {
        1 + self.rounds * TRIES.len() * values
    }

    /// Searches formats for the values of `dfg`. `progress` hears the number of runs so far, how
    /// many there are at most, and the lowest loss; it ends the search by `false`.
    ///
    /// # Errors
    ///
    /// A value is not finite, labels do not fit, a run fails, or the caller ends the search.
    pub fn search(
        self,
        dfg: &Dfg,
        calibration: &Calibration<'_>,
        devices: &Devices,
        context: &Context,
        progress: &mut dyn FnMut(usize, usize, f64) -> bool,
    ) -> Result<Found, QuantiseError> {
        if !(2..=32).contains(&self.bits) {
            return Err(QuantiseError::Bits { bits: self.bits });
        }
        let types = given(calibration);
        let (mut formats, wanted) = self.start(dfg, &types, calibration, devices, context)?;
        let float_loss = loss(&calibration.target, &wanted, &wanted)?;
        let most = self.runs_max(formats.len());
        let mut runs = 0;
        let mut best = f64::INFINITY;
        let mut run_with = |formats: &[(String, FixedFormat)], best: f64| {
            let graph = fixed_point(dfg, &types, formats)?.dfg;
            let found = run(&graph, devices, calibration.inputs, context)?;
            let found = loss(&calibration.target, &found[0], &wanted)?;
            runs += 1;
            let go_on = progress(runs, most, best.min(found));
            if go_on { Ok(found) } else { Err(QuantiseError::Ended) }
        };
        best = best.min(run_with(&formats, best)?);
        for _ in 0..self.rounds {
            for at in 0..formats.len() {
                for more in TRIES {
                    let known = formats[at].1;
                    let Some(format) = with_more(known, more) else { continue };
                    formats[at].1 = format;
                    let found = run_with(&formats, best)?;
                    if found < best {
                        best = found;
                    } else {
                        formats[at].1 = known;
                    }
                }
            }
        }
        Ok(Found { formats, loss: best, float_loss, runs })
    }

    /// The widest formats, and the first output in single precision.
    fn start(
        self,
        dfg: &Dfg,
        types: &[(&str, TensorType)],
        calibration: &Calibration<'_>,
        devices: &Devices,
        context: &Context,
    ) -> Result<(Vec<(String, FixedFormat)>, Constant), QuantiseError> {
        let kinds = Kinds::new(dfg, &dfg.check(types)?);
        let points = points(dfg, &kinds);
        let first = dfg.outputs()[0].clone();
        let made = points.iter().filter(|value| !matches!(dfg.source(**value), Source::Weight(_)));
        let outputs = made.map(|value| (dfg.name(*value).to_owned(), *value));
        let outputs: Vec<_> = std::iter::once((String::new(), first.1)).chain(outputs).collect();
        let watched = dfg.clone().with_outputs(outputs);
        let mut found = run(&watched, devices, calibration.inputs, context)?.into_iter();
        let wanted = found.next().unwrap_or_else(|| unreachable!());
        let mut formats = Vec::with_capacity(points.len());
        for value in points {
            let name = dfg.name(value).to_owned();
            let tensor = match dfg.source(value) {
                Source::Weight(tensor) => tensor.clone(),
                _ => found.next().unwrap_or_else(|| unreachable!()),
            };
            let largest = largest(&name, &tensor)?;
            formats.push((name, widest(self.bits, largest)));
        }
        Ok((formats, wanted))
    }
}

/// The types of the calibration data.
fn given<'a>(calibration: &Calibration<'a>) -> Vec<(&'a str, TensorType)> {
    let of = |(name, tensor): &(&'a str, Constant)| {
        let shape = tensor.dims().iter().map(|dim| Dim::from(*dim as i64)).collect();
        (*name, TensorType { dtype: tensor.elements().dtype(), shape })
    };
    calibration.inputs.iter().map(of).collect()
}

fn largest(name: &str, tensor: &Constant) -> Result<f32, QuantiseError> {
    let Elements::F32(all) = tensor.elements() else { return Ok(0.0) };
    match all.iter().find(|x| !x.is_finite()) {
        Some(value) => Err(QuantiseError::NotFinite { name: name.to_owned(), value: *value }),
        None => Ok(all.iter().fold(0.0, |largest, x| largest.max(x.abs()))),
    }
}
