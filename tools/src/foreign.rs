//! Launches of PTX that another compiler wrote, in the simulator, from a description in JSON.
//!
//! ```text
//! {"code": "k.ptx", "entry": "k", "grid": [4, 1, 1], "block": [128, 1, 1], "shared_bytes": 0,
//!  "args": [{"buffer": {"bytes": 4096, "in": "x.bin", "out": "y.bin"}}, {"i32": 1024}]}
//! ```
//!
//! Arguments are in parameter order. `in` is the buffer's initial contents (without it the bytes count as never written), `out` is
//! written after the run. Scalars are `i8 i16 i32 i64 u8 u16 u32 u64 f32 f64`; `f16` and `bf16` are rounded. A description is checked in
//! whole before anything runs; what is wrong is named by line and column, or by its place (`args[2].buffer.bytes`).

use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;
use tilelift::runtime::sim::{Report, SimConfig};
use tilelift_ir::{Scalar, num};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Launch, Memory, MemoryError, Module, ParseError, SimError};

/// Most bytes of a buffer.
pub const MAX_BUFFER: u64 = 1 << 34;

/// A launch of a foreign kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct ForeignLaunch {
    /// Where the text is.
    pub code: PathBuf,
    /// The kernel's name.
    pub entry: String,
    /// CTAs per dimension.
    pub grid: [u32; 3],
    /// Threads per dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
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
const SCALARS: &str = "i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64";

impl ForeignLaunch {
    /// Reads a description; a missing `entry` is empty, which means the only kernel of the text.
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
        let Some(code) = top.text("code")? else { return wrong("code", "is missing; it names the file with the PTX text") };
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
        _ => return wrong(here, format!("is no argument; known are buffer and the scalars {SCALARS}")),
    };
    Ok(ForeignArg::Scalar(arg))
}

/// Why a foreign launch gave no result.
#[derive(Clone, PartialEq, Debug)]
pub enum ForeignError {
    /// The text does not parse, or uses an instruction that is not modelled.
    Parse(ParseError),
    /// There is no such kernel, or more than one and none was named.
    Entry {
        /// The name asked for; empty for the only one.
        wanted: String,
        /// The names in the text.
        known: Vec<String>,
    },
    /// Initial contents are not as long as their buffer.
    Contents {
        /// The argument.
        arg: usize,
        /// The buffer's size.
        want: usize,
        /// The size of the contents.
        got: usize,
    },
    /// The simulator found a fault.
    Fault(Box<SimError>),
    /// Simulated memory could not be read back.
    Memory(MemoryError),
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignError::Parse(e) => write!(f, "the simulator does not understand the text: {e}"),
            ForeignError::Entry { wanted, known } if wanted.is_empty() => {
                write!(f, "the text has {} kernels ({}); name one as `entry`", known.len(), known.join(", "))
            }
            ForeignError::Entry { wanted, known } => write!(f, "the text has no kernel `{wanted}`; it has {}", known.join(", ")),
            ForeignError::Contents { arg, want, got } => write!(f, "args[{arg}]: the buffer has {want} bytes, its contents {got}"),
            ForeignError::Fault(e) => e.fmt(f),
            ForeignError::Memory(e) => e.fmt(f),
        }
    }
}
impl std::error::Error for ForeignError {}

impl ForeignError {
    /// The kind of fault, if the simulator found one.
    pub fn fault(&self) -> Option<ErrorKind> {
        match self {
            ForeignError::Fault(e) => Some(e.kind),
            ForeignError::Parse(_) | ForeignError::Entry { .. } | ForeignError::Contents { .. } | ForeignError::Memory(_) => None,
        }
    }
}

/// A foreign launch that ran to its end without a finding.
#[derive(Clone, PartialEq, Debug)]
pub struct ForeignRun {
    /// What the simulator counted.
    pub report: Report,
    /// Contents of the buffers after the run, one per argument; empty for scalars.
    pub buffers: Vec<Vec<u8>>,
}

