//! Why a graph cannot be quantised.

use ng_types::explain;
use thiserror::Error;

use crate::dfg::DfgError;
use crate::run::RunError;

/// Why a graph cannot be quantised.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum QuantiseError {
    /// A weight has a value that the smaller type cannot represent.
    #[error("weight {name:?}: {problem}")]
    Weight {
        /// Its name.
        name: String,
        /// Where it is, and what it is.
        problem: String,
    },
    /// No weight can be quantised.
    #[error("no weight can be quantised{}", why(.kept))]
    Nothing {
        /// Names of the weights, and the reason why each is unchanged.
        kept: Vec<(String, String)>,
    },
    /// A value is not finite on the calibration data.
    #[error(
        "value {name:?} is {value} on the calibration data, but formats can be chosen only for \
         finite values"
    )]
    NotFinite {
        /// Its name.
        name: String,
        /// What it is.
        value: f32,
    },
    /// The width is not valid for fixed-point numbers.
    #[error("{bits} is not a valid number of bits: fixed-point numbers have 2 to 32")]
    Bits {
        /// The width.
        bits: u32,
    },
    /// A value has no format, or a format does not belong to a value.
    #[error("formats: {problem}")]
    Formats {
        /// Which value.
        problem: String,
    },
    /// Labels do not match the output.
    #[error("labels: {problem}")]
    Labels {
        /// The mismatch.
        problem: String,
    },
    /// The caller stopped the search.
    #[error("the search was stopped")]
    Ended,
    /// The graph is not valid.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// A run on the calibration data failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

explain! {
    QuantiseError {
        Weight => InvalidModel [TrainAgain],
        Nothing => UnsupportedModel,
        NotFinite | Bits | Formats | Labels => WrongInput,
        Ended => Stopped,
    }
    of Dfg.0, Run.0
}

fn why(kept: &[(String, String)]) -> String {
    let one = |(name, why): &(String, String)| format!("weight {name:?} {why}");
    match kept {
        [] => ": the graph has no weights".to_owned(),
        all => format!(": {}", all.iter().map(one).collect::<Vec<_>>().join("; ")),
    }
}
