//! Edges that are kept out of batches by a rule, without a list of them.

use ng_types::NodeId;

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
const MIX: [u64; 2] = [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB];

/// Edges whose hash, of both ends and a seed, is below a bound: the rule of `holdout.py`, by which
/// the trainer holds links out for validation and test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// The seed of the run that holds them out.
    pub seed: u64,
    /// The share of edges that is held out.
    pub percent: f64,
    /// Whether an edge and its reverse are one.
    pub is_symmetric: bool,
}

impl HeldOut {
    /// Whether an edge is held out.
    pub fn has(&self, source: NodeId, target: NodeId) -> bool {
        let swapped = self.is_symmetric && source > target;
        let (first, second) = if swapped { (target, source) } else { (source, target) };
        let key = mixed(mixed(mixed(self.seed) ^ first) ^ second);
        (key >> 11) as f64 / 2_f64.powi(53) * 100.0 < self.percent
    }
}

/// splitmix64 (Steele et al., OOPSLA 2014).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(STEP);
    let value = (value ^ (value >> 30)).wrapping_mul(MIX[0]);
    let value = (value ^ (value >> 27)).wrapping_mul(MIX[1]);
    value ^ (value >> 31)
}
