//! What a node of a file says beside its operation: named numbers, lists and texts.
//!
//! The invariant: an attribute that nobody asks for is an error, not nothing.

use std::collections::BTreeMap;
use std::fmt;

use super::constant::Constant;
use super::error::DfgError;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f32),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// A text.
    Text(String),
    /// A tensor.
    Tensor(Constant),
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Ints(numbers) => {
                let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Self::Text(text) => f.write_str(text),
            Self::Tensor(tensor) => write!(f, "a tensor of shape {:?}", tensor.dims()),
        }
    }
}

/// The attributes of a node, and who they belong to, for messages.
#[derive(Debug)]
pub struct Attributes<'a> {
    node: &'a str,
    op: &'a str,
    all: BTreeMap<String, Attribute>,
}

impl<'a> Attributes<'a> {
    /// Those of node `node`, which does `op`.
    pub fn new(node: &'a str, op: &'a str, all: BTreeMap<String, Attribute>) -> Self {
        Self { node, op, all }
    }

    /// The node's name.
    pub fn node(&self) -> &'a str {
        self.node
    }

    /// The operation's name, as the file has it.
    pub fn op(&self) -> &'a str {
        self.op
    }

    /// The error that says what is wrong with attribute `name`.
    pub fn wrong(&self, name: &str, problem: impl Into<String>) -> DfgError {
        let (node, op, attribute) = (self.node.into(), self.op.into(), name.into());
        DfgError::Attribute { node, op, attribute, problem: problem.into() }
    }

    fn take<T>(
        &mut self,
        name: &str,
        kind: &str,
        get: impl FnOnce(&Attribute) -> Option<T>,
    ) -> Result<Option<T>, DfgError> {
        let Some(found) = self.all.remove(name) else { return Ok(None) };
        let got = get(&found);
        got.map(Some).ok_or_else(|| self.wrong(name, format!("expected {kind}, found {found}")))
    }

    /// A whole number.
    pub fn int(&mut self, name: &str) -> Result<Option<i64>, DfgError> {
        self.take(name, "an integer", |found| match found {
            Attribute::Int(number) => Some(*number),
            _ => None,
        })
    }

    /// A number that says yes or no, as 1 or 0.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, DfgError> {
        match self.int(name)? {
            Some(number @ (0 | 1)) => Ok(Some(number == 1)),
            Some(number) => Err(self.wrong(name, format!("expected 0 or 1, found {number}"))),
            None => Ok(None),
        }
    }

    /// A finite number.
    pub fn float(&mut self, name: &str) -> Result<Option<f32>, DfgError> {
        self.take(name, "a finite number", |found| match found {
            Attribute::Float(number) if number.is_finite() => Some(*number),
            Attribute::Int(number) => Some(*number as f32),
            _ => None,
        })
    }

    /// Whole numbers.
    pub fn ints(&mut self, name: &str) -> Result<Option<Vec<i64>>, DfgError> {
        self.take(name, "a list of integers", |found| match found {
            Attribute::Ints(numbers) => Some(numbers.clone()),
            _ => None,
        })
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, DfgError> {
        self.take(name, "a string", |found| match found {
            Attribute::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// A value of any kind.
    pub fn any(&mut self, name: &str) -> Option<Attribute> {
        self.all.remove(name)
    }

    /// Refuses what nobody asked for.
    ///
    /// # Errors
    ///
    /// There is such an attribute.
    pub fn finish(self) -> Result<(), DfgError> {
        match self.all.first_key_value() {
            Some((name, _)) => Err(self.wrong(name, "the operation has no such attribute")),
            None => Ok(()),
        }
    }
}
