//! The `tilelift` tool; see [`tilelift_tools::cli`].

use std::io::IsTerminal;
use std::process::ExitCode;
use tilelift_tools::cli;

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let run = if err.is_terminal() { cli::run_at_terminal } else { cli::run };
    run(args, &mut out.lock(), &mut err.lock()).into()
}
