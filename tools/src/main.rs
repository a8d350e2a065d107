//! The `tilelift` tool; see [`tilelift_tools::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let (out, err) = (std::io::stdout(), std::io::stderr());
    tilelift_tools::cli::run(args, &mut out.lock(), &mut err.lock()).into()
}
