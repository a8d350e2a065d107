//! Descriptions of launches in JSON.
//!
//! ```text
//! {"code": "k.ptx", "entry": "k", "grid": [4, 1, 1], "block": [128, 1, 1], "shared_bytes": 0,
//!  "args": [{"buffer": {"bytes": 4096, "in": "x.bin", "out": "y.bin"}}, {"i32": 1024}]}
//! ```
//!
//! Arguments are in parameter order. `in` is the buffer's initial contents (without it the bytes count as never written), `out` is
//! written after the run. Scalars are `i8 i16 i32 i64 u8 u16 u32 u64 f32 f64`; `f16` and `bf16` are rounded; `{"bytes": "0a00ff"}` is an
//! argument of other size, such as a struct by value. A description is checked in
//! whole before anything runs; what is wrong is named by line and column, or by its place (`args[2].buffer.bytes`).

use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;
use tilelift_ir::{Scalar, num};
use tilelift_nvptx_sim::Arg;

/// Most bytes of a buffer.
pub const MAX_BUFFER: u64 = 1 << 34;

/// A launch of a foreign kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct ForeignLaunch {
    /// Where the text or the code object is.
    pub code: PathBuf,
    /// The kernel's name.
    pub entry: String,
    /// CTAs (workgroups) per dimension.
    pub grid: [u32; 3],
    /// Threads (work items) per dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory, beside what the code itself asks for.
    pub shared_bytes: u32,
    /// Arguments in parameter order.
    pub args: Vec<ForeignArg>,
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum ForeignArg {
    /// The address of a buffer of its own.
    Buffer {
        /// Its size.
        bytes: usize,
        /// Where its initial contents are.
        input: Option<PathBuf>,
        /// Where its contents go.
        output: Option<PathBuf>,
    },
    /// A scalar.
    Scalar(Arg),
}

/// What is wrong with a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DescriptionError {
    /// It is no JSON.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was found or expected.
        message: String,
    },
    /// A field is missing, unknown or of another type.
    Field {
        /// The field's place, such as `args[2].buffer.bytes`.
        place: String,
        /// What is wrong, and what belongs there.
        message: String,
    },
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescriptionError::Syntax { line, column, message } => write!(f, "{line}:{column}: {message}"),
            DescriptionError::Field { place, message } => write!(f, "`{place}` {message}"),
        }
    }
}
impl std::error::Error for DescriptionError {}

fn wrong<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T, DescriptionError> {
    Err(DescriptionError::Field { place: place.into(), message: message.into() })
}

/// An object of which fields are taken; what is left in the end is unknown.
struct Fields<'a> {
    place: String,
    map: &'a Map<String, Value>,
    known: &'static [&'static str],
}

impl<'a> Fields<'a> {
    fn new(place: &str, value: &'a Value, known: &'static [&'static str]) -> Result<Fields<'a>, DescriptionError> {
        let here = if place.is_empty() { "the description" } else { place };
        let Some(map) = value.as_object() else { return wrong(here, format!("must be an object with {}", known.join(", "))) };
        let fields = Fields { place: place.to_owned(), map, known };
        match map.keys().find(|k| !known.contains(&k.as_str())) {
            Some(k) => wrong(fields.at(k), format!("is no field; known are {}", known.join(", "))),
            None => Ok(fields),
        }
    }

    fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    fn get(&self, key: &'static str) -> Option<&'a Value> {
        debug_assert!(self.known.contains(&key));
        self.map.get(key)
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, DescriptionError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s.clone())),
            Some(_) => wrong(self.at(key), "must be a string"),
        }
    }

    fn extents(&self, key: &'static str) -> Result<[u32; 3], DescriptionError> {
        let bad = || wrong(self.at(key), "must be a list of one to three numbers from 1 to 2147483647");
        let Some(list) = self.get(key).and_then(Value::as_array).filter(|l| (1..=3).contains(&l.len())) else { return bad() };
        let mut extents = [1; 3];
        for (e, v) in extents.iter_mut().zip(list) {
            match v.as_u64().filter(|n| (1..=0x7fff_ffff).contains(n)) {
                Some(n) => *e = n as u32,
                None => return bad(),
            }
        }
        Ok(extents)
    }

    fn number(&self, key: &'static str, usual: Option<u64>, most: u64) -> Result<u64, DescriptionError> {
        match (self.get(key), usual) {
            (None, Some(n)) => Ok(n),
            (None, None) => wrong(self.at(key), "is missing"),
            (Some(v), _) => match v.as_u64().filter(|&n| n <= most) {
                Some(n) => Ok(n),
                None => wrong(self.at(key), format!("must be a whole number from 0 to {most}")),
            },
        }
    }
}

const TOP: &[&str] = &["code", "entry", "grid", "block", "shared_bytes", "args"];
const BUFFER: &[&str] = &["bytes", "in", "out"];
const SCALARS: &str = "i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, bytes";

impl ForeignLaunch {
    /// Reads a description; a missing `entry` is empty, which means the only kernel of the code.
    ///
    /// # Errors
    /// What is no JSON, and every field that is missing, unknown or of another type.
    pub fn parse(text: &str) -> Result<ForeignLaunch, DescriptionError> {
        let value: Value = serde_json::from_str(text).map_err(|e| {
            // The place stands at the end of the message, too.
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_owned();
            DescriptionError::Syntax { line: e.line(), column: e.column(), message }
        })?;
        let top = Fields::new("", &value, TOP)?;
        let Some(code) = top.text("code")? else {
            return wrong("code", "is missing; it names the file with the PTX text or the code object");
        };
        let list = match top.get("args") {
            None => &[][..],
            Some(Value::Array(list)) => list,
            Some(_) => return wrong("args", "must be a list"),
        };
        Ok(ForeignLaunch {
            code: code.into(),
            entry: top.text("entry")?.unwrap_or_default(),
            grid: top.extents("grid")?,
            block: top.extents("block")?,
            shared_bytes: top.number("shared_bytes", Some(0), u64::from(u32::MAX))? as u32,
            args: list.iter().enumerate().map(|(i, v)| argument(&format!("args[{i}]"), v)).collect::<Result<_, _>>()?,
        })
    }
}

