//! What the conversions give, against plain arithmetic, and that all kernels give the same bits.

use std::sync::Arc;

use ng_simd::{ColumnRange, DecodeError, Path, RowDecoder, RowEncoder};
use ng_testing::Random;
use ng_types::Dtype;

const SEED: u64 = 0x5EED;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|value| u16::from_le_bytes(*value)).collect()
}

/// By the definition of the formats: sign, exponent, fraction.
fn value_of(bits: u16, fraction_bits: u32, bias: i32) -> f64 {
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1));
    let exponent = i32::from((bits & 0x7FFF) >> fraction_bits);
    let scaled = match exponent {
        0 => fraction * 2f64.powi(1 - bias - fraction_bits as i32),
        _ if exponent == 2 * bias + 1 && fraction == 0.0 => f64::INFINITY,
        _ if exponent == 2 * bias + 1 => f64::NAN,
        _ => (1.0 + fraction / f64::from(1 << fraction_bits)) * 2f64.powi(exponent - bias),
    };
    if bits & 0x8000 != 0 { -scaled } else { scaled }
}

fn decode(decoder: &RowDecoder, stored: &[u8]) -> Vec<u8> {
    let mut out = vec![0xAA; stored.len() / decoder.stored_bytes() * decoder.out_bytes()];
    decoder.decode_rows(stored, &mut out);
    out
}

fn decoder(stored: Dtype, columns: usize, wanted: Dtype) -> RowDecoder {
    RowDecoder::new(stored, columns, None, wanted).unwrap()
}

/// Every exponent with random fractions, every value next to a place where rounding changes, and
/// whatever else is odd.
fn odd_values() -> Vec<f32> {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let mut values = vec![0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    values.extend([f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1), 65_519.996, 65_520.0]);
    values.extend([f32::from_bits(0x7F80_0001), f32::from_bits(0xFFBF_FFFF)]);
    for high in 0..=u16::MAX {
        let high = u32::from(high) << 16;
        let low = random.next_u64() as u32 & 0xFFFF;
        values.extend([0, 1, 0x7FFF, 0x8000, 0x8001, low].map(|low| f32::from_bits(high | low)));
        values.extend([0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000].map(|l| f32::from_bits(high | l)));
    }
    values
}

#[test]
fn every_f16_and_bf16_reads_as_its_value() {
    for (stored, fraction_bits, bias) in [(Dtype::F16, 10, 15), (Dtype::Bf16, 7, 127)] {
        for path in [Path::Portable, Path::Avx2] {
            let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let Some(decoder) = decoder(stored, 1 << 16, Dtype::F32).on(path) else { continue };
            for (bits, found) in (0..=u16::MAX).zip(floats(&decode(&decoder, &all))) {
                let expected = value_of(bits, fraction_bits, bias);
                let is_same = f64::from(found) == expected || found.is_nan() && expected.is_nan();
                assert!(is_same, "{stored} {bits:#06x} on {path:?}: {found}, not {expected}");
                assert_eq!(found.is_sign_negative(), bits & 0x8000 != 0);
            }
        }
    }
}

#[test]
fn f32_becomes_the_nearest_f16_or_bf16_and_of_two_the_even_one() {
    for (wanted, fraction_bits, bias) in [(Dtype::F16, 10, 15), (Dtype::Bf16, 7, 127)] {
        let values = odd_values();
        let found = halves(&decode(&decoder(Dtype::F32, 1, wanted), &bytes(&values)));
        let infinity = ((2 * bias + 1) << fraction_bits) as u16;
        for (value, bits) in values.iter().zip(found) {
            assert_eq!(bits & 0x8000 != 0, value.is_sign_negative(), "{value}");
            let magnitude = bits & 0x7FFF;
            if value.is_nan() {
                assert!(magnitude > infinity, "{value} became {bits:#06x}");
                continue;
            }
            let of = |bits: u16| match bits {
                // Where the next value would be, were there one.
                bits if bits == infinity => 2f64.powi(bias + 1),
                bits => value_of(bits, fraction_bits, bias),
            };
            let (exact, here) = (f64::from(value.abs()), of(magnitude));
            if magnitude > 0 && value.is_finite() {
                let below = (exact - of(magnitude - 1)).abs();
                let gap = (exact - here).abs();
                assert!(gap < below || gap == below && bits & 1 == 0, "{value} {bits:#06x}");
            }
            if magnitude < infinity {
                let above = (exact - of(magnitude + 1)).abs();
                let gap = (exact - here).abs();
                assert!(gap < above || gap == above && bits & 1 == 0, "{value} {bits:#06x}");
            }
        }
    }
}

