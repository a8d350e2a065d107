//! Reads the metadata of a code object: msgpack with maps, arrays, texts, integers and truth values.

/// Maps within maps deeper than this are refused.
const DEEPEST: u32 = 16;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Text(String),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(m) => m.iter().find(|(k, _)| matches!(k, Value::Text(t) if t == key)).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        if let Value::Text(t) = self { Some(t) } else { None }
    }

    pub fn uint(&self) -> Option<u64> {
        if let Value::Int(i) = self { u64::try_from(*i).ok() } else { None }
    }

    pub fn array(&self) -> &[Value] {
        if let Value::Array(a) = self { a } else { &[] }
    }
}

/// The first value of the bytes; `None` if they are not msgpack of the kinds above.
pub(super) fn parse(bytes: &[u8]) -> Option<Value> {
    value(&mut { bytes }, 0)
}

fn take<'a>(b: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let head = b.get(..n)?;
    *b = &b[n..];
    Some(head)
}

fn number(b: &mut &[u8], n: usize) -> Option<u64> {
    Some(take(b, n)?.iter().fold(0u64, |v, &x| v << 8 | u64::from(x)))
}

fn text(b: &mut &[u8], n: u64) -> Option<Value> {
    let raw = take(b, usize::try_from(n).ok()?)?;
    Some(Value::Text(String::from_utf8_lossy(raw).into_owned()))
}

fn array(b: &mut &[u8], n: u64, depth: u32) -> Option<Value> {
    (0..n).map(|_| value(b, depth + 1)).collect::<Option<Vec<_>>>().map(Value::Array)
}

fn map(b: &mut &[u8], n: u64, depth: u32) -> Option<Value> {
    (0..n).map(|_| Some((value(b, depth + 1)?, value(b, depth + 1)?))).collect::<Option<Vec<_>>>().map(Value::Map)
}

fn value(b: &mut &[u8], depth: u32) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    let tag = take(b, 1)?[0];
    let signed = |v: u64, bits: u32| Value::Int(((v << (64 - bits)) as i64) >> (64 - bits));
    Some(match tag {
        0x00..=0x7f => Value::Int(i64::from(tag)),
        0x80..=0x8f => map(b, u64::from(tag & 15), depth)?,
        0x90..=0x9f => array(b, u64::from(tag & 15), depth)?,
        0xa0..=0xbf => text(b, u64::from(tag & 31))?,
        0xc0 => Value::Nil,
        0xc2 | 0xc3 => Value::Bool(tag == 0xc3),
        0xcc..=0xcf => Value::Int(i64::try_from(number(b, 1 << (tag - 0xcc))?).ok()?),
        0xd0..=0xd3 => signed(number(b, 1 << (tag - 0xd0))?, 8 << (tag - 0xd0)),
        0xd9..=0xdb => {
            let n = number(b, 1 << (tag - 0xd9))?;
            text(b, n)?
        }
        0xdc | 0xdd => {
            let n = number(b, 2 << (tag - 0xdc))?;
            array(b, n, depth)?
        }
        0xde | 0xdf => {
            let n = number(b, 2 << (tag - 0xde))?;
            map(b, n, depth)?
        }
        0xe0..=0xff => Value::Int(i64::from(tag as i8)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds() {
        let bytes = b"\x83\xa1a\x01\xa1b\x92\xc3\xff\xa1c\xcd\x01\x00";
        let v = parse(bytes).expect("a map");
        assert_eq!(v.get("a").and_then(Value::uint), Some(1));
        assert_eq!(v.get("b").map(Value::array), Some(&[Value::Bool(true), Value::Int(-1)][..]));
        assert_eq!(v.get("c").and_then(Value::uint), Some(256));
    }

    #[test]
    fn broken_bytes_are_refused() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"\xdf\xff\xff\xff\xff"), None);
        assert_eq!(parse(&[0x91; 64]), None);
    }
}
