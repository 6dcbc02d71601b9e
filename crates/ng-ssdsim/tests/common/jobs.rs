//! Platforms on data sets, and the laws that none of them may break.

use ng_ssdsim::{BatchRun, Config, Crowd, Dataset, Job, Layer, Model, Placement, Reuse};

fn model(set: &Dataset) -> Model {
    Model {
        columns: u64::from(set.columns),
        hidden: 128,
        outputs: 10,
        backward: true,
        layer: Layer::Sage,
    }
}

pub fn job(config: &Config, set: &Dataset, name: &str) -> Job {
    Job {
        platform: name.to_owned(),
        config: config.clone(),
        placement: Placement::Random(1),
        feature_bytes: set.feature_bytes(),
        mean_degree: set.mean_degree(),
        model: model(set),
        crowd: Crowd::default(),
        reuse: Reuse::default(),
    }
}

/// Laws that a batch broke (M1): order and exclusion of its commands' times, conservation of
/// commands, senses and energy, and the bound of its busiest server.
pub fn broken(batch: &BatchRun, config: &Config) -> u64 {
    let (audit, outcome) = (&batch.audit, &batch.outcome);
    let sense = (config.flash.sense_ns * 1e3) as u64;
    let parts = serde_json::to_value(batch.joules).expect("plain numbers");
    let parts = parts.as_object().expect("parts").values().filter_map(|part| part.as_f64());
    let total = batch.joules.total();
    audit.out_of_order
        + audit.early_children
        + audit.sense_overlaps
        + audit.transfer_overlaps
        + u64::from(outcome.issued != outcome.completed)
        + u64::from(outcome.die_busy != outcome.senses * sense)
        + u64::from(batch.interval < batch.bound.0)
        + u64::from((parts.sum::<f64>() / total - 1.0).abs() > 1e-9)
}
