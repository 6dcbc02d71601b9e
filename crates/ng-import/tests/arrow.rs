//! Arrow streams: every type, cut anywhere, refused by name, and hostile bytes.

use ng_import::{ArrowError, ArrowEvent, ArrowReader, Elements};
use ng_testing::{
    ArrowColumn as Column, ArrowOddities, Named, Random, arrow_stream, arrow_stream_with,
};
use ng_types::Dtype;

const LIMIT: usize = 1 << 20;

/// What pieces say, as text.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<String>, ArrowError> {
    let (mut reader, mut told) = (ArrowReader::new(LIMIT), Vec::new());
    for piece in pieces {
        reader.push(piece);
        while let Some(event) = reader.next_event()? {
            told.push(match event {
                ArrowEvent::Schema(fields) => format!("{fields:?}"),
                ArrowEvent::End => "end".to_owned(),
                ArrowEvent::Batch(batch) => {
                    let columns = 0..batch.fields().len();
                    let columns: Vec<_> = columns.map(|at| batch.bytes(at)).collect();
                    let bytes: usize = columns.iter().map(|column| column.len()).sum();
                    assert!(bytes <= 2 * LIMIT, "{bytes} bytes are given out");
                    format!("{} {} {columns:?}", batch.number, batch.rows)
                }
            });
        }
    }
    told.push(format!("at end {}", reader.is_at_end()));
    Ok(told)
}

fn all_types() -> Vec<Vec<Named>> {
    let lists = |inner| Column::List(2, Box::new(inner));
    let batch = |rows: usize| -> Vec<Named> {
        let (n, twice) = (0..rows as u8, 0..2 * rows as u8);
        vec![
            ("i8", Column::I8(n.clone().map(|v| v as i8 - 3).collect())),
            ("u8", Column::U8(n.clone().collect())),
            ("i16", Column::I16(n.clone().map(|v| -i16::from(v)).collect())),
            ("i32", Column::I32(n.clone().map(|v| -i32::from(v)).collect())),
            ("u32", Column::U32(n.clone().map(u32::from).collect())),
            ("i64", Column::I64(n.clone().map(|v| -i64::from(v)).collect())),
            ("u64", Column::U64(n.clone().map(u64::from).collect())),
            ("f16", Column::F16(n.clone().map(|v| 0x3c00 + u16::from(v)).collect())),
            ("f32", lists(Column::F32(twice.clone().map(f32::from).collect()))),
            ("f64", Column::F64(n.clone().map(f64::from).collect())),
            ("bool", Column::Bool(n.clone().map(|v| v % 3 == 1).collect())),
            ("time", Column::Timestamp(n.map(i64::from).collect())),
            ("nested", Column::List(1, Box::new(lists(Column::U8(twice.collect()))))),
        ]
    };
    vec![batch(11), batch(0), batch(5)]
}

#[test]
fn numbers_of_all_types_come_out_wherever_pieces_are_cut() {
    let (first, second) = (arrow_stream(&all_types()), arrow_stream(&all_types()[2..]));
    let both = [first, second].concat();
    let whole = read(std::iter::once(both.as_slice())).unwrap();
    assert_eq!(whole.len(), 1 + 3 + 1 + 1 + 1 + 1 + 1);
    let expected = ["0 11 ", "1 0 ", "2 5 "];
    assert!(whole[1..4].iter().zip(expected).all(|(told, begin)| told.starts_with(begin)));
    assert!(whole[3].contains("[0, 1, 0, 0, 1]"), "bits are not bytes: {}", whole[3]);
    assert!(whole[3].contains("[253, 254, 255, 0, 1]"), "{}", whole[3]);
    assert!(whole.last().unwrap().ends_with("true"));
    for width in [1, 3, 8, 61, 4096] {
        assert_eq!(read(both.chunks(width)).unwrap(), whole, "pieces of {width}");
    }
    let mut reader = ArrowReader::new(LIMIT);
    reader.push(&both);
    let Ok(Some(ArrowEvent::Schema(fields))) = reader.next_event() else { panic!("a schema") };
    let dtypes: Vec<_> = fields.iter().map(|field| field.elements.dtype()).collect();
    let some = [Dtype::I8, Dtype::U8, Dtype::I16, Dtype::I32].map(Some);
    assert_eq!((&dtypes[..4], dtypes[4], dtypes[6]), (some.as_slice(), None, None));
    let names: Vec<_> = fields.iter().map(|field| (field.elements, field.shape.len())).collect();
    assert_eq!(
        names[7..10],
        [(Elements::Float(16), 0), (Elements::Float(32), 1), (Elements::Float(64), 0)]
    );
    assert_eq!(fields[12].shape, [1, 2]);
    let Ok(Some(ArrowEvent::Batch(batch))) = reader.next_event() else { panic!("a batch") };
    assert_eq!(batch.ids(3).unwrap().into_u64()[..2], [0, u64::MAX]);
    assert_eq!(batch.times(11).unwrap()[10], 10);
    assert!(batch.ids(1).is_err() && batch.ids(12).is_err() && batch.weights(9).is_err());
}

