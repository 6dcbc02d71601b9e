//! The sort against the standard library, over shapes of keys, memory and threads.

use std::sync::Arc;

use ng_types::philox4x32_10;

use super::*;
use ng_io::ScratchFile;

fn sizes(collect_bytes: usize, threads: usize) -> Sizes {
    let lanes_bytes = 1 << 20;
    Sizes { collect_bytes, lanes_bytes, partition_bytes_max: 100_000, threads }
}

fn random(count: usize, seed: u32) -> impl Iterator<Item = [u64; 2]> {
    (0..count).map(move |i| {
        let b = philox4x32_10([i as u32, 0, 0, 1], [seed, 0]);
        [u64::from(b[0]) | u64::from(b[1]) << 32, u64::from(b[2]) | u64::from(b[3]) << 32]
    })
}

fn check<R: Record>(name: &str, records: &[R], layout: Layout) {
    let mut expected = records.to_vec();
    expected.sort_unstable();
    for (collect_bytes, threads) in [(1 << 30, 1), (200_000, 1), (200_000, 2), (0, 2)] {
        let directory = tempfile::tempdir().unwrap();
        let slots = SlotFile::new(ScratchFile::create_in(directory.path()).unwrap(), 4096);
        let sorter = Sorter::new(Arc::new(slots), layout, sizes(collect_bytes, threads));
        crate::threads::run_on(threads, |thread| {
            let mut mine = records.chunks(777).skip(thread).step_by(threads);
            mine.try_for_each(|chunk| sorter.push(chunk.iter().copied()))
        })
        .unwrap();
        let sorted = sorter.finish().unwrap();
        assert_eq!(sorted.count(), records.len() as u64);
        let mut found = Vec::new();
        sorted
            .for_each(&mut |slice| {
                found.extend_from_slice(slice);
                Ok(())
            })
            .unwrap();
        assert!(found == expected, "{name}: collect {collect_bytes}, threads {threads}");
    }
}

#[test]
fn any_records_come_back_in_order_whatever_the_memory_and_the_threads() {
    let layout = Layout::default();
    let uniform: Vec<u64> = random(60_000, 1).map(|r| r[0]).collect();
    check("uniform", &uniform, layout);
    let ascending: Vec<u64> = (0..60_000).map(|i| pair(i, i / 2)).collect();
    check("ascending", &ascending, layout);
    let hub: Vec<u64> = random(60_000, 2).map(|r| pair(r[0] % 5 / 4 * 9, r[1] % 50_000)).collect();
    check("hub", &hub, layout);
    let mut equal = vec![pair(3, 4); 60_000];
    equal.extend_from_slice(&hub[..500]);
    check("equal", &equal, layout);
    check("empty", &[] as &[u64], layout);
}

#[test]
fn every_column_survives_the_scratch_file() {
    let bits = (1 << 40) - 1;
    let layout = Layout { edge_id: true, ..Layout::default() };
    let wide: Vec<u128> =
        random(30_000, 3).map(|r| triple(r[0] & bits, r[1] & 0xFFFF, r[0] >> 24)).collect();
    check("wide", &wide, layout);
    let narrow: Vec<u128> =
        random(30_000, 4).map(|r| triple(r[0] & 0xFFFF, r[1] & 0xFFFF, r[0] >> 24)).collect();
    check("narrow", &narrow, layout);
    let full: Vec<Full> = random(30_000, 5)
        .enumerate()
        .map(|(i, r)| Full {
            destination: r[0] & 0xF,
            time: r[1] as i64 >> 50,
            source: r[1] & bits,
            edge_id: i as u64,
            weight: r[0] as u32,
        })
        .collect();
    let layout = Layout { edge_id: true, time: true, weight: true };
    check("full", &full, layout);
    let by_source: Vec<BySource> = full.into_iter().map(BySource).collect();
    check("by source", &by_source, layout);
}

#[test]
fn rounds_of_splitting_reuse_the_slots_they_have_read() {
    let directory = tempfile::tempdir().unwrap();
    let slots = Arc::new(SlotFile::new(ScratchFile::create_in(directory.path()).unwrap(), 4096));
    let sorter = Sorter::new(Arc::clone(&slots), Layout::default(), sizes(50_000, 2));
    let records: Vec<u64> = (0..400_000).collect();
    for chunk in records.chunks(1000) {
        sorter.push(chunk.iter().copied()).unwrap();
    }
    let sorted = sorter.finish().unwrap();
    let spilled = 8 * records.len() as u64;
    assert!(slots.written_bytes() > spilled * 3 / 2, "the sorted input was not split again");
    assert!(slots.peak_bytes() < spilled * 5 / 4, "{} of {spilled}", slots.peak_bytes());
    drop(sorted);
}
