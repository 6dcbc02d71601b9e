//! Streams of Arrow IPC, written as plainly as the format allows: for tests of what reads them.
//!
//! What must not live here: reading. Columns may be odd on purpose.

/// A column of a batch.
#[derive(Clone, Debug)]
pub enum ArrowColumn {
    /// int8.
    I8(Vec<i8>),
    /// uint8.
    U8(Vec<u8>),
    /// int16.
    I16(Vec<i16>),
    /// uint16.
    U16(Vec<u16>),
    /// int32.
    I32(Vec<i32>),
    /// uint32.
    U32(Vec<u32>),
    /// int64.
    I64(Vec<i64>),
    /// uint64.
    U64(Vec<u64>),
    /// float16, as bits.
    F16(Vec<u16>),
    /// float32.
    F32(Vec<f32>),
    /// float64.
    F64(Vec<f64>),
    /// bool.
    Bool(Vec<bool>),
    /// timestamp.
    Timestamp(Vec<i64>),
    /// Fixed-size lists of so many.
    List(i32, Box<ArrowColumn>),
    /// Text, whose rows are not written.
    Text,
    /// Dictionary-encoded int32.
    Dictionary(Vec<i32>),
    /// One row is null.
    WithNull(usize, Box<ArrowColumn>),
}

/// A column and its name.
pub type Named = (&'static str, ArrowColumn);

/// What else a stream may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrowOddities {
    /// Batches say that they are compressed.
    pub compressed: bool,
    /// There is no end marker.
    pub endless: bool,
}

/// A stream of batches with equal columns; those of the first one are its schema.
pub fn arrow_stream(batches: &[Vec<Named>]) -> Vec<u8> {
    arrow_stream_with(batches, ArrowOddities::default())
}

/// A stream with oddities.
pub fn arrow_stream_with(batches: &[Vec<Named>], odd: ArrowOddities) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = batches[0].iter().map(|(name, column)| field(name, column)).collect();
    let schema = Value::Table(vec![(1, Value::Tables(fields))]);
    message(&mut out, 1, schema, &[]);
    for batch in batches {
        let (mut nodes, mut buffers, mut body) = (Vec::new(), Vec::new(), Vec::new());
        for (_, column) in batch {
            column.put(&mut nodes, &mut buffers, &mut body);
        }
        let rows = batch.first().map_or(0, |(_, column)| column.len());
        let mut fields = vec![
            (0, Value::Long(rows as i64)),
            (1, Value::Pairs(nodes)),
            (2, Value::Pairs(buffers)),
        ];
        if odd.compressed {
            fields.push((3, Value::Table(vec![(0, Value::Byte(1))])));
        }
        message(&mut out, 3, Value::Table(fields), &body);
    }
    if !odd.endless {
        out.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    }
    out
}

