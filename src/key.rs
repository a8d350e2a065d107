//! The key by which an artifact is found.

use crate::sha256::sha256;
use std::fmt;

/// The name of an artifact: the SHA-256 sum of all that its bytes depend on. The same kernel, target, options and version of the compiler
/// have the same key in every process and on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of fields: each counts with its name and length, so that no two lists of fields look the same.
    pub(crate) fn of(fields: &[(&str, &[u8])]) -> Key {
        let lens: Vec<[[u8; 8]; 2]> = fields.iter().map(|(n, v)| [n.len(), v.len()].map(|l| (l as u64).to_le_bytes())).collect();
        let parts: Vec<&[u8]> = fields.iter().zip(&lens).flat_map(|((n, v), [a, b])| [&a[..], n.as_bytes(), &b[..], v]).collect();
        Key(sha256(&parts))
    }

    /// The key of other data that belongs to this one's, such as what a driver made of the artifact's text for a device.
    pub fn derived(&self, what: &str, of: &[u8]) -> Key {
        Key::of(&[("of", &self.0), ("what", what.as_bytes()), ("data", of)])
    }

    /// The key of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

/// As 64 hexadecimal digits.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn fields_do_not_run_into_one_another() {
        let keys = [
            Key::of(&[("a", b"bc")]),
            Key::of(&[("ab", b"c")]),
            Key::of(&[("a", b"b"), ("", b"c")]),
            Key::of(&[]),
            Key::of(&[("a", b"bc"), ("", b"")]),
        ];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[..i] {
                assert_ne!(a, b);
            }
        }
        assert_ne!(keys[0].derived("x", b"y"), keys[0].derived("xy", b""));
        let text = keys[0].to_string();
        assert!(text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
    }
}
