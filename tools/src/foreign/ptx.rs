//! Launches of PTX text.

use super::description::{ForeignArg, ForeignLaunch};
use super::error::{ForeignError, ForeignRun, contents as initial, entry};
use tilelift::runtime::sim::{Recording, Report, SimConfig};
use tilelift_nvptx_sim::{Arg, Init, Launch, Memory, Module};

/// Runs a launch of a text. `contents` has an entry per argument: a buffer's initial bytes, or `None` for never written ones.
///
/// # Errors
/// The first thing that is wrong with text, launch or execution.
pub fn simulate(
    text: &str,
    launch: &ForeignLaunch,
    contents: &[Option<Vec<u8>>],
    config: SimConfig,
) -> Result<ForeignRun<Report>, ForeignError> {
    run(text, launch, contents, config, None)
}

/// As [`simulate`], and takes down what warps waited for and what was in flight, up to a fault if there is one.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_recorded(
    text: &str,
    launch: &ForeignLaunch,
    contents: &[Option<Vec<u8>>],
    config: SimConfig,
    recording: &mut Recording,
) -> Result<ForeignRun<Report>, ForeignError> {
    run(text, launch, contents, config, Some(recording))
}

fn run(
    text: &str,
    launch: &ForeignLaunch,
    contents: &[Option<Vec<u8>>],
    config: SimConfig,
    record: Option<&mut Recording>,
) -> Result<ForeignRun<Report>, ForeignError> {
    let module = Module::parse(text).map_err(ForeignError::Parse)?;
    let known: Vec<String> = module.entries().map(str::to_owned).collect();
    let entry = entry(&launch.entry, &known)?;
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
                let init = initial(contents, i, *bytes)?.map_or(Init::Uninit(*bytes), Init::Bytes);
                let base = memory.alloc(&format!("args[{i}]"), init);
                bases.push(Some((base, *bytes)));
                args.push(Arg::U64(base));
            }
        }
    }
    let launch = Launch { entry, grid: launch.grid, block: launch.block, shared_bytes: launch.shared_bytes, args: &args, config };
    let done = match record {
        Some(recording) => module.launch_recorded(&launch, &mut memory, recording),
        None => module.launch(&launch, &mut memory),
    };
    let report = done.map_err(|e| ForeignError::Fault(Box::new(e)))?;
    let read = |b: Option<(u64, usize)>| match b {
        Some((base, bytes)) => memory.read_unchecked(base, bytes).map(<[u8]>::to_vec).map_err(ForeignError::Memory),
        None => Ok(Vec::new()),
    };
    Ok(ForeignRun { buffers: bases.into_iter().map(read).collect::<Result<_, _>>()?, report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use tilelift_nvptx_sim::ErrorKind;

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
        assert_eq!(absent.to_string(), "the code has no kernel `load`; it has store");
    }
}
