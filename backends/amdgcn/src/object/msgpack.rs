//! Metadata as MessagePack, every value in its shortest form.

use super::bytes::Bytes;
use crate::kernel::Node;

pub(super) fn pack(node: &Node) -> Vec<u8> {
    let mut out = Bytes::default();
    write(node, &mut out);
    out.0
}

fn write(node: &Node, out: &mut Bytes) {
    match node {
        Node::Number(n) => number(*n, out),
        Node::Text(text) => string(text, out),
        Node::List(list) => {
            header(list.len(), [0x90, 0xdc], out);
            list.iter().for_each(|value| write(value, out));
        }
        Node::Map(map) => {
            header(map.len(), [0x80, 0xde], out);
            for (name, value) in map {
                string(name, out);
                write(value, out);
            }
        }
    }
}

fn big<const N: usize>(tag: u8, bytes: [u8; N], out: &mut Bytes) {
    out.bytes(&[tag]).bytes(&bytes);
}

fn number(n: u64, out: &mut Bytes) {
    match n {
        0..=0x7f => drop(out.bytes(&[n as u8])),
        0x80..=0xff => big(0xcc, [n as u8], out),
        0x100..=0xffff => big(0xcd, (n as u16).to_be_bytes(), out),
        0x1_0000..=0xffff_ffff => big(0xce, (n as u32).to_be_bytes(), out),
        _ => big(0xcf, n.to_be_bytes(), out),
    }
}

fn string(text: &str, out: &mut Bytes) {
    match text.len() {
        n @ 0..=31 => drop(out.bytes(&[0xa0 | n as u8])),
        n @ 32..=0xff => big(0xd9, [n as u8], out),
        n @ 0x100..=0xffff => big(0xda, (n as u16).to_be_bytes(), out),
        n => big(0xdb, (n as u32).to_be_bytes(), out),
    }
    out.bytes(text.as_bytes());
}

/// The header of a list or map: few have their number in the tag, more in two or four bytes behind it.
fn header(count: usize, [few, more]: [u8; 2], out: &mut Bytes) {
    match count {
        0..=15 => drop(out.bytes(&[few | count as u8])),
        16..=0xffff => big(more, (count as u16).to_be_bytes(), out),
        _ => big(more + 1, (count as u32).to_be_bytes(), out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_forms() {
        let packed = |n| pack(&Node::Number(n));
        assert_eq!(packed(127), [0x7f]);
        assert_eq!(packed(128), [0xcc, 0x80]);
        assert_eq!(packed(0x1234), [0xcd, 0x12, 0x34]);
        assert_eq!(packed(0x1_0000), [0xce, 0, 1, 0, 0]);
        assert_eq!(pack(&Node::Text("ab".to_owned())), [0xa2, b'a', b'b']);
        assert_eq!(pack(&Node::Text("x".repeat(32)))[..2], [0xd9, 32]);
        assert_eq!(pack(&Node::List(vec![Node::Number(1); 16]))[..3], [0xdc, 0, 16]);
        assert_eq!(pack(&Node::Map(vec![("k", Node::Number(2))])), [0x81, 0xa1, b'k', 2]);
    }
}