#[test]
fn all_kernels_give_the_same_bits_at_every_length_and_offset() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let narrow = [Dtype::F16, Dtype::Bf16, Dtype::F32];
    let mut pairs: Vec<_> = narrow.iter().flat_map(|a| narrow.map(|b| (*a, b))).collect();
    pairs.extend(narrow.map(|wanted| (Dtype::I8, wanted)));
    for columns in (0..70).chain([255, 256, 257, 1000]) {
        let scales: Arc<[f32]> = (0..columns).map(|i| (i % 7) as f32 * 0.37).collect();
        for (stored, wanted) in &pairs {
            let scales = (*stored == Dtype::I8).then(|| Arc::clone(&scales));
            let decoder = RowDecoder::new(*stored, columns, scales, *wanted).unwrap();
            let Some(fast) = decoder.clone().on(Path::Avx2) else { return };
            let plain = decoder.on(Path::Portable).unwrap();
            let offset = random.below(17) as usize;
            let input = random.bytes(offset + plain.stored_bytes());
            let mut out =
                [vec![0; plain.out_bytes() + offset], vec![0; plain.out_bytes() + offset]];
            plain.decode(&input[offset..], &mut out[0][offset..]);
            fast.decode(&input[offset..], &mut out[1][offset..]);
            assert_eq!(out[0], out[1], "{stored} to {wanted}, {columns} columns");
        }
    }
    let values = bytes(&odd_values());
    for wanted in [Dtype::F16, Dtype::Bf16] {
        let decoder = decoder(Dtype::F32, values.len() / 4, wanted);
        let Some(fast) = decoder.clone().on(Path::Avx2) else { return };
        assert!(decode(&fast, &values) == decode(&decoder.on(Path::Portable).unwrap(), &values));
    }
}

#[test]
fn int8_is_off_by_half_a_step_at_most_and_keeps_the_largest_value() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    for columns in [1, 3, 31, 256] {
        let magnitude: Vec<f32> =
            (0..columns).map(|_| 10f32.powi(random.below(60) as i32 - 30)).collect();
        let rows: Vec<f32> = (0..50 * columns)
            .map(|i| (random.below(2_000_001) as f32 / 1e6 - 1.0) * magnitude[i % columns])
            .collect();
        let mut range = ColumnRange::new(columns);
        range.add_rows(&bytes(&rows)).unwrap();
        assert_eq!(range.num_rows(), 50);
        let scales: Arc<[f32]> = range.scales().into();
        let encoder = RowEncoder::new(Dtype::I8, columns, Some(Arc::clone(&scales))).unwrap();
        let mut stored = Vec::new();
        encoder.encode_rows(&bytes(&rows), &mut stored).unwrap();
        let mut plain = Vec::new();
        let portable = encoder.on(Path::Portable).unwrap();
        portable.encode_rows(&bytes(&rows), &mut plain).unwrap();
        assert_eq!(stored, plain);
        let decoder = RowDecoder::new(Dtype::I8, columns, Some(Arc::clone(&scales)), Dtype::F32);
        let found = floats(&decode(&decoder.unwrap(), &stored));
        for (i, (value, found)) in rows.iter().zip(&found).enumerate() {
            let scale = scales[i % columns];
            assert!((value - found).abs() <= scale * 0.500_01, "{value} reads as {found}");
        }
        let steps = stored.iter().map(|step| step.cast_signed().unsigned_abs()).max();
        assert_eq!(steps, Some(127));
    }
}

