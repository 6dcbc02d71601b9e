//! What reads cost on a disk is asked once, and said as often as somebody likes.
#![allow(clippy::expect_used)]

mod common;

use common::model::Model;
use common::seeded;
use ng_store::{DiskCosts, Owner};
use ng_types::NodeTypeId;

#[test]
fn costs_that_are_set_hold_for_every_later_question_of_the_handle() {
    let mut model = Model::new(&[100], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 256, &mut seeded(1));
    let store = model.open(16 << 20);
    let (snapshot, tensor) = (store.snapshot(), model.tensor_ref(0));
    let costs = || snapshot.disk_costs(tensor).expect("sound");
    assert_eq!(costs(), DiskCosts::default(), "the file is too short to measure");
    for (reads_per_s, bytes_per_s) in [(16_000.0, 1e9), (500.0, 2e8)] {
        let said = DiskCosts { reads_per_s, bytes_per_s };
        snapshot.set_disk_costs(&said);
        assert_eq!(costs(), said);
        assert_eq!(store.snapshot().disk_costs(tensor).expect("sound"), said);
    }
    assert_eq!(snapshot.measure_disk().expect("sound"), None);
    assert_eq!(costs().reads_per_s.to_bits(), 500.0_f64.to_bits());
}
