//! How well a graph does on data for which the answer is known.

use crate::dfg::{Constant, Elements};
use crate::quantise::QuantiseError;

/// Data that formats are searched with.
#[derive(Clone, Debug)]
pub struct Calibration<'a> {
    /// Inputs of the graph, by name.
    pub inputs: &'a [(&'a str, Constant)],
    /// What the first output is compared with.
    pub target: Target,
}

/// What an output is compared with.
#[derive(Clone, Debug)]
pub enum Target {
    /// The class of some rows: the loss is the mean cross entropy of a softmax over each.
    Labels {
        /// The rows.
        rows: Vec<usize>,
        /// For each, its class.
        labels: Vec<usize>,
    },
    /// What the graph gives in single precision: the loss is the mean square of differences.
    Itself,
}

/// The loss, in double precision and in the order of the rows.
pub(super) fn loss(
    target: &Target,
    found: &Constant,
    wanted: &Constant,
) -> Result<f64, QuantiseError> {
    let (Elements::F32(found_all), Elements::F32(wanted)) = (found.elements(), wanted.elements())
    else {
        return Err(wrong("the first output is not f32".to_owned()));
    };
    match target {
        Target::Itself => {
            let square = |(one, other): (&f32, &f32)| (f64::from(*one) - f64::from(*other)).powi(2);
            let sum: f64 = found_all.iter().zip(wanted).map(square).sum();
            Ok(sum / wanted.len().max(1) as f64)
        }
        Target::Labels { rows, labels } => {
            let [count, classes] = *found.dims() else {
                return Err(wrong(
                    "the first output does not have one row of classes per node".to_owned(),
                ));
            };
            if rows.len() != labels.len() || rows.is_empty() {
                let (rows, labels) = (rows.len(), labels.len());
                return Err(wrong(format!("got {rows} rows but {labels} labels")));
            }
            let mut sum = 0.0;
            for (row, label) in rows.iter().zip(labels) {
                if *row >= count || *label >= classes {
                    let problem = format!(
                        "row {row} (of {count} rows) or class {label} (of {classes} classes) is \
                         out of range"
                    );
                    return Err(wrong(problem));
                }
                sum += cross_entropy(&found_all[row * classes..(row + 1) * classes], *label);
            }
            Ok(sum / rows.len() as f64)
        }
    }
}

fn cross_entropy(row: &[f32], label: usize) -> f64 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|x| f64::from(*x - top).exp()).sum();
    sum.ln() - f64::from(row[label] - top)
}

fn wrong(problem: String) -> QuantiseError {
    QuantiseError::Labels { problem }
}
