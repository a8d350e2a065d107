use tilelift_ir::{text, verify};
use tilelift_isel::{LowerOptions, lower, prove, prove_by_all_states};
use tilelift_nvptx::sm_90a;
#[test]
fn states() {
    let files = std::env::var("FILES").unwrap();
    for f in files.split(',') {
        let k = text::parse(&std::fs::read_to_string(f).unwrap()).unwrap().kernels.remove(0);
        for persistent in [None, Some(false)] {
            let l = lower(&verify(&k).unwrap(), &sm_90a(), &LowerOptions { unproven: true, persistent, ..LowerOptions::default() }).unwrap();
            let t = std::time::Instant::now();
            println!("{f} {persistent:?} {:?} {:?}", prove(&l.program, &sm_90a()).map_err(|e| e.to_string()), t.elapsed());
        }
    }
    let _ = prove_by_all_states;
}