/// Runs a launch of a text. `contents` has an entry per argument: a buffer's initial bytes, or `None` for never written ones.
///
/// # Errors
/// The first thing that is wrong with text, launch or execution.
pub fn simulate(text: &str, launch: &ForeignLaunch, contents: &[Option<Vec<u8>>], config: SimConfig) -> Result<ForeignRun, ForeignError> {
    let module = Module::parse(text).map_err(ForeignError::Parse)?;
    let known: Vec<String> = module.entries().map(str::to_owned).collect();
    let entry = match (launch.entry.as_str(), known.as_slice()) {
        ("", [only]) => only,
        (name, all) if all.iter().any(|k| k == name) => name,
        (name, _) => return Err(ForeignError::Entry { wanted: name.to_owned(), known }),
    };
    let mut memory = Memory::new();
    let mut bases = Vec::new();
    let mut args = Vec::new();
    for (i, arg) in launch.args.iter().enumerate() {
        match arg {
            ForeignArg::Scalar(a) => {
                bases.push(None);
                args.push(a.clone());
            }
            ForeignArg::Buffer { bytes, .. } => {
                let init = match contents.get(i).cloned().flatten() {
                    Some(c) if c.len() != *bytes => return Err(ForeignError::Contents { arg: i, want: *bytes, got: c.len() }),
                    Some(c) => Init::Bytes(c),
                    None => Init::Uninit(*bytes),
                };
                let base = memory.alloc(&format!("args[{i}]"), init);
                bases.push(Some((base, *bytes)));
                args.push(Arg::U64(base));
            }
        }
    }
    let launch = Launch { entry, grid: launch.grid, block: launch.block, shared_bytes: launch.shared_bytes, args: &args, config };
    let report = module.launch(&launch, &mut memory).map_err(|e| ForeignError::Fault(Box::new(e)))?;
    let read = |b: Option<(u64, usize)>| match b {
        Some((base, bytes)) => memory.read_unchecked(base, bytes).map(<[u8]>::to_vec).map_err(ForeignError::Memory),
        None => Ok(Vec::new()),
    };
    Ok(ForeignRun { buffers: bases.into_iter().map(read).collect::<Result<_, _>>()?, report })
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
            [{"buffer": {"bytes": 12, "in": "x"}}, {"i32": -3}, {"f32": 1.5}, {"f16": "inf"}, {"u64": 18446744073709551615}]}"#;
        let launch = ForeignLaunch::parse(good).unwrap();
        assert_eq!((launch.grid, launch.block, launch.shared_bytes), ([4, 1, 1], [128, 2, 1], 0));
        let buffer = ForeignArg::Buffer { bytes: 12, input: Some("x".into()), output: None };
        let scalars = [Arg::S32(-3), Arg::F32(1.5), Arg::U16(0x7c00), Arg::U64(u64::MAX)].map(ForeignArg::Scalar);
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
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [1]}"#, "`args[0]` must be an object with one field"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"buffer": {"bytes": -1}}]}"#, "`args[0].buffer.bytes` must be"),
            (r#"{"code": "k", "grid": [1], "block": [1], "args": [{"buffer": {}}]}"#, "`args[0].buffer.bytes` is missing"),
        ] {
            assert!(refusal(text).starts_with(want), "{text}: {}", refusal(text));
        }
    }

    const STORE: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 v) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [v];
  mov.u32 %r2, %tid.x;
  mad.wide.u32 %rd2, %r2, 4, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}";

    fn launch(bytes: usize) -> ForeignLaunch {
        let args = vec![ForeignArg::Buffer { bytes, input: None, output: None }, ForeignArg::Scalar(Arg::U32(7))];
        ForeignLaunch { code: PathBuf::new(), entry: String::new(), grid: [1; 3], block: [40, 1, 1], shared_bytes: 0, args }
    }

    #[test]
    fn texts_run_and_faults_are_found() {
        let run = simulate(STORE, &launch(160), &[None, None], SimConfig::default()).unwrap();
        assert_eq!(run.buffers, [[7, 0, 0, 0].repeat(40), Vec::new()]);
        let short = simulate(STORE, &launch(156), &[None, None], SimConfig::default()).unwrap_err();
        assert_eq!(short.fault(), Some(ErrorKind::OutOfBounds));
        let contents = simulate(STORE, &launch(160), &[Some(vec![0; 3])], SimConfig::default()).unwrap_err();
        assert_eq!(contents, ForeignError::Contents { arg: 0, want: 160, got: 3 });
        let named = ForeignLaunch { entry: "load".into(), ..launch(160) };
        let absent = simulate(STORE, &named, &[None, None], SimConfig::default()).unwrap_err();
        assert_eq!(absent.to_string(), "the text has no kernel `load`; it has store");
    }
}
