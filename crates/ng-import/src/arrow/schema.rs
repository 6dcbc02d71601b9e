//! The columns of a stream.

use ng_types::Dtype;

use super::ArrowError;
use super::flat::{Outside, Table};

/// Columns of a stream.
const COLUMNS_MAX: usize = 4096;
/// Bytes of a column's name.
const NAME_BYTES_MAX: usize = 1024;
/// Lists in lists.
const DEPTH_MAX: usize = 8;

/// The numbers of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Signed integers of so many bits: 8, 16, 32 or 64.
    Int(u8),
    /// Unsigned ones.
    Uint(u8),
    /// Floats of so many bits: 16, 32 or 64.
    Float(u8),
    /// Bits.
    Bool,
    /// Points in time, in 64 bits.
    Timestamp,
}

impl Elements {
    /// Bits of one of them.
    pub fn bits(self) -> u64 {
        match self {
            Self::Int(bits) | Self::Uint(bits) | Self::Float(bits) => u64::from(bits),
            Self::Bool => 1,
            Self::Timestamp => 64,
        }
    }

    /// What a tensor of them has; `None` if there are no such tensors.
    pub fn dtype(self) -> Option<Dtype> {
        Some(match self {
            Self::Int(8) => Dtype::I8,
            Self::Int(16) => Dtype::I16,
            Self::Int(32) => Dtype::I32,
            Self::Int(64) | Self::Timestamp => Dtype::I64,
            Self::Uint(8) => Dtype::U8,
            Self::Float(16) => Dtype::F16,
            Self::Float(32) => Dtype::F32,
            Self::Float(64) => Dtype::F64,
            Self::Bool => Dtype::Bool,
            Self::Int(_) | Self::Uint(_) | Self::Float(_) => return None,
        })
    }

    /// What Arrow calls it.
    pub fn name(self) -> String {
        match self {
            Self::Int(bits) => format!("int{bits}"),
            Self::Uint(bits) => format!("uint{bits}"),
            Self::Float(bits) => format!("float{bits}"),
            Self::Bool => "bool".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
        }
    }
}

/// A column of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrowField {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub elements: Elements,
    /// Lengths of the lists that a row is, the outermost first; empty if it is one number.
    pub shape: Vec<u64>,
}

impl ArrowField {
    /// Numbers of a row.
    pub fn columns(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// Why a schema is refused: it leads outside, or says what cannot be.
pub(super) enum Wrong {
    Outside,
    What(&'static str),
    Type(ArrowError),
}

impl From<Outside> for Wrong {
    fn from(_: Outside) -> Self {
        Self::Outside
    }
}

/// Reads a schema.
pub(super) fn fields(schema: Table<'_>) -> Result<Vec<ArrowField>, Wrong> {
    if schema.short(0)? != 0 {
        return Err(Wrong::What("its numbers are big-endian"));
    }
    let fields = schema.elements(1, 4)?;
    if fields.count > COLUMNS_MAX {
        return Err(Wrong::What("it has more than 4,096 columns"));
    }
    let mut all: Vec<ArrowField> = Vec::with_capacity(fields.count);
    for index in 0..fields.count {
        let table = fields.table(index)?;
        let name = table.text(0)?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Wrong::What("a column has no name, or one of more than 1,024 bytes"));
        }
        if all.iter().any(|other| other.name == name) {
            return Err(Wrong::What("two columns have the same name"));
        }
        let mut shape = Vec::new();
        let elements = elements(table, name, &mut shape)?;
        all.push(ArrowField { name: name.to_owned(), elements, shape });
    }
    Ok(all)
}

/// What a column's numbers are; `shape` gets the lengths of the lists around them.
fn elements(table: Table<'_>, name: &str, shape: &mut Vec<u64>) -> Result<Elements, Wrong> {
    let refused = |found: &str| {
        let (column, found) = (name.to_owned(), found.to_owned());
        Err(Wrong::Type(ArrowError::Type { column, found }))
    };
    if table.table(4)?.is_some() {
        return refused("dictionary-encoded");
    }
    let kind = table.byte(2)?;
    let about = table.table(3)?;
    let about = about.ok_or(Wrong::What("a column has no type"))?;
    match kind {
        2 => {
            let bits = about.int(0)?;
            let bits = u8::try_from(bits).ok().filter(|bits| [8, 16, 32, 64].contains(bits));
            let bits = bits.ok_or(Wrong::What("integers have an unknown width"))?;
            Ok(if about.byte(1)? != 0 { Elements::Int(bits) } else { Elements::Uint(bits) })
        }
        3 => match about.short(0)? {
            0 => Ok(Elements::Float(16)),
            1 => Ok(Elements::Float(32)),
            2 => Ok(Elements::Float(64)),
            _ => Err(Wrong::What("floats have an unknown width")),
        },
        6 => Ok(Elements::Bool),
        10 => Ok(Elements::Timestamp),
        16 => {
            let len = u64::try_from(about.int(0)?).ok().filter(|len| *len > 0);
            let len = len.ok_or(Wrong::What("lists have no elements"))?;
            let children = table.elements(5, 4)?;
            if children.count != 1 || shape.len() >= DEPTH_MAX {
                return Err(Wrong::What(
                    "lists are nested too deep, or have several kinds of elements",
                ));
            }
            shape.push(len);
            elements(children.table(0)?, name, shape)
        }
        other => refused(named(other)),
    }
}

/// The name of a type that no column may have.
fn named(kind: u8) -> &'static str {
    match kind {
        1 => "null",
        4 | 19 | 23 => "binary",
        5 | 20 | 24 => "text",
        7 => "decimal",
        8 => "a date",
        9 => "a time of day",
        11 => "an interval",
        12 | 21 | 25 | 26 => "lists of no fixed size",
        13 => "a struct",
        14 => "a union",
        15 => "binary of a fixed size",
        17 => "a map",
        18 => "a duration",
        22 => "run-end-encoded",
        _ => "a type that this release does not know",
    }
}
