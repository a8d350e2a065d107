//! Tokens of PTX text.
//!
//! A dotted word such as `.L2::128B` is one [`Tok::Dot`] token, so that an opcode with modifiers is
//! an identifier followed by dot tokens. Comments and whitespace are dropped; every token keeps its
//! byte span in the source.

use crate::error::ParseError;

/// Token kinds. Text is recovered from the span.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Tok {
    Ident,
    /// `.word` or `.word::word`; the span includes the dot.
    Dot,
    Int(u64),
    F32(u32),
    F64(u64),
    Str,
    Punct(u8),
    Eof,
}

/// A token with its byte range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Builds the error for byte offset `at`.
pub(crate) fn error_at(src: &str, at: usize, message: impl Into<String>) -> ParseError {
    let mut at = at.min(src.len());
    while !src.is_char_boundary(at) {
        at -= 1;
    }
    let before = &src[..at];
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let end = src[at..].find('\n').map_or(src.len(), |i| at + i);
    ParseError {
        line: 1 + before.bytes().filter(|&b| b == b'\n').count() as u32,
        col: 1 + src[start..at].chars().count() as u32,
        message: message.into(),
        source_line: src[start..end].trim_end().to_string(),
    }
}

fn word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$'
}

/// Splits the whole text into tokens, ending with [`Tok::Eof`].
pub(crate) fn lex(src: &str) -> Result<Vec<Token>, ParseError> {
    let b = src.as_bytes();
    if b.len() > u32::MAX as usize {
        return Err(error_at("", 0, "text longer than 4 GiB"));
    }
    let mut out = Vec::with_capacity(b.len() / 3);
    let mut i = 0;
    while i < b.len() {
        let c = b[i];
        let start = i;
        let tok = match c {
            b' ' | b'\t' | b'\r' | b'\n' => {
                i += 1;
                continue;
            }
            b'/' if b.get(i + 1) == Some(&b'/') => {
                while i < b.len() && b[i] != b'\n' {
                    i += 1;
                }
                continue;
            }
            b'/' if b.get(i + 1) == Some(&b'*') => {
                match src.get(i + 2..).and_then(|s| s.find("*/")) {
                    Some(n) => i += 2 + n + 2,
                    None => return Err(error_at(src, i, "comment is not closed")),
                }
                continue;
            }
            b'"' => {
                match b[i + 1..].iter().position(|&x| x == b'"' || x == b'\n') {
                    Some(n) if b[i + 1 + n] == b'"' => i += n + 2,
                    _ => return Err(error_at(src, i, "string is not closed")),
                }
                Tok::Str
            }
            b'0'..=b'9' => {
                let (t, n) = number(src, i)?;
                i += n;
                t
            }
            b'.' => {
                i += 1;
                let w0 = i;
                while i < b.len() && word(b[i]) {
                    i += 1;
                }
                while b[i..].starts_with(b"::") && b.get(i + 2).is_some_and(|&x| word(x)) {
                    i += 2;
                    while i < b.len() && word(b[i]) {
                        i += 1;
                    }
                }
                if i == w0 {
                    return Err(error_at(src, start, "a word is expected after `.`"));
                }
                Tok::Dot
            }
            _ if word(c) || c == b'%' => {
                i += 1;
                while i < b.len() && word(b[i]) {
                    i += 1;
                }
                Tok::Ident
            }
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'=' | b'+' | b'-' | b'!' | b'@' | b'|' | b'~'
            | b'*' | b'/' | b'&' | b'^' => {
                i += 1;
                Tok::Punct(c)
            }
            _ => return Err(error_at(src, i, "unexpected character")),
        };
        out.push(Token { tok, start: start as u32, end: i as u32 });
    }
    out.push(Token { tok: Tok::Eof, start: b.len() as u32, end: b.len() as u32 });
    Ok(out)
}

/// Lexes a number at `i`; returns the token and its length.
fn number(src: &str, i: usize) -> Result<(Tok, usize), ParseError> {
    let b = src.as_bytes();
    let mut n = i;
    while n < b.len() && word(b[n]) {
        n += 1;
    }
    let text = &src[i..n];
    let bad = |what: &str| error_at(src, i, format!("bad {what} `{text}`"));
    let lower = text.to_ascii_lowercase();
    if let Some(h) = lower.strip_prefix("0f") {
        if h.len() != 8 {
            return Err(bad("f32 constant (0f and 8 hex digits)"));
        }
        let v = u32::from_str_radix(h, 16).map_err(|_| bad("f32 constant"))?;
        return Ok((Tok::F32(v), n - i));
    }
    if let Some(h) = lower.strip_prefix("0d") {
        if h.len() != 16 {
            return Err(bad("f64 constant (0d and 16 hex digits)"));
        }
        let v = u64::from_str_radix(h, 16).map_err(|_| bad("f64 constant"))?;
        return Ok((Tok::F64(v), n - i));
    }
    // A decimal fraction: digits '.' digits [e[+-]digits].
    if text.bytes().all(|c| c.is_ascii_digit()) && b.get(n) == Some(&b'.') && b.get(n + 1).is_some_and(u8::is_ascii_digit) {
        let mut m = n + 1;
        while m < b.len() && b[m].is_ascii_digit() {
            m += 1;
        }
        if m < b.len() && (b[m] | 32) == b'e' {
            m += 1;
            if m < b.len() && (b[m] == b'+' || b[m] == b'-') {
                m += 1;
            }
            while m < b.len() && b[m].is_ascii_digit() {
                m += 1;
            }
        }
        let v: f64 = src[i..m].parse().map_err(|_| error_at(src, i, "bad decimal constant"))?;
        return Ok((Tok::F64(v.to_bits()), m - i));
    }
    let digits = lower.strip_suffix('u').unwrap_or(&lower);
    let v = if let Some(h) = digits.strip_prefix("0x") {
        u64::from_str_radix(h, 16)
    } else if let Some(h) = digits.strip_prefix("0b") {
        u64::from_str_radix(h, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(&digits[1..], 8)
    } else {
        digits.parse()
    };
    Ok((Tok::Int(v.map_err(|_| bad("integer"))?), n - i))
}
