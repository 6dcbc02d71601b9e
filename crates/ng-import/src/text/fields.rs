//! The fields of one line.

use std::borrow::Cow;

use super::format::Separator;

/// Iterates over the fields of a line without its newline.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: Separator,
    /// What is wrong with the quotes of the fields so far.
    pub(super) fault: Option<&'static str>,
    /// The last field lost spaces around it.
    pub(super) trimmed: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8], separator: Separator) -> Self {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let blank = line.trim_ascii().is_empty();
        let line = if separator == Separator::Whitespace { line.trim_ascii() } else { line };
        Self { rest: (!blank).then_some(line), separator, fault: None, trimmed: false }
    }

    /// The field that starts with the quote at the head of `rest`.
    fn quoted(&mut self, rest: &'a [u8], separator: u8) -> Cow<'a, [u8]> {
        let mut end = 1;
        let mut escaped = false;
        loop {
            let Some(quote) = memchr::memchr(b'"', &rest[end..]) else {
                self.fault = Some("a quote is not closed (a field must not contain a newline)");
                self.rest = None;
                return Cow::Borrowed(rest);
            };
            end += quote;
            if rest.get(end + 1) != Some(&b'"') {
                break;
            }
            escaped = true;
            end += 2;
        }
        let after = &rest[end + 1..];
        let next = memchr::memchr(separator, after);
        if !after[..next.unwrap_or(after.len())].trim_ascii().is_empty() {
            self.fault = Some("text follows a closing quote");
        }
        self.rest = next.map(|at| &after[at + 1..]);
        let inner = &rest[1..end];
        if !escaped {
            return Cow::Borrowed(inner);
        }
        let mut plain = Vec::with_capacity(inner.len());
        let mut bytes = inner.iter();
        while let Some(byte) = bytes.next() {
            plain.push(*byte);
            if *byte == b'"' {
                bytes.next();
            }
        }
        Cow::Owned(plain)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let rest = self.rest?;
        match self.separator {
            Separator::Whitespace => {
                let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
                let end = rest.iter().position(blank).unwrap_or(rest.len());
                let after = rest[end..].trim_ascii_start();
                self.rest = (!after.is_empty()).then_some(after);
                Some(Cow::Borrowed(&rest[..end]))
            }
            Separator::Byte(byte) => {
                let start = if byte == b'\t' { rest } else { rest.trim_ascii_start() };
                self.trimmed = false;
                if start.first() == Some(&b'"') {
                    return Some(self.quoted(start, byte));
                }
                let end = memchr::memchr(byte, start).unwrap_or(start.len());
                self.rest = start.get(end + 1..);
                let field = start[..end].trim_ascii();
                self.trimmed = start.len() < rest.len() || field.len() < end;
                Some(Cow::Borrowed(field))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, separator: Separator, expected: &[&str]) {
        let found: Vec<String> = Fields::new(line.as_bytes(), separator)
            .map(|field| String::from_utf8_lossy(&field).into_owned())
            .collect();
        assert_eq!(found, expected, "{line:?}");
    }

    #[test]
    fn lines_split_into_fields() {
        let space = Separator::Whitespace;
        let comma = Separator::Byte(b',');
        check("1 2", space, &["1", "2"]);
        check("  1\t \t2  \r", space, &["1", "2"]);
        check("", space, &[]);
        check("1,2", comma, &["1", "2"]);
        check("1, 2", comma, &["1", "2"]);
        check("1,,3,", comma, &["1", "", "3", ""]);
        check(r#""a,b", "say ""hi""",c"#, comma, &["a,b", "say \"hi\"", "c"]);
        check(r#""""""#, comma, &["\""]);
        check(r#""","#, comma, &["", ""]);
        check(r#"1,"unclosed"#, comma, &["1", "\"unclosed"]);
        check("\tb", Separator::Byte(b'\t'), &["", "b"]);
        check("a b\tc d", Separator::Byte(b'\t'), &["a b", "c d"]);
        check("1;2", Separator::Byte(b';'), &["1", "2"]);
    }
}
