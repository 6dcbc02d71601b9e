//! Tokens: the identity and the rights of callers.
//!
//! What must not live here: what a method needs, messages. The invariants: the time of a comparison
//! does not depend on how much of a token is right, and nothing that is shown or logged contains a
//! token.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ng_types::canary::planted;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::policy::Right;
use super::quota::{Quota, Quotas};
use super::share::UnderWay;

/// The largest size of a token file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The least length of a token in plain text.
const TOKEN_MIN: usize = 16;
/// The largest length of a token.
const TOKEN_MAX: usize = 512;
/// The form of a line, for messages.
const LINE: &str = "RIGHT NAME TOKEN [EXPIRES] [requests=N] [seeds=N]";

/// A token file that cannot be read or is not valid.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("token file {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A line is not valid. The message does not show its text, which may be a secret.
    #[error("token file{path}, line {line}: {what}")]
    Line {
        /// The path of the file after a space, or empty if it is unknown.
        path: String,
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

/// A holder of a token.
pub struct Holder {
    /// Its name in logs.
    pub name: String,
    /// Its right.
    pub right: Right,
    digest: [u8; 32],
    expires: Option<SystemTime>,
    /// Its quotas per second.
    pub quota: Quota,
    /// Its requests in flight.
    pub under_way: Arc<UnderWay>,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.right.name())
    }
}

/// Why a caller is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has no token.
    None,
    /// Its token is unknown.
    Unknown,
    /// Its token has expired.
    Expired,
}

/// All known tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    holders: Vec<Arc<Holder>>,
}

impl Tokens {
    /// Reads a token file. A line is `RIGHT NAME TOKEN [EXPIRES] [requests=N] [seeds=N]`: the right
    /// is `read`, `write` or `admin`; the token is its SHA-256 in hexadecimal digits, or the token
    /// itself; `EXPIRES` is a day, `2027-01-31`, or a time, `2027-01-31T12:00:00Z`; quotas are per
    /// second. Empty lines and those that start with `#` are skipped.
    ///
    /// # Errors
    /// The file cannot be read, other users can read it, a line is not valid, or it has no token.
    pub fn read(path: &Path, quotas: Quotas) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File { path: path.display().to_string(), source };
        let bytes = ng_io::private_file(path, FILE_BYTES_MAX).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let what = "the file is not valid UTF-8; write it as UTF-8 text";
            failed(std::io::Error::new(std::io::ErrorKind::InvalidData, what))
        })?;
        Self::parse(&text, quotas).map_err(|error| match error {
            TokenError::Line { line, what, .. } => {
                TokenError::Line { path: format!(" {}", path.display()), line, what }
            }
            other => other,
        })
    }

    /// Parses the content of a token file.
    ///
    /// # Errors
    /// A line is not valid, or the text has no token.
    pub fn parse(text: &str, quotas: Quotas) -> Result<Self, TokenError> {
        let mut holders: Vec<Arc<Holder>> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: String| TokenError::Line { path: String::new(), line: at + 1, what };
            let holder = holder_of(line, quotas).map_err(wrong)?;
            if holders.iter().any(|other| other.name == holder.name) {
                let what = format!("the name {:?} is already used in an earlier line", holder.name);
                return Err(wrong(format!("{what}; choose another name")));
            }
            holders.push(Arc::new(holder));
        }
        if holders.is_empty() {
            let what = format!("the file has no token; add lines of the form {LINE}");
            return Err(TokenError::Line { path: String::new(), line: 1, what });
        }
        Ok(Self { holders })
    }

    /// Takes over used quotas and requests in flight from the tokens before a reload.
    pub fn go_on_from(&mut self, before: &Self) {
        for holder in &mut self.holders {
            let old = before.holders.iter().find(|old| old.name == holder.name);
            // Nobody has a holder of tokens that are not in place yet.
            if let (Some(old), Some(holder)) = (old, Arc::get_mut(holder)) {
                holder.quota.go_on_from(&old.quota);
                holder.under_way = Arc::clone(&old.under_way);
            }
        }
    }

    /// The holder of the token in a header such as `Bearer TOKEN`.
    ///
    /// # Errors
    /// The header has no valid token.
    pub fn find(&self, header: Option<&[u8]>, now: SystemTime) -> Result<Arc<Holder>, Refused> {
        let token = header.and_then(bearer).ok_or(Refused::None)?;
        if token.len() > TOKEN_MAX {
            return Err(Refused::Unknown);
        }
        let digest: [u8; 32] = Sha256::digest(token).into();
        // All tokens are compared, so that the time does not reveal a partial match.
        let mut found = None;
        for holder in &self.holders {
            let same: Choice = holder.digest.ct_eq(&digest);
            if bool::from(same) {
                found = Some(holder);
            }
        }
        let holder = found.ok_or(Refused::Unknown)?;
        match holder.expires {
            Some(end) if end <= now && !planted("tokens_for_ever") => Err(Refused::Expired),
            _ => Ok(Arc::clone(holder)),
        }
    }
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii()).filter(|t| !t.is_empty())
}

