//! Launches of code objects: arguments go where the object's metadata say.

use super::description::{ForeignArg, ForeignLaunch};
use super::error::{ForeignError, ForeignRun, contents as initial, entry};
use serde_json::{Value, json};
use tilelift_amdgcn_sim::{Argument, ArgumentKind, Init, Kernel, Launch, Memory, Module, Report, SimConfig};
use tilelift_nvptx_sim::Arg;

/// Runs a launch of a code object. `contents` has an entry per argument: a buffer's initial bytes, or `None` for never written ones.
///
/// # Errors
/// The first thing that is wrong with launch or execution.
pub fn simulate_object(
    module: &Module,
    launch: &ForeignLaunch,
    contents: &[Option<Vec<u8>>],
    config: SimConfig,
) -> Result<ForeignRun<Report>, ForeignError> {
    let known: Vec<String> = module.kernels().iter().map(|k| k.name.clone()).collect();
    let entry = entry(&launch.entry, &known)?;
    let absent = || ForeignError::Entry { wanted: entry.to_owned(), known: known.clone() };
    let kernel = module.kernel(entry).ok_or_else(absent)?;
    let mut memory = Memory::new();
    let mut bases = Vec::new();
    let mut values = Vec::new();
    for (i, arg) in launch.args.iter().enumerate() {
        match arg {
            ForeignArg::Scalar(a) => {
                bases.push(None);
                values.push(little_endian(a));
            }
            ForeignArg::Buffer { bytes, .. } => {
                let init = initial(contents, i, *bytes)?.map_or(Init::Uninit(*bytes), Init::Bytes);
                let base = memory.alloc(&format!("args[{i}]"), init);
                bases.push(Some((base, *bytes)));
                values.push(base.to_le_bytes().to_vec());
            }
        }
    }
    let args = segment(kernel, &values)?;
    let launch = Launch { kernel: entry, grid: launch.grid, block: launch.block, dynamic_lds: launch.shared_bytes, args: &args, config };
    let report = module.launch(&launch, &mut memory).map_err(ForeignError::ObjectFault)?;
    let read = |b: Option<(u64, usize)>| match b {
        Some((base, bytes)) => memory.read_unchecked(base, bytes).map(<[u8]>::to_vec).map_err(ForeignError::ObjectMemory),
        None => Ok(Vec::new()),
    };
    Ok(ForeignRun { buffers: bases.into_iter().map(read).collect::<Result<_, _>>()?, report })
}

fn little_endian(a: &Arg) -> Vec<u8> {
    match a {
        Arg::U8(x) => vec![*x],
        Arg::U16(x) => x.to_le_bytes().to_vec(),
        Arg::U32(x) => x.to_le_bytes().to_vec(),
        Arg::U64(x) => x.to_le_bytes().to_vec(),
        Arg::S32(x) => x.to_le_bytes().to_vec(),
        Arg::S64(x) => x.to_le_bytes().to_vec(),
        Arg::F32(x) => x.to_le_bytes().to_vec(),
        Arg::F64(x) => x.to_le_bytes().to_vec(),
        Arg::Bytes(b) => b.clone(),
        // Descriptions have none, and so have code objects: no bytes fit no argument.
        Arg::TensorMap(_) => Vec::new(),
    }
}

/// The arguments that a launch gives; hidden ones are the simulator's affair.
fn explicit(kernel: &Kernel) -> Vec<&Argument> {
    kernel.arguments.iter().filter(|a| matches!(a.kind, ArgumentKind::Buffer | ArgumentKind::Value)).collect()
}

fn named(i: usize, a: &Argument) -> String {
    let name = if a.name.is_empty() { format!("argument {i}") } else { format!("`{}`", a.name) };
    match a.kind {
        ArgumentKind::Buffer => format!("{name}: a buffer"),
        ArgumentKind::Value
        | ArgumentKind::BlockCount(_)
        | ArgumentKind::GroupSize(_)
        | ArgumentKind::Remainder(_)
        | ArgumentKind::GlobalOffset(_)
        | ArgumentKind::GridDims
        | ArgumentKind::Zero => format!("{name}: {} bytes", a.size),
    }
}

