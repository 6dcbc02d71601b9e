//! Lengths of dimensions that are known before a batch is: numbers, and sums of named counts such
//! as `nodes + edges`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;

/// The length of a dimension: a number plus multiples of symbols.
///
/// ```
/// use ng_infer::dfg::Dim;
/// let edges = Dim::symbol("edges") + Dim::from(3);
/// assert_eq!(edges.to_string(), "edges + 3");
/// assert_eq!((edges - Dim::symbol("edges")).number(), Some(3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dim {
    number: i64,
    /// No multiple is 0, so equal lengths are equal values.
    multiples: BTreeMap<Arc<str>, i64>,
}

impl Dim {
    /// A length that only a batch tells.
    pub fn symbol(name: &str) -> Self {
        Self { number: 0, multiples: [(Arc::from(name), 1)].into() }
    }

    /// The length, if it is a number.
    pub fn number(&self) -> Option<i64> {
        self.multiples.is_empty().then_some(self.number)
    }

    /// The symbol, if the length is one alone.
    pub fn name(&self) -> Option<&str> {
        match self.multiples.first_key_value() {
            Some((name, 1)) if self.multiples.len() == 1 && self.number == 0 => Some(name),
            _ => None,
        }
    }

    /// The product; `None` if both have symbols, or the numbers are too large.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let (form, factor) = match (self.number(), other.number()) {
            (Some(factor), _) => (other, factor),
            (None, Some(factor)) => (self, factor),
            (None, None) => return None,
        };
        let number = form.number.checked_mul(factor)?;
        let multiples = form.multiples.iter().filter(|_| factor != 0);
        let multiples = multiples.map(|(name, n)| Some((name.clone(), n.checked_mul(factor)?)));
        Some(Self { number, multiples: multiples.collect::<Option<_>>()? })
    }

    /// The quotient; `None` if there is a remainder, or if it is not known to be none.
    pub fn divided_by(&self, other: &Self) -> Option<Self> {
        if self == other && *self != Self::from(0) {
            return Some(Self::from(1));
        }
        let by = other.number().filter(|by| *by != 0)?;
        let exact = |n: i64| (n % by == 0).then_some(n / by);
        let multiples = self.multiples.iter().map(|(name, n)| Some((name.clone(), exact(*n)?)));
        Some(Self { number: exact(self.number)?, multiples: multiples.collect::<Option<_>>()? })
    }

    /// How many times `of` it is; `None` if it is a number, or not a whole multiple.
    pub(crate) fn ratio(&self, of: &Self) -> Option<i64> {
        let (name, n) = of.multiples.first_key_value()?;
        let by = self.multiples.get(name)?.checked_div(*n)?;
        (of.times(&Self::from(by)).as_ref() == Some(self)).then_some(by)
    }

    fn plus(mut self, other: &Self, sign: i64) -> Self {
        self.number = self.number.saturating_add(other.number.saturating_mul(sign));
        for (name, n) in &other.multiples {
            let sum = self.multiples.entry(name.clone()).or_default();
            *sum = sum.saturating_add(n.saturating_mul(sign));
        }
        self.multiples.retain(|_, n| *n != 0);
        self
    }
}

impl From<i64> for Dim {
    fn from(number: i64) -> Self {
        Self { number, multiples: BTreeMap::new() }
    }
}

impl Add for Dim {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.plus(&other, 1)
    }
}

impl Sub for Dim {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.plus(&other, -1)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(number) = self.number() {
            return write!(f, "{number}");
        }
        let mut is_first = true;
        let signed = self.multiples.iter().map(|(name, n)| (Some(name), *n));
        for (name, n) in signed.chain((self.number != 0).then_some((None, self.number))) {
            let sign = match (is_first, n < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            f.write_str(sign)?;
            match (name, n.unsigned_abs()) {
                (Some(name), 1) => f.write_str(name)?,
                (Some(name), n) => write!(f, "{n}*{name}")?,
                (None, n) => write!(f, "{n}")?,
            }
            is_first = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lengths_are_equal_values() {
        let (n, e) = (Dim::symbol("n"), Dim::symbol("e"));
        assert_eq!(n.clone() + e.clone() - n.clone(), e);
        assert_eq!((n.clone() - n.clone()).number(), Some(0));
        assert_eq!(n.times(&Dim::from(0)), Some(Dim::from(0)));
        assert_eq!(n.times(&e), None);
        let six = n.times(&Dim::from(6)).expect("a number of them");
        assert_eq!(six.divided_by(&Dim::from(3)), n.times(&Dim::from(2)));
        assert_eq!(six.divided_by(&Dim::from(4)), None);
        assert_eq!(n.divided_by(&n), Some(Dim::from(1)));
        assert_eq!(n.divided_by(&Dim::from(0)), None);
        assert_eq!(Dim::from(i64::MAX).times(&Dim::from(2)), None);
    }

    #[test]
    fn lengths_are_written_as_sums() {
        let (n, e) = (Dim::symbol("n"), Dim::symbol("e"));
        let two = e.times(&Dim::from(2)).expect("a number of them");
        assert_eq!((n.clone() + two - Dim::from(1)).to_string(), "2*e + n - 1");
        assert_eq!((Dim::from(4) - n).to_string(), "-n + 4");
        assert_eq!(Dim::from(-3).to_string(), "-3");
    }
}
