//! Metadata, deadlines and status: from HTTP's form into that of the frames, and back.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use ng_io::calls::{CallError, METADATA_BYTES_MAX, Metadata, TEXT_BYTES_MAX, Trailers};
use tonic::codegen::Bytes;
use tonic::metadata::{
    Ascii, Binary, BinaryMetadataValue, KeyAndValueRef, MetadataKey, MetadataMap, MetadataValue,
};
use tonic::{Code, Status};

/// Where a status has its details.
const DETAILS: &str = "grpc-status-details-bin";
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// What HTTP needs, and frames say otherwise.
const OF_HTTP: [&str; 7] = [
    "te",
    "content-type",
    "content-length",
    "grpc-timeout",
    "grpc-status",
    "grpc-message",
    "grpc-accept-encoding",
];
/// The most digits of a timeout.
const DIGITS: u128 = 100_000_000;

/// What a side says beside its messages.
pub(super) fn to_metadata(headers: HeaderMap) -> Result<Metadata, CallError> {
    let mut metadata = Metadata::default();
    for pair in MetadataMap::from_headers(headers).iter() {
        match pair {
            KeyAndValueRef::Ascii(name, _) if OF_HTTP.contains(&name.as_str()) => {}
            KeyAndValueRef::Ascii(name, value) => {
                metadata.push(name.as_str(), value.as_encoded_bytes())?;
            }
            KeyAndValueRef::Binary(name, value) => {
                let what = "a value of metadata";
                let value = value.to_bytes().map_err(|_| CallError::BadBytes { what })?;
                metadata.push(name.as_str(), &value)?;
            }
        }
    }
    Ok(metadata)
}

/// The same as headers.
pub(super) fn to_headers(metadata: &Metadata) -> HeaderMap {
    let mut map = MetadataMap::new();
    for (name, value) in metadata.pairs() {
        if let Ok(name) = MetadataKey::<Binary>::from_bytes(name.as_bytes()) {
            map.append_bin(name, BinaryMetadataValue::from_bytes(value));
        } else if let (Ok(name), Ok(value)) = (
            MetadataKey::<Ascii>::from_bytes(name.as_bytes()),
            MetadataValue::<Ascii>::try_from(&value[..]),
        ) {
            map.append(name, value);
        }
    }
    let mut headers = map.into_headers();
    OF_HTTP.iter().for_each(|name| drop(headers.remove(*name)));
    headers
}

/// How a call ends, as far as it fits a frame.
pub(super) fn to_trailers(status: &Status) -> Trailers {
    let metadata = to_metadata(status.metadata().clone().into_headers());
    let metadata = metadata.and_then(|mut metadata| {
        if !status.details().is_empty() {
            metadata.push(DETAILS, status.details())?;
        }
        Ok(metadata)
    });
    let mut text = status.message().to_owned();
    let metadata = metadata.unwrap_or_else(|_| {
        text.push_str(&format!(
            " (the error details were left out: they have more than {METADATA_BYTES_MAX} bytes)"
        ));
        Metadata::default()
    });
    cut(&mut text, TEXT_BYTES_MAX);
    Trailers { status: status.code() as u32, text, metadata }
}

/// The same without what may be long.
pub(super) fn without_details(mut trailers: Trailers, bytes: usize) -> Trailers {
    trailers.metadata = Metadata::default();
    cut(&mut trailers.text, bytes);
    trailers
}

fn cut(text: &mut String, bytes: usize) {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// How a call ended.
pub(super) fn to_status(trailers: &Trailers) -> Status {
    let details = trailers.metadata.pairs().iter().find(|(name, _)| name == DETAILS);
    let details = details.map_or_else(Bytes::new, |(_, value)| Bytes::copy_from_slice(value));
    let mut headers = to_headers(&trailers.metadata);
    headers.remove(DETAILS);
    let metadata = MetadataMap::from_headers(headers);
    let code = Code::from_i32(i32::try_from(trailers.status).unwrap_or(i32::MAX));
    Status::with_details_and_metadata(code, &trailers.text, details, metadata)
}

/// How long a caller waits.
pub(super) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number = number.parse::<u64>().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Says how long a caller waits.
pub(super) fn put_timeout(headers: &mut HeaderMap, left: Duration) {
    let (micros, millis) = (left.as_micros(), left.as_millis());
    let text = if micros < DIGITS {
        format!("{micros}u")
    } else if millis < DIGITS {
        format!("{millis}m")
    } else {
        format!("{}S", u128::from(left.as_secs()).min(DIGITS - 1))
    };
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(TIMEOUT, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_comes_back_with_its_details() {
        let mut status =
            Status::with_details(Code::NotFound, "no \u{e9}", Bytes::from_static(b"\0\xff"));
        status.metadata_mut().insert("x-name", MetadataValue::from_static("value"));
        let back = to_status(&to_trailers(&status));
        assert_eq!((back.code(), back.message()), (Code::NotFound, "no \u{e9}"));
        assert_eq!(back.details(), b"\0\xff");
        assert_eq!(
            back.metadata().get("x-name").map(|value| value.as_bytes()),
            Some(&b"value"[..])
        );

        let long = Bytes::from(vec![1; METADATA_BYTES_MAX]);
        let back = to_status(&to_trailers(&Status::with_details(Code::Aborted, "why", long)));
        assert_eq!((back.code(), back.details()), (Code::Aborted, &b""[..]));
        assert!(back.message().starts_with("why (the error details"), "{}", back.message());
    }

    #[test]
    fn timeouts_come_back_to_their_unit() {
        for (left, text) in [
            (Duration::from_micros(7), "7u"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(1_000_000), "1000000S"),
        ] {
            let mut headers = HeaderMap::new();
            put_timeout(&mut headers, left);
            assert_eq!(headers[TIMEOUT], text);
            assert_eq!(timeout_of(&headers), Some(left));
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }
}