/// The bytes that pairs of hexadecimal digits write.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|c| c.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|d| (d[0] << 4 | d[1]) as u8).collect())
}

fn argument(place: &str, value: &Value) -> Result<ForeignArg, DescriptionError> {
    let one = value.as_object().filter(|m| m.len() == 1).and_then(|m| m.iter().next());
    let Some((kind, v)) = one else {
        return wrong(place, format!("must be an object with one field: buffer, or a scalar ({SCALARS})"));
    };
    let here = format!("{place}.{kind}");
    if kind == "buffer" {
        let f = Fields::new(&here, v, BUFFER)?;
        let bytes = f.number("bytes", None, MAX_BUFFER)? as usize;
        return Ok(ForeignArg::Buffer { bytes, input: f.text("in")?.map(Into::into), output: f.text("out")?.map(Into::into) });
    }
    let int = |low: i64, high: i64| match v.as_i64().filter(|n| (low..=high).contains(n)) {
        Some(n) => Ok(n),
        None => wrong(here.clone(), format!("must be a whole number from {low} to {high}")),
    };
    let uint = |high: u64| match v.as_u64().filter(|&n| n <= high) {
        Some(n) => Ok(n),
        None => wrong(here.clone(), format!("must be a whole number from 0 to {high}")),
    };
    // JSON has no infinities and no NaN; words stand for them.
    let float = || match (v.as_f64(), v.as_str()) {
        (Some(x), _) => Ok(x),
        (_, Some("inf")) => Ok(f64::INFINITY),
        (_, Some("-inf")) => Ok(f64::NEG_INFINITY),
        (_, Some("nan")) => Ok(f64::NAN),
        _ => wrong(here.clone(), "must be a number, \"inf\", \"-inf\" or \"nan\""),
    };
    let half = |elem: Scalar| float().map(|x| Arg::U16(num::to_bits(num::round(x, elem), elem) as u16));
    let arg = match kind.as_str() {
        "i8" => Arg::U8(int(i8::MIN.into(), i8::MAX.into())? as u8),
        "i16" => Arg::U16(int(i16::MIN.into(), i16::MAX.into())? as u16),
        "i32" => Arg::S32(int(i32::MIN.into(), i32::MAX.into())? as i32),
        "i64" => Arg::S64(int(i64::MIN, i64::MAX)?),
        "u8" => Arg::U8(uint(u8::MAX.into())? as u8),
        "u16" => Arg::U16(uint(u16::MAX.into())? as u16),
        "u32" => Arg::U32(uint(u32::MAX.into())? as u32),
        "u64" => Arg::U64(uint(u64::MAX)?),
        "f16" => half(Scalar::F16)?,
        "bf16" => half(Scalar::BF16)?,
        "f32" => Arg::F32(float()? as f32),
        "f64" => Arg::F64(float()?),
        "bytes" => match v.as_str().and_then(hex) {
            Some(bytes) => Arg::Bytes(bytes),
            None => return wrong(here, "must be a string with two hexadecimal digits for each byte"),
        },
        _ => return wrong(here, format!("is no argument; known are buffer and the scalars {SCALARS}")),
    };
    Ok(ForeignArg::Scalar(arg))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        ForeignLaunch::parse(text).map_or_else(|e| e.to_string(), |l| panic!("{l:?}"))
    }

    #[test]
    fn descriptions_are_read_and_their_mistakes_located() {
        let good = r#"{"code": "k.ptx", "grid": [4], "block": [128, 2], "args":
            [{"buffer": {"bytes": 12, "in": "x"}}, {"i32": -3}, {"f32": 1.5}, {"f16": "inf"}, {"u64": 18446744073709551615}, {"bytes": "0aFf"}]}"#;
        let launch = ForeignLaunch::parse(good).unwrap();
        assert_eq!((launch.grid, launch.block, launch.shared_bytes), ([4, 1, 1], [128, 2, 1], 0));
        let buffer = ForeignArg::Buffer { bytes: 12, input: Some("x".into()), output: None };
        let scalars =
            [Arg::S32(-3), Arg::F32(1.5), Arg::U16(0x7c00), Arg::U64(u64::MAX), Arg::Bytes(vec![10, 255])].map(ForeignArg::Scalar);
        assert_eq!(launch.args, [&[buffer][..], &scalars[..]].concat());
        for (text, want) in [
            ("{\n  \"code\" 1}", "2:10: "),
            ("[]", "`the description` must be an object"),
            (r#"{"code": 1}"#, "`code` must be a string"),
            (r#"{"grid": [1]}"#, "`code` is missing"),
            (r#"{"code": "k", "grids": [1]}"#, "`grids` is no field; known are code"),
            (r#"{"code": "k", "grid": [1, 0]}"#, "`grid` must be a list"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"i8": 128}]}"#, "`args[0].i8` must be a whole number from -128 to 127"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"i31": 1}]}"#, "`args[0].i31` is no argument"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"bytes": "0a0"}]}"#, "`args[0].bytes` must be a string with two"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [1]}"#, "`args[0]` must be an object with one field"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"buffer": {"bytes": -1}}]}"#, "`args[0].buffer.bytes` must be"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"buffer": {}}]}"#, "`args[0].buffer.bytes` is missing"),
        ] {
            assert!(refusal(text).starts_with(want), "{text}: {}", refusal(text));
        }
    }
}