/// As `fixtures/arrow/make.py` writes them with pyarrow.
#[test]
fn streams_of_pyarrow_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/arrow/pyarrow.arrows");
    let bytes = std::fs::read(path).unwrap();
    let mut reader = ArrowReader::new(LIMIT);
    reader.push(&bytes);
    let mut batches = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let ArrowEvent::Batch(batch) = event {
            batches.push(batch);
        }
    }
    assert!(reader.is_at_end());
    assert_eq!(batches.iter().map(|batch| batch.rows).collect::<Vec<_>>(), [7, 6, 13]);
    let mut first = 0;
    for batch in &batches {
        let rows = first..first + batch.rows;
        let find = |name: &str| batch.fields().iter().position(|field| field.name == name).unwrap();
        let little = |values: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
            values.flat_map(f32::to_le_bytes).collect()
        };
        for name in ["source", "destination"] {
            assert_eq!(batch.ids(find(name)).unwrap().into_u64(), rows.clone().collect::<Vec<_>>());
        }
        let times: Vec<i64> = rows.clone().map(|row| row as i64).collect();
        assert_eq!(batch.times(find("time")).unwrap(), times);
        let weights: Vec<f32> = rows.clone().map(|row| row as f32).collect();
        assert_eq!(batch.weights(find("weight")).unwrap(), weights);
        let x = (3 * rows.start..3 * rows.end).map(|value| value as f32);
        assert_eq!(*batch.bytes(find("x")), little(&mut { x }));
        let nested: Vec<u8> = (6 * rows.start..6 * rows.end).map(|value| value as u8).collect();
        assert_eq!(*batch.bytes(find("nested")), nested);
        assert_eq!(batch.fields()[find("nested")].shape, [3, 2]);
        let bits: Vec<u8> = rows.clone().map(|row| u8::from(row % 3 == 1)).collect();
        assert_eq!(*batch.bytes(find("bits")), bits);
        let bytes: Vec<u8> = rows.clone().map(|row| row as u8).collect();
        assert_eq!(*batch.bytes(find("bytes")), bytes);
        assert_eq!(batch.fields()[find("half")].elements, Elements::Float(16));
        first = if rows.end == 13 { 0 } else { rows.end };
    }
}

#[test]
fn what_cannot_be_stored_is_refused_with_its_place() {
    let column = || Column::F32(vec![1.0; 9]);
    let refused = |bytes: &[u8]| read(std::iter::once(bytes)).unwrap_err();
    let text = arrow_stream(&[vec![("a", column()), ("b", Column::Text)]]);
    assert_eq!(refused(&text).to_string(), "column \"b\" has an unsupported type: text");
    let dictionary = arrow_stream(&[vec![("c", Column::Dictionary(vec![0]))]]);
    assert_eq!(
        refused(&dictionary).to_string(),
        "column \"c\" has an unsupported type: dictionary-encoded"
    );
    let null = Column::WithNull(7, Box::new(column()));
    let null = arrow_stream(&[vec![("d", column())], vec![("d", null)]]);
    assert_eq!(refused(&null).to_string(), "batch 1, column \"d\": row 7 is null");
    let inner = Column::WithNull(7, Box::new(Column::I8(vec![1; 9])));
    let inner = arrow_stream(&[vec![("d", Column::List(3, Box::new(inner)))]]);
    assert_eq!(refused(&inner).to_string(), "batch 0, column \"d\": row 2 is null");
    let odd = ArrowOddities { compressed: true, ..ArrowOddities::default() };
    let compressed = arrow_stream_with(&[vec![("e", column())]], odd);
    assert_eq!(refused(&compressed), ArrowError::Compressed { batch: 0 });
    let large = arrow_stream(&[vec![("f", Column::F32(vec![0.0; LIMIT / 4 + 8]))]]);
    assert!(matches!(refused(&large), ArrowError::TooLarge { batch: 0, .. }));
    let bits = arrow_stream(&[vec![("g", Column::Bool(vec![true; LIMIT + 8]))]]);
    assert!(matches!(refused(&bits), ArrowError::TooLarge { batch: 0, .. }));
    let twice = arrow_stream(&[vec![("h", column()), ("h", column())]]);
    assert!(refused(&twice).to_string().contains("two columns have the same name"));
    assert!(refused(b"ARROW1\0\0").to_string().contains("not the stream format"));
    assert!(refused(b"\x10\0\0\0").to_string().contains("no continuation marker"));
    let endless = ArrowOddities { endless: true, ..ArrowOddities::default() };
    let endless = arrow_stream_with(&[vec![("i", column())]], endless);
    assert!(read(std::iter::once(endless.as_slice())).unwrap()[2].ends_with("false"));
    let again = [endless.as_slice(), &endless].concat();
    assert!(refused(&again).to_string().contains("before the previous one ended"));
}

/// Bytes that are changed, cut, doubled and mixed: an error or other numbers, and nothing else.
#[test]
fn hostile_bytes_are_refused_without_a_panic_or_more_memory_than_came() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = seed.map_or(1, |time| time.subsec_nanos().into());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let good = arrow_stream(&all_types());
    let schema_bytes = 2000.min(good.len());
    let (mut refused, mut taken) = (0, 0);
    for round in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(6) {
            if bytes.is_empty() {
                break;
            }
            // What describes the numbers is hit more often than the numbers.
            let bound = if random.below(3) > 0 { schema_bytes } else { bytes.len() };
            let at = random.below(bound.min(bytes.len()) as u64) as usize;
            match random.below(6) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.below(256) as u8,
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let odd = [0_i64, -1, 1, i64::MAX, i64::MIN, 1 << 32, 1 << 40, 255];
                    let odd = odd[random.below(8) as usize].to_le_bytes();
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&odd[..end - at]);
                }
                4 => drop(bytes.drain(at..(at + 8).min(bytes.len()))),
                _ => {
                    let part = bytes[at..(at + 16).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        let width = if round % 2 == 0 { bytes.len() } else { 1 + random.below(97) as usize };
        match read(bytes.chunks(width.max(1))) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    // Some changes are of numbers alone.
    assert!(refused > 5_000 && taken > 500, "{refused} refused, {taken} taken");
}
