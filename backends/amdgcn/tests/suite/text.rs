//! The printed file is assembled without a warning, and to the encoder's bytes.

use crate::common::kernels::{branches, every_size};
use tilelift_amdgcn::{Chip, encode, text};

#[test]
fn the_file_is_assembled_to_the_encoders_bytes() {
    for chip in Chip::ALL.into_iter().filter(|&chip| !crate::common::judge::is_missing(chip)) {
        for program in every_size(chip).into_iter().chain([branches(chip)]) {
            let code = encode::encode(&program).unwrap();
            let text = text::print(&program).unwrap();
            let object = tilelift_oracle::amd_object(chip.name(), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(tilelift_oracle::section(&object, ".text"), Some(code.bytes.as_slice()), "{text}");
        }
    }
}

#[test]
fn text_is_a_function_of_the_program() {
    let program = branches(Chip::Gfx942);
    assert_eq!(text::print(&program), text::print(&program.clone()));
}
