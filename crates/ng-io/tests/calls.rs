//! Events of calls come back as they were, within bounds that are checked on both sides.
#![allow(clippy::expect_used)]

use std::time::Duration;

use ng_io::ShmFrame;
use ng_io::calls::{
    CREDIT_AT_FIRST, CREDIT_MAX, CallError, Credit, Event, GoAway, METADATA_BYTES_MAX, Metadata,
    Open, PAIRS_MAX, PATH_BYTES_MAX, TEXT_BYTES_MAX, Trailers,
};
use ng_testing::{Random, assert_for_every_face, every_variant};

fn word(random: &mut Random, letters: &[u8], len: u64) -> String {
    (0..len).map(|_| char::from(letters[random.below(letters.len() as u64) as usize])).collect()
}

fn metadata(random: &mut Random) -> Metadata {
    let mut metadata = Metadata::default();
    for _ in 0..random.below(5) {
        let len = 1 + random.below(20);
        let mut name = word(random, b"abcxyz019_-.", len);
        let len = random.below(50);
        let mut value = word(random, b" ~aZ09,;=", len).into_bytes();
        if random.below(2) == 0 {
            name += "-bin";
            value = random.bytes(len as usize);
        }
        metadata.push(&name, &value).expect("valid");
    }
    metadata
}

fn text(random: &mut Random) -> String {
    let bytes = random.bytes(30);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn event<'a>(random: &mut Random, body: &'a [u8]) -> Event<'a> {
    match random.below(11) {
        0 => {
            let len = random.below(30);
            let deadline = (random.below(3) > 0)
                .then(|| Duration::from_micros(1 + random.below(u64::MAX - 1)));
            Event::Open(Open {
                path: format!("/a{}", word(random, b"ab./~!", len)),
                deadline,
                metadata: metadata(random),
            })
        }
        1 => Event::Headers(metadata(random)),
        2 => Event::Piece(body),
        3 => Event::Message(body),
        4 => Event::End,
        5 => {
            let status = random.next_u64() as u32;
            Event::Trailers(Trailers { status, text: text(random), metadata: metadata(random) })
        }
        6 => Event::Cancel { status: random.next_u64() as u32 },
        7 => Event::Credit { bytes: random.next_u64() as u32 },
        8 => Event::Ping { mark: random.next_u64() },
        9 => Event::Pong { mark: random.next_u64() },
        _ => Event::GoAway(GoAway { last_stream: random.next_u64(), text: text(random) }),
    }
}

fn of_connection(event: &Event<'_>) -> bool {
    matches!(event, Event::Ping { .. } | Event::Pong { .. } | Event::GoAway(_))
}

#[test]
fn events_come_back_as_they_were_and_none_is_read_from_a_part_of_its_bytes() {
    let seed = 31;
    println!("seed {seed}");
    let (mut random, mut head, mut seen) = (Random::new(seed), Vec::new(), [0; 12]);
    for _ in 0..20_000 {
        let len = random.below(40) as usize;
        let body = random.bytes(len);
        let event = event(&mut random, &body);
        let stream = if of_connection(&event) { 0 } else { 1 + random.next_u64() / 2 };
        let frame = event.encode(stream, &mut head).expect("encodes");
        seen[frame.kind as usize] += 1;
        let payload = [&head, event.body()].concat();
        assert_eq!(Event::decode(frame, &payload).as_ref(), Ok(&event));
        let wrong = ShmFrame { stream: u64::from(stream == 0), ..frame };
        let refused = Err(CallError::WrongStream { kind: frame.kind, stream: wrong.stream });
        assert_eq!(Event::decode(wrong, &payload), refused);
        if !matches!(event, Event::Piece(_) | Event::Message(_)) {
            for cut in 0..payload.len() {
                let part = Event::decode(frame, &payload[..cut]);
                assert!(matches!(part, Err(CallError::Truncated { .. })), "{event:?} to {cut}");
            }
            let longer = [&payload[..], &[0; 3]].concat();
            assert_eq!(Event::decode(frame, &longer), Err(CallError::Trailing { bytes: 3 }));
        }
    }
    assert!(seen[1..].iter().all(|count| *count > 500), "{seen:?}");
}

