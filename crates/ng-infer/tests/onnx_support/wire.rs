//! Mutations of protobuf messages that keep them well-formed, and some that do not.
//!
//! What lives here: fields of the wire format and changes to bytes. What must not: the reader. The
//! invariant: one generator decides everything, so that a seed replays a run.

use ng_testing::Random;

/// Bytes of an input at most.
pub const INPUT_BYTES_MAX: usize = 32 << 10;
/// Numbers at which readers fail.
const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    127,
    128,
    255,
    65_536,
    i32::MAX as u64,
    u32::MAX as u64,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX,
];

/// A field of a message.
#[derive(Clone)]
struct Field {
    key: u64,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Varint(u64),
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn take(bytes: &mut &[u8], len: u64) -> Option<Vec<u8>> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken.to_vec())
}

/// The fields of a message; `None` for bytes that are not one.
fn parse(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let content = match key & 7 {
            0 => Content::Varint(varint(&mut bytes)?),
            1 => Content::Fixed(take(&mut bytes, 8)?),
            5 => Content::Fixed(take(&mut bytes, 4)?),
            2 => {
                let len = varint(&mut bytes)?;
                Content::Bytes(take(&mut bytes, len)?)
            }
            _ => return None,
        };
        fields.push(Field { key, content });
    }
    Some(fields)
}

fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        put_varint(field.key, &mut bytes);
        match &field.content {
            Content::Varint(value) => put_varint(*value, &mut bytes),
            Content::Fixed(content) => bytes.extend(content),
            Content::Bytes(content) => {
                put_varint(content.len() as u64, &mut bytes);
                bytes.extend(content);
            }
        }
    }
    bytes
}

/// An index into `len` things.
pub fn index(random: &mut Random, len: usize) -> usize {
    random.below(len as u64) as usize
}

fn number(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => NUMBERS[index(random, NUMBERS.len())],
        1 => random.below(32),
        _ => random.next_u64(),
    }
}

/// Changes a field somewhere in the tree of a message; lengths around it stay right.
fn mutate_tree(bytes: &[u8], donor: &[u8], random: &mut Random, depth: u32) -> Option<Vec<u8>> {
    let mut fields = parse(bytes).filter(|fields| !fields.is_empty())?;
    let at = index(random, fields.len());
    if depth < 8
        && random.below(5) > 0
        && let Content::Bytes(inner) = &fields[at].content
        && let Some(changed) = mutate_tree(inner, donor, random, depth + 1)
    {
        fields[at].content = Content::Bytes(changed);
        return Some(encode(&fields));
    }
    match random.below(8) {
        0 => drop(fields.remove(at)),
        1 => fields.insert(at, fields[at].clone()),
        2 => {
            let other = index(random, fields.len());
            fields.swap(at, other);
        }
        3 => fields[at].key = (1 + random.below(26)) << 3 | fields[at].key & 7,
        4 => {
            let other = index(random, fields.len());
            fields[at].content = fields[other].content.clone();
        }
        5 => {
            let given = parse(donor).filter(|given| !given.is_empty())?;
            fields.insert(at, given[index(random, given.len())].clone());
        }
        _ => mutate_content(&mut fields[at], random),
    }
    Some(encode(&fields))
}

fn mutate_content(field: &mut Field, random: &mut Random) {
    match &mut field.content {
        Content::Varint(value) => *value = number(random),
        Content::Fixed(content) => *content = random.bytes(content.len()),
        Content::Bytes(content) => match random.below(3) {
            0 => content.clear(),
            1 => *content = number(random).to_string().into_bytes(),
            _ => *content = mutate_bytes(content, &[], random),
        },
    }
}

/// Changes bytes without regard to what they mean.
fn mutate_bytes(bytes: &[u8], donor: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.is_empty() {
        return random.bytes(8);
    }
    let at = index(random, bytes.len());
    let len = 1 + index(random, (bytes.len() - at).min(64));
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = number(random) as u8,
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..at + len)),
        4 => {
            let copy = bytes[at..at + len].to_vec();
            bytes.splice(at..at, copy);
        }
        5 => {
            let from = index(random, donor.len().max(1)).min(donor.len());
            bytes.truncate(at);
            bytes.extend(&donor[from..]);
        }
        6 => {
            let mut encoded = Vec::new();
            put_varint(number(random), &mut encoded);
            bytes.splice(at..at + 1, encoded);
        }
        7 => {
            // Groups inside groups: protobuf's own nesting.
            let depth = 1 + index(random, 300);
            let mut groups = vec![0x0B; depth];
            groups.resize(2 * depth - index(random, 2), 0x0C);
            bytes.splice(at..at, groups);
        }
        _ => {
            for _ in 0..1 + random.below(8) {
                let at = index(random, bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
        }
    }
    bytes
}

/// Bytes with one to four changes, most of them in the tree of the message; `donor` gives parts.
pub fn mutate(base: &[u8], donor: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = base.to_vec();
    let changes = if random.below(2) == 0 { 1 } else { 1 + random.below(4) };
    for _ in 0..changes {
        let tree = (random.below(4) > 0).then(|| mutate_tree(&bytes, donor, random, 0)).flatten();
        bytes = tree.unwrap_or_else(|| mutate_bytes(&bytes, donor, random));
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}
