//! Changes of messages that keep most of their structure: fields that are odd, gone, doubled, or of
//! another message, at each depth; and now and then plain bytes.

use ng_testing::Random;

/// Bytes of an input at most.
const BYTES_MAX: usize = 1 << 16;
/// Depth to which a field is taken for a message.
const DEPTH_MAX: u32 = 6;

/// A field as it is on the wire.
#[derive(Clone)]
struct Field {
    number: u64,
    value: Value,
}

#[derive(Clone)]
enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_varint(into: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// The fields of a message; `None` if it is not one.
fn fields(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)?),
            1 => {
                let (head, rest) = bytes.split_first_chunk::<8>()?;
                bytes = rest;
                Value::Fixed64(*head)
            }
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                let (head, rest) = bytes.split_at_checked(len)?;
                bytes = rest;
                Value::Bytes(head.to_vec())
            }
            5 => {
                let (head, rest) = bytes.split_first_chunk::<4>()?;
                bytes = rest;
                Value::Fixed32(*head)
            }
            _ => return None,
        };
        found.push(Field { number: key >> 3, value });
    }
    Some(found)
}

fn encoded(fields: &[Field]) -> Vec<u8> {
    let mut into = Vec::new();
    for Field { number, value } in fields {
        let kind = match value {
            Value::Varint(_) => 0,
            Value::Fixed64(_) => 1,
            Value::Bytes(_) => 2,
            Value::Fixed32(_) => 5,
        };
        put_varint(&mut into, number << 3 | kind);
        match value {
            Value::Varint(number) => put_varint(&mut into, *number),
            Value::Fixed64(bytes) => into.extend(bytes),
            Value::Fixed32(bytes) => into.extend(bytes),
            Value::Bytes(bytes) => {
                put_varint(&mut into, bytes.len() as u64);
                into.extend(bytes);
            }
        }
    }
    into
}

fn odd(random: &mut Random) -> u64 {
    let odd = [
        0,
        1,
        2,
        63,
        64,
        65,
        127,
        128,
        255,
        299,
        300,
        301,
        4_031,
        4_033,
        65_535,
        65_536,
        65_537,
        1 << 20,
        (1 << 31) - 1,
        1 << 31,
        u64::from(u32::MAX),
        1 << 40,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX,
    ];
    match random.below(8) {
        0 => random.next_u64(),
        1 => random.below(300),
        _ => odd[random.below(odd.len() as u64) as usize],
    }
}

fn odd_float(random: &mut Random) -> u32 {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-45, f32::MAX, 1.0];
    odd[random.below(odd.len() as u64) as usize].to_bits()
}

/// Names that mean something to a server, and some that lead elsewhere.
fn odd_bytes(random: &mut Random) -> Vec<u8> {
    let names: [&[u8]; 20] = [
        b"",
        b"small",
        b"mean",
        b"mean@1",
        b"mean@0",
        b"mean@99999999999999999999",
        b"small/mean",
        b"live",
        b"x",
        b"node",
        b"to",
        b"node,to,node",
        b",,",
        b"../small.ng",
        b"/etc/passwd",
        b".neargraph",
        b"small.ng",
        b"a\0b",
        b"\xff\xfe",
        "\u{202e}\u{0}\u{1F600}".as_bytes(),
    ];
    match random.below(12) {
        0 => random.bytes(random.clone().below(40) as usize),
        1 => vec![b'a'; odd(random).min(BYTES_MAX as u64 / 2) as usize],
        2 => random.clone().next_u64().to_le_bytes().to_vec(),
        _ => names[random.below(names.len() as u64) as usize].to_vec(),
    }
}

/// Changes plain bytes.
fn mutate_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len().max(1) as u64) as usize;
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => {
            let more = random.bytes(random.clone().below(16) as usize);
            bytes.splice(at.min(bytes.len())..at.min(bytes.len()), more);
        }
        2 => {
            let copied: Vec<u8> = bytes.iter().skip(at).take(64).copied().collect();
            bytes.extend(copied);
        }
        3 => *bytes = odd_bytes(random),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

fn mutate_value(value: &mut Value, others: &[Vec<u8>], depth: u32, random: &mut Random) {
    if random.below(80) == 0 {
        *value = match random.below(4) {
            0 => Value::Varint(odd(random)),
            1 => Value::Fixed64(random.next_u64().to_le_bytes()),
            2 => Value::Bytes(odd_bytes(random)),
            _ => Value::Fixed32(odd_float(random).to_le_bytes()),
        };
        return;
    }
    match value {
        Value::Varint(number) => {
            *number = match random.below(3) {
                0 => number.wrapping_add(random.below(5)).wrapping_sub(2),
                _ => odd(random),
            }
        }
        Value::Fixed64(bytes) => *bytes = odd(random).to_le_bytes(),
        Value::Fixed32(bytes) => *bytes = odd_float(random).to_le_bytes(),
        Value::Bytes(bytes) => {
            let is_message = depth < DEPTH_MAX && !bytes.is_empty() && fields(bytes).is_some();
            match random.below(10) {
                0 => mutate_bytes(bytes, random),
                1 => *bytes = odd_bytes(random),
                _ if is_message => *bytes = mutated_fields(bytes, others, depth + 1, random),
                // A name is rather another name than bytes that are no text.
                _ if bytes.is_ascii() && random.below(4) > 0 => *bytes = odd_bytes(random),
                _ => mutate_bytes(bytes, random),
            }
        }
    }
}

fn mutated_fields(bytes: &[u8], others: &[Vec<u8>], depth: u32, random: &mut Random) -> Vec<u8> {
    let Some(mut found) = fields(bytes).filter(|found| !found.is_empty()) else {
        let mut plain = bytes.to_vec();
        mutate_bytes(&mut plain, random);
        return plain;
    };
    let at = random.below(found.len() as u64) as usize;
    match random.below(40) {
        0 => drop(found.remove(at)),
        1 => {
            // Up to a thousand of one field, which is cheap for a client.
            let times = odd(random).min(1000) as usize;
            let again = vec![found[at].clone(); times];
            found.splice(at..at, again);
        }
        2 => found[at].number = 1 + random.below(14),
        3 => {
            let other = &others[random.below(others.len() as u64) as usize];
            found.extend(fields(other).unwrap_or_default());
        }
        4 => found.reverse(),
        5 => {
            let (number, value) = (1 + random.below(14), Value::Varint(odd(random)));
            found.push(Field { number, value });
        }
        _ => mutate_value(&mut found[at].value, others, depth, random),
    }
    encoded(&found)
}

/// A message that was changed once to three times; `others` lends fields.
pub fn mutated(message: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut found = message.to_vec();
    for _ in 0..1 + random.below(3) {
        found = match random.below(24) {
            0 => {
                mutate_bytes(&mut found, random);
                found
            }
            _ => mutated_fields(&found, others, 0, random),
        };
        found.truncate(BYTES_MAX);
    }
    found
}

/// Messages in the frames of gRPC; one time of 50 the frames are wrong, too.
pub fn framed(messages: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut body = Vec::new();
    for message in messages {
        body.push(0);
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(message);
    }
    if random.below(50) == 0 {
        mutate_bytes(&mut body, random);
    }
    body
}
