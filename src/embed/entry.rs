//! An entry of a store: contents in an envelope that tells whether they are whole, of this version, and of this key.
//!
//! ```text
//! 8 bytes mark │ 4 version │ 32 key │ 8 length │ contents │ 32 SHA-256 of all in front
//! ```
//!
//! That tells accidents, not forgeries: who may write to a store may put code into it.

use crate::key::Key;
use crate::sha256::sha256;

const MARK: &[u8; 8] = b"tilelift";
const VERSION: u32 = 1;
/// Bytes in front of the contents.
const HEAD: usize = 8 + 4 + 32 + 8;
/// Bytes behind them.
const SUM: usize = 32;

/// Contents in their envelope.
pub(super) fn sealed(key: &Key, contents: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + contents.len() + SUM);
    out.extend_from_slice(MARK);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&key.bytes());
    out.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    out.extend_from_slice(contents);
    let sum = sha256(&[&out]);
    out.extend_from_slice(&sum);
    out
}

/// The contents of an entry; `None` if it is not whole, of another version, or another key's.
pub(super) fn opened<'a>(key: &Key, entry: &'a [u8]) -> Option<&'a [u8]> {
    let (rest, sum) = entry.split_last_chunk::<SUM>()?;
    let (head, contents) = rest.split_first_chunk::<HEAD>()?;
    let said = sealed_head(key, contents.len());
    (*head == said && sha256(&[rest]) == *sum).then_some(contents)
}

fn sealed_head(key: &Key, len: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MARK);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..44].copy_from_slice(&key.bytes());
    head[44..].copy_from_slice(&(len as u64).to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_opened_whole_and_by_its_key_only() {
        let (a, b) = (Key::of(&[("a", b"")]), Key::of(&[("b", b"")]));
        let contents: Vec<u8> = (0..100).collect();
        let entry = sealed(&a, &contents);
        assert_eq!(opened(&a, &entry), Some(&contents[..]));
        assert_eq!(opened(&b, &entry), None);
        for n in 0..entry.len() {
            assert_eq!(opened(&a, &entry[..n]), None, "cut at {n}");
            for bit in 0..8 {
                let mut flipped = entry.clone();
                flipped[n] ^= 1 << bit;
                assert_eq!(opened(&a, &flipped), None, "bit {bit} of byte {n}");
            }
        }
        let longer = [&entry[..], b"\0"].concat();
        assert_eq!(opened(&a, &longer), None);
        assert_eq!(opened(&a, &sealed(&a, &[])), Some(&[][..]));
    }
}