fn holder_of(line: &str, quotas: Quotas) -> Result<Holder, String> {
    let mut words = line.split_whitespace();
    let mut word = |what| words.next().ok_or_else(|| format!("the {what} is missing: use {LINE}"));
    let right = match word("right")? {
        "read" | "read-only" => Right::Read,
        "write" | "read-write" => Right::Write,
        "admin" => Right::Admin,
        _ => return Err("the right is not valid: use read, write or admin".to_owned()),
    };
    let name = word("name")?.to_owned();
    let digest = digest_of(word("token")?)?;
    let (mut expires, mut quotas) = (None, quotas);
    for word in words {
        let number = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{word:?} is not valid: use a number of 1 or more"))
        };
        if let Some(text) = word.strip_prefix("requests=") {
            quotas.requests = Some(number(text)?);
        } else if let Some(text) = word.strip_prefix("seeds=") {
            quotas.seeds = Some(number(text)?);
        } else {
            let time = time_of(word);
            expires = Some(time.ok_or_else(|| {
                "the text after the token is not valid: use a day such as 2027-01-31, requests=N \
                 or seeds=N"
                    .to_owned()
            })?);
        }
    }
    Ok(Holder {
        name,
        right,
        digest,
        expires,
        quota: Quota::new(quotas),
        under_way: Arc::default(),
    })
}

fn digest_of(word: &str) -> Result<[u8; 32], String> {
    let is_digest = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_digest {
        if !(TOKEN_MIN..=TOKEN_MAX).contains(&word.len()) {
            return Err(format!(
                "the token has {} characters: use {TOKEN_MIN} to {TOKEN_MAX}, or its SHA-256",
                word.len()
            ));
        }
        return Ok(Sha256::digest(word).into());
    }
    let mut digest = [0; 32];
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&word[at..at + 2], 16).map_err(|error| error.to_string())?;
    }
    Ok(digest)
}

/// A day, or a time in UTC, by RFC 3339.
fn time_of(text: &str) -> Option<SystemTime> {
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let all: Option<Vec<u64>> = text.split(by).map(|part| part.parse().ok()).collect();
        all?.try_into().ok()
    };
    let ([year, month, date], [hour, minute, second]) = (numbers(day, '-')?, numbers(time, ':')?);
    let is_valid = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&date)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_valid {
        return None;
    }
    // Days since 1970: years are counted from March, so that the day of a leap year comes last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + date - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::share::{Share, What};

    const NOW: Duration = Duration::from_secs(1_790_000_000);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + NOW
    }

    #[test]
    fn a_token_is_found_by_its_digest_until_it_expires() {
        let digest: String = Sha256::digest("a secret of the admin")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let text = format!(
            "# people\n\n\
             read ann ann-has-this-token 2026-01-01\n\
             write bob bob-has-this-token 2030-01-31 requests=5\n\
             admin eve {digest} 2100-01-01T12:00:00Z"
        );
        let tokens = Tokens::parse(&text, Quotas::default()).expect("tokens");
        let find = |header: &str| tokens.find(Some(header.as_bytes()), now());
        assert_eq!(find("Bearer ann-has-this-token").err(), Some(Refused::Expired));
        assert_eq!(find("bearer bob-has-this-token").expect("bob").right, Right::Write);
        assert_eq!(find("Bearer a secret of the admin").expect("eve").name, "eve");
        for wrong in ["Bearer bob-has-this-toke", &format!("Bearer {digest}"), "Bearer x"] {
            assert_eq!(find(wrong).err(), Some(Refused::Unknown), "{wrong}");
        }
        for none in ["", "Bearer", "Bearer  ", "Basic bob-has-this-token"] {
            assert_eq!(find(none).err(), Some(Refused::None), "{none:?}");
        }
        assert_eq!(tokens.find(None, now()).err(), Some(Refused::None));
    }

    #[test]
    fn what_a_token_has_under_way_outlives_a_reload() {
        let line = "read ann ann-has-this-token";
        let tokens = || Tokens::parse(line, Quotas::default()).expect("tokens");
        let (before, mut after) = (tokens(), tokens());
        let take = |of: &Tokens| Share::take(&of.holders[0].under_way, What::Calls, 2);
        let old = take(&before).expect("half of them");
        after.go_on_from(&before);
        assert!(take(&after).is_err(), "a reload gave the places again");
        drop(old);
        assert!(take(&after).is_ok());
    }

    #[test]
    fn wrong_lines_are_named_without_their_secrets() {
        for (text, what) in [
            ("", "no token"),
            ("root ann long-enough-token", "read, write or admin"),
            ("read ann", "the token is missing"),
            ("read ann short", "5 characters"),
            ("read ann long-enough-token tomorrow", "2027-01-31"),
            ("read ann long-enough-token 2027-13-01", "2027-01-31"),
            ("read ann long-enough-token seeds=0", "1 or more"),
            ("read ann long-enough-token\nread ann other-enough-token", "line 2"),
        ] {
            let error = Tokens::parse(text, Quotas::default()).expect_err(text).to_string();
            assert!(error.contains(what), "{text:?}: {error}");
            assert!(!error.contains("enough"), "{error}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let seconds = |text| {
            let time = time_of(text).expect("time");
            time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
        };
        assert_eq!(seconds("1970-01-01"), 0);
        assert_eq!(seconds("2000-02-29"), 951_782_400);
        assert_eq!(seconds("2026-11-26T03:20:39Z"), 1_795_663_239);
        assert_eq!(time_of("2026-11-26T03:20:39"), None);
    }
}
