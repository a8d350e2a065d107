//! Says, before the other tests' results scroll by, which judges this machine has: without a GPU or `ptxas` their tests pass without
//! having judged anything. A plain program, because the test harness hides what passing tests print.

fn main() {
    println!("\njudges on this machine: reference interpreter, lane interpreter, simulator of PTX text");
    match tilelift_oracle::ptxas() {
        Some(path) => println!("  ptxas: {}", path.display()),
        None => {
            println!(
                "  SKIPPED: no ptxas, so emitted texts are not assembled (pip install nvidia-cuda-nvcc==13.0.88, or set TILELIFT_PTXAS)"
            );
            assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no ptxas");
        }
    }
    match tilelift_oracle::nvdisasm() {
        Some(path) => println!("  nvdisasm: {}", path.display()),
        None => {
            println!(
                "  SKIPPED: no nvdisasm, so operands are not followed through what ptxas makes (pip install nvidia-cuda-nvdisasm, or set \
                 TILELIFT_NVDISASM)"
            );
            assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no nvdisasm");
        }
    }
    match tilelift_oracle::triton() {
        Some(path) => println!("  triton: {}", path.display()),
        None => {
            println!(
                "  SKIPPED: no Python with triton {}, so the simulator runs no foreign text (pip install --no-deps triton, or set \
                 TILELIFT_TRITON_PYTHON)",
                tilelift_oracle::TRITON
            );
            assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no Triton");
        }
    }
    match (tilelift_oracle::c_compiler(), tilelift_oracle::hip_headers()) {
        (Some(compiler), Some(headers)) => println!("  HIP: mock library by {}, headers in {}", compiler.display(), headers.display()),
        (compiler, headers) => {
            if compiler.is_none() {
                println!("  SKIPPED: no C compiler, so there is no mock of the HIP library (set CC)");
            }
            if headers.is_none() {
                println!("  SKIPPED: no HIP headers, so they do not judge our prototypes (libamdhip64-dev, or set TILELIFT_HIP_INCLUDE)");
            }
            assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no C compiler or no HIP headers");
        }
    }
    let asked = std::env::var_os("TILELIFT_CUDA").is_some_and(|v| v != "0");
    match (asked, gpu()) {
        (true, Ok(name)) => println!("  GPU: {name}"),
        (false, Ok(name)) => println!("  SKIPPED: {name} is not used; set TILELIFT_CUDA=1 for launches on it"),
        (_, Err(why)) => println!("  SKIPPED: no launches on a GPU: {why}"),
    }
    println!();
}

#[cfg(feature = "cuda")]
fn gpu() -> Result<String, String> {
    let device = tilelift::runtime::cuda::CudaDevice::new(0).map_err(|e| e.to_string())?;
    Ok(device.name().to_owned())
}

#[cfg(not(feature = "cuda"))]
fn gpu() -> Result<String, String> {
    Err("the feature `cuda` is off".into())
}