impl ArrowColumn {
    /// Rows.
    pub fn len(&self) -> usize {
        match self {
            Self::I8(all) => all.len(),
            Self::U8(all) => all.len(),
            Self::I16(all) => all.len(),
            Self::U16(all) | Self::F16(all) => all.len(),
            Self::I32(all) | Self::Dictionary(all) => all.len(),
            Self::U32(all) => all.len(),
            Self::I64(all) | Self::Timestamp(all) => all.len(),
            Self::U64(all) => all.len(),
            Self::F32(all) => all.len(),
            Self::F64(all) => all.len(),
            Self::Bool(all) => all.len(),
            Self::List(count, all) => all.len() / *count as usize,
            Self::Text => 0,
            Self::WithNull(_, all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers as bytes; bits eight to a byte.
    fn bytes(&self) -> Vec<u8> {
        macro_rules! little {
            ($all:expr) => {
                $all.iter().flat_map(|value| value.to_le_bytes()).collect()
            };
        }
        match self {
            Self::I8(all) => little!(all),
            Self::U8(all) => all.clone(),
            Self::I16(all) => little!(all),
            Self::U16(all) | Self::F16(all) => little!(all),
            Self::I32(all) | Self::Dictionary(all) => little!(all),
            Self::U32(all) => little!(all),
            Self::I64(all) | Self::Timestamp(all) => little!(all),
            Self::U64(all) => little!(all),
            Self::F32(all) => little!(all),
            Self::F64(all) => little!(all),
            Self::Bool(all) => bits(all.iter().copied()),
            Self::List(_, all) | Self::WithNull(_, all) => all.bytes(),
            Self::Text => Vec::new(),
        }
    }

    fn put(&self, nodes: &mut Vec<(i64, i64)>, buffers: &mut Vec<(i64, i64)>, body: &mut Vec<u8>) {
        let mut buffer = |bytes: &[u8]| {
            buffers.push((body.len() as i64, bytes.len() as i64));
            body.extend_from_slice(bytes);
            body.resize(body.len().next_multiple_of(8), 0);
        };
        match self {
            Self::WithNull(null, inner) => {
                nodes.push((inner.len() as i64, 1));
                buffer(&bits((0..inner.len()).map(|row| row != *null)));
                buffer(&inner.bytes());
            }
            Self::List(_, inner) => {
                nodes.push((self.len() as i64, 0));
                buffer(&[]);
                inner.put(nodes, buffers, body);
            }
            _ => {
                nodes.push((self.len() as i64, 0));
                buffer(&[]);
                buffer(&self.bytes());
            }
        }
    }
}

fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, value) in values.enumerate() {
        if at % 8 == 0 {
            out.push(0);
        }
        if let Some(last) = out.last_mut() {
            *last |= u8::from(value) << (at % 8);
        }
    }
    out
}

/// A column of a schema.
fn field(name: &str, column: &ArrowColumn) -> Value {
    let int =
        |bits: i32, signed: bool| (2, vec![(0, Value::Int(bits)), (1, Value::Byte(signed.into()))]);
    let float = |precision: i16| (3, vec![(0, Value::Short(precision))]);
    let (mut children, mut more) = (Vec::new(), None);
    let (kind, about) = match column {
        ArrowColumn::I8(_) => int(8, true),
        ArrowColumn::U8(_) => int(8, false),
        ArrowColumn::I16(_) => int(16, true),
        ArrowColumn::U16(_) => int(16, false),
        ArrowColumn::I32(_) => int(32, true),
        ArrowColumn::U32(_) => int(32, false),
        ArrowColumn::I64(_) => int(64, true),
        ArrowColumn::U64(_) => int(64, false),
        ArrowColumn::F16(_) => float(0),
        ArrowColumn::F32(_) => float(1),
        ArrowColumn::F64(_) => float(2),
        ArrowColumn::Bool(_) => (6, Vec::new()),
        ArrowColumn::Timestamp(_) => (10, vec![(0, Value::Short(3))]),
        ArrowColumn::Text => (5, Vec::new()),
        ArrowColumn::Dictionary(_) => {
            more = Some((4, Value::Table(vec![(0, Value::Long(0))])));
            (5, Vec::new())
        }
        ArrowColumn::List(count, inner) => {
            children.push(field("item", inner));
            (16, vec![(0, Value::Int(*count))])
        }
        ArrowColumn::WithNull(_, inner) => return field(name, inner),
    };
    let mut fields = vec![
        (0, Value::Text(name.to_owned())),
        (1, Value::Byte(1)),
        (2, Value::Byte(kind)),
        (3, Value::Table(about)),
        (5, Value::Tables(children)),
    ];
    fields.extend(more);
    Value::Table(fields)
}

fn message(out: &mut Vec<u8>, kind: u8, header: Value, body: &[u8]) {
    let message = Value::Table(vec![
        (0, Value::Short(4)),
        (1, Value::Byte(kind)),
        (2, header),
        (3, Value::Long(body.len() as i64)),
    ]);
    let mut about = vec![0; 8];
    let at = message.put(&mut about);
    about[..4].copy_from_slice(&(at as u32).to_le_bytes());
    about.resize(about.len().next_multiple_of(8), 0);
    out.extend([0xff; 4]);
    out.extend((about.len() as i32).to_le_bytes());
    out.extend(about);
    out.extend_from_slice(body);
}

/// What a FlatBuffer has.
enum Value {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Text(String),
    Pairs(Vec<(i64, i64)>),
    Table(Vec<(usize, Value)>),
    Tables(Vec<Value>),
}

impl Value {
    /// The bytes of a number; none of what stands elsewhere.
    fn number(&self) -> Option<Vec<u8>> {
        Some(match self {
            Self::Byte(value) => vec![*value],
            Self::Short(value) => value.to_le_bytes().to_vec(),
            Self::Int(value) => value.to_le_bytes().to_vec(),
            Self::Long(value) => value.to_le_bytes().to_vec(),
            Self::Text(_) | Self::Pairs(_) | Self::Table(_) | Self::Tables(_) => return None,
        })
    }

    /// Appends what stands elsewhere; where it begins.
    fn put(&self, out: &mut Vec<u8>) -> usize {
        // Lengths stand before elements, which are aligned to 8 bytes.
        let vector = |out: &mut Vec<u8>, count: usize| {
            out.resize(out.len().next_multiple_of(8) + 4, 0);
            out.extend((count as u32).to_le_bytes());
            out.len() - 4
        };
        match self {
            Self::Text(text) => {
                let at = vector(out, text.len());
                out.extend_from_slice(text.as_bytes());
                out.push(0);
                at
            }
            Self::Pairs(pairs) => {
                let at = vector(out, pairs.len());
                out.extend(pairs.iter().flat_map(|(a, b)| [a, b]).flat_map(|v| v.to_le_bytes()));
                at
            }
            Self::Tables(all) => {
                let at = vector(out, all.len());
                let first = out.len();
                out.resize(first + 4 * all.len(), 0);
                for (index, table) in all.iter().enumerate() {
                    let target = table.put(out);
                    patch(out, first + 4 * index, target);
                }
                at
            }
            Self::Table(fields) => put_table(out, fields),
            _ => out.len(),
        }
    }
}

fn put_table(out: &mut Vec<u8>, fields: &[(usize, Value)]) -> usize {
    let slots = fields.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    out.resize(out.len().next_multiple_of(8), 0);
    let first = out.len();
    let mut offsets = vec![0_u16; slots];
    for (place, (number, _)) in fields.iter().enumerate() {
        offsets[*number] = 8 + 8 * place as u16;
    }
    out.extend((4 + 2 * slots as u16).to_le_bytes());
    out.extend((8 + 8 * fields.len() as u16).to_le_bytes());
    out.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
    out.resize(out.len().next_multiple_of(8), 0);
    let at = out.len();
    out.extend(((at - first) as i32).to_le_bytes());
    out.resize(at + 8 + 8 * fields.len(), 0);
    for (place, (_, value)) in fields.iter().enumerate() {
        let here = at + 8 + 8 * place;
        match value.number() {
            Some(bytes) => out[here..here + bytes.len()].copy_from_slice(&bytes),
            None => {
                let target = value.put(out);
                patch(out, here, target);
            }
        }
    }
    at
}

fn patch(out: &mut [u8], here: usize, target: usize) {
    out[here..here + 4].copy_from_slice(&((target - here) as u32).to_le_bytes());
}
