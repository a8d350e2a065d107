//! The text form of kernels: [`parse`] and [`print()`].
//!
//! ```text
//! file    = { kernel }
//! kernel  = "kernel" "@"name "(" [ value ":" type { "," value ":" type } ] ")" [ "cluster" n ] [ "positions" "[" n "," n "," n "]" ] [ "warps="n ] [ "stages="n ] block
//! value   = "v"number | "%"name
//! block   = "{" { [ value { "," value } "=" ] inst newline } "}"
//! inst    = op [ lead attribute ] [ operands ] [ trailing attribute ] [ ":" type ]            as the op's row says
//!         | "for" value "in" operand ".." operand "step" operand [ carry ] block
//!         | "while" [ carry ] block "do" [ "carry" value { "," value } ] block
//!         | "if" operand block [ "else" block ]
//!         | "tasks" "{" { "task" name "warps" n [ "registers" n ] [ "replicas" n "as" value ] block newline } "}"
//! carry   = "carry" value "=" operand { "," value "=" operand }
//! operand = value | literal
//! ```
//!
//! Comments run from `;` to the end of the line. Names are `v<number>` or `%word`, each defined once in a kernel; printing
//! renumbers the former and keeps the latter.
//!
//! ```
//! let text = "kernel @double(v0: view<f32, [?]>) warps=4 {
//!     v1 = program_id x
//!     v2 = mul v1, 256
//!     v3 = load v0[v2] : tile<256xf32>
//!     v4 = add v3, v3
//!     store v0[v2], v4
//! }
//! ";
//! let file = tilelift_ir::text::parse(text).expect("a valid text");
//! assert_eq!(tilelift_ir::text::print(&file.kernels[0]), text);
//! ```

mod control;
mod error;
mod file;
mod inst;
mod layout;
mod lexer;
mod literal;
mod parser;
mod printer;
#[cfg(test)]
mod tests;
mod types;

pub use error::{ParseCode, ParseError, ParseErrors, nearest};
pub use file::{File, MAX_ERRORS, MAX_NESTING, MAX_TEXT};
pub use lexer::Comment;
pub use literal::literal_text;
pub use parser::{parse, parse_layout};
pub use printer::{Line, lines, print, print_with};