/// The segment of arguments.
fn segment(kernel: &Kernel, values: &[Vec<u8>]) -> Result<Vec<u8>, ForeignError> {
    let declared = explicit(kernel);
    let mut bytes = Vec::new();
    if kernel.arguments.is_empty() {
        // An object without metadata: each at its natural place.
        for v in values {
            bytes.resize(bytes.len().next_multiple_of(v.len().max(1)), 0);
            bytes.extend_from_slice(v);
        }
        let want = kernel.descriptor.kernarg_bytes as usize;
        return if bytes.len() < want { Err(ForeignError::Bytes { want, got: bytes.len() }) } else { Ok(bytes) };
    }
    if declared.len() != values.len() {
        let declared = declared.iter().enumerate().map(|(i, a)| named(i, a)).collect();
        return Err(ForeignError::Count { declared, got: values.len() });
    }
    for (arg, (a, v)) in declared.into_iter().zip(values).enumerate() {
        if a.size as usize != v.len() {
            return Err(ForeignError::Size { arg, declared: named(arg, a), got: v.len() });
        }
        let at = a.offset as usize;
        // The segment's size is not the metadata's to choose.
        let end = at.saturating_add(v.len());
        if end > MAX_SEGMENT {
            return Err(ForeignError::Size {
                arg,
                declared: format!("{} at byte {at}, of at most {MAX_SEGMENT}", named(arg, a)),
                got: v.len(),
            });
        }
        bytes.resize(bytes.len().max(end), 0);
        bytes[at..end].copy_from_slice(v);
    }
    Ok(bytes)
}

/// Most bytes of a segment of arguments.
const MAX_SEGMENT: usize = 1 << 16;

/// Bytes of a buffer in a description that somebody is to complete.
const BUFFER: u64 = 4096;

/// A description of a launch of a kernel, for somebody to complete: sizes of buffers and values of scalars are made up.
pub fn describe(code: &str, kernel: &Kernel) -> Value {
    let args: Vec<Value> = explicit(kernel)
        .into_iter()
        .map(|a| match (a.kind == ArgumentKind::Buffer, a.size) {
            (true, _) => json!({"buffer": {"bytes": BUFFER}}),
            (false, 1) => json!({"u8": 1}),
            (false, 2) => json!({"u16": 1}),
            (false, 8) => json!({"u64": 1}),
            (false, _) => json!({"u32": 1}),
        })
        .collect();
    json!({"code": code, "entry": kernel.name, "grid": [1, 1, 1], "block": [kernel.max_workgroup, 1, 1], "args": args})
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::{Options, compile, targets};

    fn own() -> (Module, Vec<String>) {
        let gemm = tilelift_kernels::Gemm::new(tilelift_ir::Scalar::F16).tile(32, 32, 32);
        let kernel = gemm.build().unwrap();
        let artifact = compile(&kernel, &targets::by_name("gfx942").unwrap(), &Options::default()).unwrap();
        let module = Module::load(&artifact.object).unwrap();
        let declared = explicit(&module.kernels()[0]).iter().enumerate().map(|(i, a)| named(i, a)).collect();
        (module, declared)
    }

    #[test]
    fn arguments_are_those_of_the_metadata() {
        let (module, declared) = own();
        let kernel = &module.kernels()[0];
        assert!(declared.len() > 3, "{declared:?}");
        let count = segment(kernel, &[vec![0; 8]]).unwrap_err();
        assert_eq!(count, ForeignError::Count { declared: declared.clone(), got: 1 });
        let sizes: Vec<Vec<u8>> = explicit(kernel).iter().map(|a| vec![1; a.size as usize]).collect();
        assert!(segment(kernel, &sizes).is_ok());
        let mut wrong = sizes;
        wrong[0].pop();
        assert_eq!(segment(kernel, &wrong).unwrap_err(), ForeignError::Size { arg: 0, declared: declared[0].clone(), got: 7 });
        let described = ForeignLaunch::parse(&describe("k.o", kernel).to_string()).unwrap();
        assert_eq!((described.entry.as_str(), described.args.len()), (kernel.name.as_str(), declared.len()));
    }
}