#[test]
fn constant_zero_and_tiny_columns_read_as_what_they_are() {
    let columns = [3.25f32, 0.0, -0.0, 1e-37, f32::MAX, -7.0];
    let mut range = ColumnRange::new(columns.len());
    range.add_rows(&bytes(&[columns, columns].concat())).unwrap();
    let scales = range.scales();
    assert_eq!((scales[1], scales[2], scales[3]), (0.0, 0.0, 0.0));
    let scales: Arc<[f32]> = scales.into();
    let encoder = RowEncoder::new(Dtype::I8, 6, Some(Arc::clone(&scales))).unwrap();
    let mut stored = Vec::new();
    encoder.encode_rows(&bytes(&columns), &mut stored).unwrap();
    assert_eq!(
        stored.iter().map(|s| s.cast_signed()).collect::<Vec<_>>(),
        [127, 0, 0, 0, 127, -127]
    );
    let decoder = RowDecoder::new(Dtype::I8, 6, Some(scales), Dtype::F32).unwrap();
    let found = floats(&decode(&decoder, &stored));
    assert_eq!(found[1..4].iter().map(|v| v.to_bits()).collect::<Vec<_>>(), [0, 0, 0]);
    for at in [0, 4, 5] {
        assert!(((found[at] - columns[at]) / columns[at]).abs() < 3e-7, "{}", found[at]);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_row_and_column_and_leaves_nothing() {
    let scales = || Some(Arc::from([1.0, 0.0]));
    let cases = [
        (Dtype::F16, None, [1.0, 65_519.0], true),
        (Dtype::F16, None, [1.0, 65_520.0], false),
        (Dtype::F16, None, [1.0, f32::NEG_INFINITY], true),
        (Dtype::F16, None, [1.0, f32::NAN], true),
        (Dtype::Bf16, None, [1.0, 3.38e38], true),
        (Dtype::Bf16, None, [1.0, f32::MAX], false),
        (Dtype::Bf16, None, [1.0, f32::INFINITY], true),
        (Dtype::I8, scales(), [127.5, 0.0], false),
        (Dtype::I8, scales(), [-127.49, -0.0], true),
        (Dtype::I8, scales(), [f32::NAN, 0.0], false),
        (Dtype::I8, scales(), [f32::INFINITY, 0.0], false),
        (Dtype::I8, scales(), [1.0, 1e-3], false),
        (Dtype::I8, scales(), [1.0, 1e-37], true),
        (Dtype::F32, None, [f32::NAN, f32::INFINITY], true),
    ];
    for (stored, scales, row, fits) in cases {
        for path in [Path::Portable, Path::Avx2] {
            let encoder = RowEncoder::new(stored, 2, scales.clone()).unwrap();
            let Some(encoder) = encoder.on(path) else { continue };
            let mut out = vec![9];
            let found = encoder.encode_rows(&bytes(&[[0.0, 0.0], row].concat()), &mut out);
            assert_eq!(found.is_ok(), fits, "{stored} {row:?}");
            if let Err(misfit) = found {
                assert_eq!((misfit.row, out), (1, vec![9]));
                assert_eq!(misfit.value.to_bits(), row[misfit.column].to_bits());
                assert!(misfit.to_string().starts_with("row 1, column "), "{misfit}");
            }
        }
    }
    let mut range = ColumnRange::new(2);
    range.add_rows(&bytes(&[1.0, 2.0])).unwrap();
    let misfit = range.add_rows(&bytes(&[1.0, 2.0, 3.0, f32::NAN])).unwrap_err();
    assert_eq!((misfit.row, misfit.column), (2, 1));
}

#[test]
fn rows_decode_in_place_as_they_do_elsewhere() {
    let mut random = Random::new(SEED);
    for (stored, wanted) in
        [(Dtype::I8, Dtype::F32), (Dtype::I8, Dtype::F16), (Dtype::F16, Dtype::F32)]
    {
        for (columns, rows) in [(1, 1), (1, 9), (5, 3), (256, 40)] {
            let scales: Option<Arc<[f32]>> =
                (stored == Dtype::I8).then(|| vec![0.5; columns].into());
            let decoder = RowDecoder::new(stored, columns, scales, wanted).unwrap();
            let input = random.bytes(rows * decoder.stored_bytes());
            let mut buffer = vec![0; rows * decoder.out_bytes()];
            let start = buffer.len() - input.len();
            buffer[start..].copy_from_slice(&input);
            decoder.decode_in_place(&mut buffer);
            assert_eq!(buffer, decode(&decoder, &input), "{stored} to {wanted}");
        }
    }
}

#[test]
fn rows_decode_past_the_caches_as_they_do_through_them() {
    for (stored, columns) in [(Dtype::F32, 37), (Dtype::F16, 256), (Dtype::Bf16, 100)] {
        let decoder = decoder(stored, columns, Dtype::F32);
        let rows: Vec<u8> = (0..5 * decoder.stored_bytes()).map(|i| (i * 11 % 100) as u8).collect();
        let (mut out, mut near) = (vec![0xAA; 5 * decoder.out_bytes()], Vec::new());
        let targets = out.chunks_exact_mut(decoder.out_bytes());
        for (row, target) in rows.chunks_exact(decoder.stored_bytes()).zip(targets) {
            decoder.decode_streaming(row, &mut near, target);
        }
        ng_simd::finish_streaming();
        assert_eq!(out, decode(&decoder, &rows), "{stored}");
    }
}

#[test]
fn every_dtype_reads_as_itself_and_only_numbers_as_floats() {
    for dtype in Dtype::ALL {
        let input: Vec<u8> = (0..3 * dtype.size_bytes() as u8).collect();
        assert_eq!(decode(&decoder(dtype, 3, dtype), &input), input);
        let is_float = [Dtype::F16, Dtype::Bf16, Dtype::F32].contains(&dtype);
        assert_eq!(RowDecoder::new(dtype, 3, None, Dtype::F32).is_ok(), is_float, "{dtype}");
        assert_eq!(RowEncoder::new(dtype, 3, None).is_ok(), is_float, "{dtype}");
    }
    let with = |scales: &[f32]| RowDecoder::new(Dtype::I8, 2, Some(scales.into()), Dtype::F32);
    assert!(matches!(with(&[1.0]), Err(DecodeError::Scales { columns: 2, found: 1, .. })));
    for wrong in [-1.0, -0.0, f32::NAN, f32::INFINITY, 1e-39] {
        assert!(matches!(with(&[1.0, wrong]), Err(DecodeError::Scale { column: 1, .. })));
    }
    assert!(RowDecoder::new(Dtype::U8, 1, Some(Arc::from([1.0])), Dtype::F32).is_err());
}
