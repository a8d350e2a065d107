//! The smallest kernel: a masked vector addition.

use crate::common::{Buf, assemble, f32s, launch_kernel};
use tilelift_amdgcn_sim::{Chip, SimConfig};

#[test]
fn vector_addition() {
    let Some(object) = assemble(include_str!("../data/vadd.s"), Chip::Gfx942) else { return };
    let n = 1000usize;
    let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
    let b: Vec<f32> = (0..n).map(|i| 7.0 - i as f32).collect();
    let bytes = |v: &[f32]| crate::common::bytes(v, f32::to_le_bytes);
    let run = |seed| {
        let buffers = vec![Buf::In(bytes(&a)), Buf::In(bytes(&b)), Buf::Out(4 * n)];
        let config = SimConfig { seed, ..SimConfig::default() };
        launch_kernel(&object, "vadd", ([4, 1, 1], 256, 0), buffers, &(n as u32).to_le_bytes(), config).unwrap_or_else(|f| panic!("{f}"))
    };
    let (out, report) = run(5);
    assert_eq!((&out, &report), (&run(5).0, &run(5).1), "the same seed gives the same run");
    let want: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).collect();
    assert_eq!(f32s(&out[2]), want);
    assert_eq!(report.waves, 16);
    assert!(report.instructions > 16 * 10);
}
