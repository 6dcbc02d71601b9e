//! How fast rows of 256 columns are decoded on one core: GB/s of output, input in the L2 cache.
//!
//! `cargo run --release -p ng-simd --example rates`

use std::hint::black_box;
use std::time::Instant;

use ng_simd::{DecodeError, Path, RowDecoder};
use ng_types::Dtype;

const COLUMNS: usize = 256;
const ROWS: usize = 512;

fn main() -> Result<(), DecodeError> {
    for stored in [Dtype::I8, Dtype::F16, Dtype::Bf16, Dtype::F32] {
        for path in [Path::Portable, Path::Avx2] {
            let scales = (stored == Dtype::I8).then(|| vec![0.01; COLUMNS].into());
            let decoder = RowDecoder::new(stored, COLUMNS, scales, Dtype::F32)?;
            let Some(decoder) = decoder.on(path) else { continue };
            let input = vec![0x35; ROWS * decoder.stored_bytes()];
            let mut row = vec![0; decoder.out_bytes()];
            let mut large = vec![0; 80_000 * decoder.out_bytes()];
            let rates = [0, 1].map(|to_memory| {
                let start = Instant::now();
                let mut bytes = 0;
                while start.elapsed().as_secs_f64() < 0.5 {
                    if to_memory == 1 {
                        let places = large.chunks_exact_mut(row.len());
                        let inputs = input.chunks_exact(decoder.stored_bytes()).cycle();
                        inputs.zip(places).for_each(|(from, to)| decoder.decode(from, to));
                        bytes += black_box(&large).len();
                    } else {
                        for stored in black_box(&input).chunks_exact(decoder.stored_bytes()) {
                            decoder.decode(stored, &mut row);
                            bytes += black_box(&row).len();
                        }
                    }
                }
                bytes as f64 / start.elapsed().as_secs_f64() / 1e9
            });
            println!(
                "{stored:>4} -> f32 {path:?}: {:.1} GB/s to cache, {:.1} GB/s to memory",
                rates[0], rates[1]
            );
        }
    }
    Ok(())
}
