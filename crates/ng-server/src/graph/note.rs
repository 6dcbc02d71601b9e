//! What a transaction with a key did, in the few bytes that the store keeps with the key.
//!
//! Whoever sends the transaction again sends its changes again, so only numbers are noted: a byte
//! for the form, the checksum of the changes, then runs of numbers that are equal or count up, for
//! nodes, edges and deletions each.

use std::collections::BTreeMap;

use ng_rpc::{Message, Problem, v1};
use ng_types::checksum;
use v1::change::Change as Kind;

const FORM: u8 = 1;

/// A checksum of changes, whatever the order in which a message has the rows of a node.
pub fn checksum_of(changes: &[v1::Change]) -> u32 {
    let mut sum = changes.len() as u32;
    let mut mix = |bytes: &[u8]| {
        let mut both = sum.to_le_bytes().to_vec();
        both.extend(checksum::of(bytes).to_le_bytes());
        both.extend((bytes.len() as u64).to_le_bytes());
        sum = checksum::of(&both);
    };
    for change in changes {
        match &change.change {
            Some(Kind::AddVertex(v1::AddVertex { node_type, rows })) => {
                mix(node_type.as_bytes());
                for (name, row) in rows.iter().collect::<BTreeMap<_, _>>() {
                    mix(name.as_bytes());
                    mix(&row.encode_to_vec());
                }
            }
            _ => mix(&change.encode_to_vec()),
        }
    }
    sum
}

/// Results that are noted together.
const PARTS: [Part; 3] = [
    |change, result| matches!(change, Kind::AddVertex(_)).then_some(&mut result.node),
    |change, result| matches!(change, Kind::AddEdge(_)).then_some(&mut result.edge),
    |change, result| matches!(change, Kind::DeleteEdge(_)).then_some(&mut result.deleted),
];

/// Where the result of a change stands that belongs to a part.
type Part = for<'a> fn(&Kind, &'a mut v1::ChangeResult) -> Option<&'a mut Option<u64>>;

/// The note of a transaction.
pub fn encode(changes: &[v1::Change], results: &[v1::ChangeResult]) -> Vec<u8> {
    let mut out = vec![FORM];
    out.extend(checksum_of(changes).to_le_bytes());
    for part in PARTS {
        let number_of = |(change, result): (&v1::Change, &v1::ChangeResult)| {
            let mut result = *result;
            let found = part(change.change.as_ref()?, &mut result)?;
            // An edge may have no id.
            Some(found.map_or(0, |number| number + 1))
        };
        let numbers: Vec<u64> = changes.iter().zip(results).filter_map(number_of).collect();
        let mut at = 0;
        while let Some(first) = numbers.get(at).copied() {
            let run = |step: u64| {
                let wanted = (0..).map(|place: u64| first.wrapping_add(step * place));
                numbers[at..].iter().zip(wanted).take_while(|(a, b)| **a == *b).count()
            };
            let (step, count) = if run(1) >= run(0) { (1, run(1)) } else { (0, run(0)) };
            number(&mut out, (count as u64) << 1 | step);
            number(&mut out, first);
            at += count;
        }
    }
    out
}

/// The results of a transaction whose note this is.
///
/// # Errors
/// The note is that of other changes.
pub fn decode(mut note: &[u8], changes: &[v1::Change]) -> Result<Vec<v1::ChangeResult>, Problem> {
    let form = take(&mut note, 1).and_then(|form| form.first().copied());
    let sum = take(&mut note, 4).and_then(|sum| sum.try_into().ok()).map(u32::from_le_bytes);
    if form != Some(FORM) || sum != Some(checksum_of(changes)) {
        let message = "an earlier transaction with this key had other changes";
        return Err(Problem::argument("idempotency_key", message)
            .remedy("use a new key for each transaction, and the same key only to repeat it"));
    }
    let mut results = vec![v1::ChangeResult::default(); changes.len()];
    let broken = || {
        let message = "the record of the transaction with this key cannot be read";
        Problem::new(ng_rpc::Code::DataLoss, "STORE_DAMAGED", message).at("idempotency_key")
    };
    for part in PARTS {
        let mut run = Run::default();
        for (change, result) in changes.iter().zip(&mut results) {
            let place = change.change.as_ref().and_then(|change| part(change, result));
            if let Some(place) = place {
                *place = run.next(&mut note).ok_or_else(broken)?.checked_sub(1);
            }
        }
        if run.left > 0 {
            return Err(broken());
        }
    }
    if note.is_empty() { Ok(results) } else { Err(broken()) }
}

#[derive(Default)]
struct Run {
    left: u64,
    next: u64,
    step: u64,
}

impl Run {
    fn next(&mut self, note: &mut &[u8]) -> Option<u64> {
        if self.left == 0 {
            let head = take_number(note)?;
            *self = Self { left: head >> 1, step: head & 1, next: take_number(note)? };
        }
        let next = self.next;
        (self.left, self.next) = (self.left.checked_sub(1)?, next.wrapping_add(self.step));
        Some(next)
    }
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(bytes, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(change: Kind) -> v1::Change {
        v1::Change { change: Some(change) }
    }

    #[test]
    fn results_come_back_from_a_short_note_and_other_changes_are_refused() {
        let (mut changes, mut results) = (Vec::new(), Vec::new());
        for at in 0..3000_u64 {
            let (kind, result) = match at % 3 {
                0 => {
                    let result = v1::ChangeResult { node: Some(at / 3), ..Default::default() };
                    (Kind::AddVertex(v1::AddVertex::default()), result)
                }
                1 => {
                    let edge = (at > 1500).then_some(at / 3 + 70);
                    let result = v1::ChangeResult { edge, ..Default::default() };
                    (Kind::AddEdge(v1::AddEdge::default()), result)
                }
                _ => {
                    let result = v1::ChangeResult { deleted: Some(1), ..Default::default() };
                    (Kind::DeleteEdge(v1::DeleteEdge::default()), result)
                }
            };
            changes.push(change(kind));
            results.push(result);
        }
        changes.push(change(Kind::DeleteVertex(v1::DeleteVertex::default())));
        results.push(v1::ChangeResult::default());
        let note = encode(&changes, &results);
        assert!(note.len() < 30, "{note:?}");
        assert_eq!(decode(&note, &changes), Ok(results));
        for cut in 0..note.len() {
            assert!(decode(&note[..cut], &changes).is_err(), "cut at {cut}");
        }
        let refused = decode(&note, &changes[1..]).expect_err("other changes");
        assert_eq!(refused.field, "idempotency_key");
    }

    #[test]
    fn the_order_of_rows_in_a_message_does_not_matter() {
        let tensor = |byte| v1::Tensor { data: vec![byte].into(), ..v1::Tensor::default() };
        let with = |names: &[&str]| {
            let rows = names.iter().map(|name| ((*name).to_owned(), tensor(name.len() as u8)));
            let rows = rows.collect();
            change(Kind::AddVertex(v1::AddVertex { node_type: String::new(), rows }))
        };
        let first = checksum_of(&[with(&["a", "bb", "ccc", "dddd", "eeeee"])]);
        assert_eq!(first, checksum_of(&[with(&["eeeee", "dddd", "ccc", "bb", "a"])]));
        assert_ne!(first, checksum_of(&[with(&["eeeee", "dddd", "ccc", "bb"])]));
    }
}