#[test]
fn what_is_too_long_or_has_other_bytes_is_refused_on_both_sides() {
    let mut head = Vec::new();
    let mut open = |path: String| {
        let open = Open { path, deadline: None, metadata: Metadata::default() };
        Event::Open(open).encode(1, &mut head)
    };
    let path = |len: usize| format!("/{}", "a".repeat(len - 1));
    assert!(open(path(PATH_BYTES_MAX)).is_ok());
    assert!(matches!(open(path(PATH_BYTES_MAX + 1)), Err(CallError::TooMany { .. })));
    for bad in ["", "/", "a/b", "/a b", "/ä", "/a\n"] {
        assert!(matches!(open(bad.to_owned()), Err(CallError::BadBytes { .. })), "{bad:?}");
    }
    let away = |len: usize| Event::GoAway(GoAway { last_stream: 1, text: "a".repeat(len) });
    assert!(away(TEXT_BYTES_MAX).encode(0, &mut Vec::new()).is_ok());
    assert!(away(TEXT_BYTES_MAX + 1).encode(0, &mut Vec::new()).is_err());

    let mut metadata = Metadata::default();
    for (name, value) in [("", "v"), ("A", "v"), ("a b", "v"), ("a", "\n"), ("a", "\u{7f}")] {
        let pushed = metadata.push(name, value.as_bytes());
        assert!(matches!(pushed, Err(CallError::BadBytes { .. })), "{name:?} {value:?}");
    }
    (0..PAIRS_MAX).for_each(|_| metadata.push("a", b"").expect("fits"));
    assert!(matches!(metadata.push("a", b""), Err(CallError::TooMany { .. })));
    let mut metadata = Metadata::default();
    metadata.push("a-bin", &vec![0; METADATA_BYTES_MAX - 5]).expect("fits");
    assert!(matches!(metadata.push("a", b""), Err(CallError::TooMany { .. })));

    // The same in bytes that no encoder writes: counts and lengths that promise too much.
    let decode = |kind, payload: &[u8]| {
        let decoded = Event::decode(ShmFrame { kind, stream: 1 }, payload);
        decoded.expect_err("not valid")
    };
    assert!(matches!(decode(2, &[0xff, 0xff]), CallError::TooMany { count: 65_535, .. }));
    assert!(matches!(decode(2, &[1, 0, 1, 0, 0xff, 0xff, b'a']), CallError::Truncated { .. }));
    assert!(matches!(decode(2, &[1, 0, 1, 0, 0, 0, b'A']), CallError::BadBytes { .. }));
    assert!(matches!(decode(2, &[1, 0, 1, 0, 0, 0, 0xff]), CallError::BadBytes { .. }));
    let path = [&[0; 8][..], &[0xff, 0xff], &[b'/'; 2000]].concat();
    assert!(matches!(decode(1, &path), CallError::TooMany { .. }));
    let status = [&[0; 4][..], &[1, 0, 0xff, 0, 0]].concat();
    assert!(matches!(decode(6, &status), CallError::BadBytes { .. }));
    for kind in [0, 12, u32::MAX] {
        assert_eq!(decode(kind, &[]), CallError::UnknownKind { kind });
    }
}

#[test]
fn credit_is_neither_overdrawn_nor_grown_without_bound() {
    let mut credit = Credit::default();
    assert!(credit.take(CREDIT_AT_FIRST + 1).is_err());
    assert_eq!(credit.left(), CREDIT_AT_FIRST, "what is refused takes nothing");
    credit.take(CREDIT_AT_FIRST).expect("all of it");
    assert!(credit.grant(0).is_err());
    credit.grant(CREDIT_MAX).expect("the most");
    assert!(credit.grant(1).is_err() && credit.grant(u32::MAX).is_err());
    assert_eq!(credit.left(), CREDIT_MAX);
}

#[test]
fn each_error_is_explained_for_every_face() {
    assert_for_every_face(&every_variant!(CallError {
        UnknownKind { kind: 99 },
        WrongStream { kind: 1, stream: 0 },
        Truncated { what: "the path" },
        Trailing { bytes: 1 },
        TooMany { what: "the list of metadata pairs", count: 2, count_max: 1 },
        BadBytes { what: "the path" },
        Credit { what: "it sends more than its credit" },
    }));
}
