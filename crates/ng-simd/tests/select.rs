//! Every kernel selects the sources that plain arithmetic selects.

use ng_simd::{Path, SourceSelector};
use ng_testing::Random;
use ng_types::{NodeTypeId, SourceKey};

#[test]
fn all_kernels_select_what_plain_arithmetic_selects() {
    let seed = 0x1AB0;
    println!("seed {seed:#x}");
    let mut random = Random::new(seed);
    for len in (0..70).chain([1000, 1001, 4095]) {
        let sources: Vec<u32> = (0..len).map(|_| random.next_u64() as u32).collect();
        let key = SourceKey::new(random.next_u64(), 3, NodeTypeId(1));
        for bound in [0, 1, 1 << 20, 1 << 28, 1 << 31, u32::MAX] {
            for path in [Path::Portable, Path::Avx2] {
                let Some(selector) = SourceSelector::on(key, path) else { continue };
                let plain = |mask: u32| -> Vec<u32> {
                    let taken =
                        |at: &u32| key.number(u64::from(sources[*at as usize] & mask)) < bound;
                    (0..len).filter(taken).collect()
                };
                let four: Vec<[u8; 4]> = sources.iter().map(|s| s.to_le_bytes()).collect();
                let three: Vec<[u8; 3]> = four.iter().map(|s| [s[0], s[1], s[2]]).collect();
                let mut places = Vec::new();
                selector.of_four(&four, bound, &mut places);
                assert_eq!(places, plain(u32::MAX), "{path:?}, {len} of four bytes");
                places.clear();
                selector.of_three(&three, bound, &mut places);
                assert_eq!(places, plain(0xFF_FFFF), "{path:?}, {len} of three bytes");
            }
        }
    }
}
