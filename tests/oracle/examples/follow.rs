//! Assembles PTX files for an architecture and says what ptxas did to their matrix instructions:
//! `cargo run -p tilelift-oracle --example follow -- sm_90a FILE…`

fn main() {
    let mut arguments = std::env::args().skip(1);
    let arch = arguments.next().unwrap_or_default();
    let mut wrong = 0;
    for file in arguments {
        let said = match std::fs::read_to_string(&file) {
            Ok(text) => tilelift_oracle::assemble(&text, &arch).map_or_else(|e| vec![e.to_string()], |r| r.warnings),
            Err(e) => vec![e.to_string()],
        };
        said.iter().for_each(|line| println!("{file}: {line}"));
        println!("{file}: {}", if said.is_empty() { "nothing found" } else { "WRONG" });
        wrong += usize::from(!said.is_empty());
    }
    std::process::exit(i32::from(wrong > 0));
}
