//! `cargo run --release --example compile_text`: `.tile` text in, PTX out, and what an error looks like.
//!
//! A kernel has a text form, in which tests, bug reports and caches keep it; `docs/language.md` is its manual. The way is that of
//! `tilelift compile`:
//!  1. `text::parse` gives the kernels of a file, or up to twenty mistakes at once, each with code, place and remedy;
//!  2. `compile` verifies and lowers a kernel and prints the target's text. It needs no device and no toolkit, takes about a
//!     millisecond, and gives the same bytes for the same input, so the text may be a cache's key;
//!  3. the artifact says what a launch needs to know: entry, threads, shared memory, parameters.
//!
//! The second text has a mistake; its message is printed as the tool would.

use tilelift::ir::text;

const SCALE: &str = "\
kernel @scale(v0: view<f32, [?%4]>, v1: f32) {
    v2 = program_id x
    v3 = mul v2, 1024
    v4 = load v0[v3] : tile<1024xf32>
    v5 = splat v1 : tile<1024xf32>
    v6 = mul v4, v5
    store v0[v3], v6
}
";

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = text::parse(SCALE)?;
    let kernel = file.kernel("scale").ok_or("the text has @scale")?;
    for name in tilelift::targets::with_text() {
        let target = tilelift::targets::by_name(name).ok_or("a listed target is known")?;
        let artifact = tilelift::compile(kernel, &target, &tilelift::Options::default())?;
        println!(
            "{name}: entry {}, {} threads, {} bytes of shared memory, {} parameters",
            artifact.entry,
            artifact.threads,
            artifact.shared_bytes,
            artifact.params.len()
        );
    }
    let artifact = tilelift::compile(kernel, &tilelift::targets::usual(), &tilelift::Options::default())?;
    println!("\n{}", artifact.text);

    let wrong = SCALE.replace("mul v4, v5", "mul v4, v0");
    match text::parse(&wrong) {
        Ok(_) => Err("a tile times a view must be refused".into()),
        Err(errors) => {
            println!("{errors}");
            Ok(())
        }
    }
}
