//! Instructions per second on Triton's large product: `speed OBJECT KERNEL LDS`.

use std::time::Instant;
use tilelift_amdgcn_sim::{Init, Launch, Memory, Module, SimConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(kernel), Some(lds)) = (args.next(), args.next(), args.next()) else {
        return Err("speed OBJECT KERNEL LDS".into());
    };
    let module = Module::load(&std::fs::read(path)?)?;
    let mut memory = Memory::new();
    let (m, k) = (128usize, 2048usize);
    let mut values = Vec::new();
    for init in [Init::Bytes(vec![0x38; 2 * m * k]), Init::Bytes(vec![0x38; 2 * m * k]), Init::Uninit(4 * m * m)] {
        values.extend(memory.alloc("b", init).to_le_bytes());
    }
    [m, m, k].iter().for_each(|&v| values.extend((v as u32).to_le_bytes()));
    values.resize(values.len() + 24, 0);
    for races in [true, false] {
        let config = SimConfig { global_races: races, ..SimConfig::default() };
        let launch = Launch { kernel: &kernel, grid: [1, 1, 1], block: [256, 1, 1], dynamic_lds: lds.parse()?, args: &values, config };
        let start = Instant::now();
        let r = module.launch(&launch, &mut memory)?;
        let t = start.elapsed().as_secs_f64();
        println!(
            "races {races}: {} instructions, {} matrix, {t:.2} s, {:.2} M/s",
            r.instructions,
            r.matrix,
            r.instructions as f64 / t / 1e6
        );
    }
    Ok(())
}
