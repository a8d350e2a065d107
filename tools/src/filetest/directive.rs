//! The directives of a file test: comments of a `.tile` text that say what to do with it.
//!
//! ```text
//! ; test emit precise          a stage to run; `precise` compares the whole output with the `;> ` block at the end of the file
//! ; target sm_80, sm_90a       targets of lower, emit and run (sm_80 if absent)
//! ; run: @k(grid=1, …)         a launch, see `runline`
//! ; check: text                the stage's output contains the text, behind the place of the check in front of it
//! ; check-next: text           … on the very next line
//! ; check-not: text            … nowhere between its neighbours
//! ; error: V0401 words         an error of that code, whose message contains the words, on this line (or on the next one, if
//!                              the comment has the line for itself)
//! ```
//!
//! A comment that begins with a word and a colon must be a directive, so that a misspelt one is not a comment by accident.

use super::runline::{self, RunLine};
use std::fmt;
use tilelift::ir::text::nearest;

/// A stage of the compiler that a file test runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Stage {
    /// Parse and verify.
    Verify,
    /// Print the parsed kernels.
    Print,
    /// Execute the run lines on the interpreter only.
    Interp,
    /// Execute the run lines on the interpreter and on devices.
    Run,
    /// Print the optimised kernels.
    Opt,
    /// Print the lane program.
    Lower,
    /// Print the target's text.
    Emit,
}

impl Stage {
    /// Every stage.
    pub const ALL: &'static [Stage] = &[Stage::Verify, Stage::Print, Stage::Interp, Stage::Run, Stage::Opt, Stage::Lower, Stage::Emit];
    /// The word in a directive.
    pub const fn word(self) -> &'static str {
        match self {
            Stage::Verify => "verify",
            Stage::Print => "print",
            Stage::Interp => "interp",
            Stage::Run => "run",
            Stage::Opt => "opt",
            Stage::Lower => "lower",
            Stage::Emit => "emit",
        }
    }
    /// True for the stages whose output checks look at.
    pub const fn has_output(self) -> bool {
        matches!(self, Stage::Print | Stage::Opt | Stage::Lower | Stage::Emit)
    }
}

/// How a check relates to the one in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckKind {
    /// Somewhere behind.
    Later,
    /// On the next line.
    Next,
    /// Not before the next positive check.
    Not,
}

/// A check on a stage's output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Line of the file.
    pub line: u32,
    /// Kind.
    pub kind: CheckKind,
    /// The text to find.
    pub text: String,
}

/// An expected error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedError {
    /// The guilty line.
    pub line: u32,
    /// The code, such as `V0401`, `P0301`, `unsupported`, `protocol` or `resource`.
    pub code: String,
    /// Part of the message.
    pub part: String,
}

/// All directives of a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Directives {
    /// Stages, in order of appearance.
    pub stages: Vec<Stage>,
    /// The stage whose whole output is compared, if one is.
    pub precise: Option<Stage>,
    /// Target names.
    pub targets: Vec<String>,
    /// Tasks need no proof.
    pub unproven: bool,
    /// Launches.
    pub runs: Vec<RunLine>,
    /// Checks in order.
    pub checks: Vec<Check>,
    /// Expected errors.
    pub errors: Vec<ExpectedError>,
    /// The block of expected output, without its `;> ` prefixes.
    pub output: Vec<String>,
    /// The line where that block starts, from 1, if there is one.
    pub output_line: Option<u32>,
}

/// A directive that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectiveError {
    /// Line of the file.
    pub line: u32,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl fmt::Display for DirectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}
impl std::error::Error for DirectiveError {}

/// Prefix of the lines of an expected output block.
pub const OUTPUT_PREFIX: &str = ";>";

/// Directives that a colon follows.
const KNOWN: [&str; 5] = ["run", "check", "check-next", "check-not", "error"];

/// Collects the directives of a text.
///
/// # Errors
/// Every directive that makes no sense.
pub fn parse(text: &str) -> Result<Directives, Vec<DirectiveError>> {
    let mut d = Directives::default();
    let mut errors = Vec::new();
    let last_line = text.lines().count().max(1) as u32;
    for (i, raw) in text.lines().enumerate() {
        let line = i as u32 + 1;
        if let Some(output) = raw.strip_prefix(OUTPUT_PREFIX) {
            d.output_line.get_or_insert(line);
            d.output.push(output.strip_prefix(' ').unwrap_or(output).to_owned());
            continue;
        }
        let Some((code, comment)) = raw.split_once(';') else { continue };
        if let Err(message) = d.take(line, last_line, raw, code.trim().is_empty(), comment.trim()) {
            errors.push(DirectiveError { line, message });
        }
    }
    for run in &d.runs {
        if let Err(message) = run.fits_header(text) {
            errors.push(DirectiveError { line: run.line, message });
        }
    }
    // What is wrong with a line may be why something is not there.
    if let (true, Err(message)) = (errors.is_empty(), d.consistent()) {
        errors.push(DirectiveError { line: 1, message });
    }
    if errors.is_empty() { Ok(d) } else { Err(errors) }
}

impl Directives {
    /// Takes the comment of a line, which is a part of it.
    fn take(&mut self, line: u32, last_line: u32, raw: &str, own_line: bool, comment: &str) -> Result<(), String> {
        if let Some(rest) = comment.strip_prefix("test ") {
            return self.test(rest);
        }
        if let Some(rest) = comment.strip_prefix("target ") {
            self.targets.extend(rest.split([',', ' ']).filter(|t| !t.is_empty()).map(str::to_owned));
            return Ok(());
        }
        if comment == "unproven" {
            self.unproven = true;
            return Ok(());
        }
        let Some((word, rest)) = comment.split_once(':') else { return Ok(()) };
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            return Ok(());
        }
        let rest = rest.trim();
        let check = |kind| Check { line, kind, text: rest.to_owned() };
        match word {
            "run" => {
                let before = raw.trim_end().strip_suffix(rest).map_or(0, |front| front.chars().count());
                self.runs.push(runline::parse(line, rest).map_err(|e| e.behind(before).to_string())?);
            }
            "check" => self.checks.push(check(CheckKind::Later)),
            "check-next" => self.checks.push(check(CheckKind::Next)),
            "check-not" => self.checks.push(check(CheckKind::Not)),
            "error" => {
                let (code, part) = rest.split_once(' ').unwrap_or((rest, ""));
                if code.is_empty() {
                    return Err("`error:` is followed by a code such as V0401 and part of the message".into());
                }
                let line = if own_line { (line + 1).min(last_line) } else { line };
                self.errors.push(ExpectedError { line, code: code.to_owned(), part: part.trim().to_owned() });
            }
            // Other words are prose, such as `x: one row a token`.
            _ => {
                if let Some(near) = nearest(word, KNOWN.into_iter()) {
                    return Err(format!(
                        "`{word}:` is no directive; did you mean `{near}:`? (known are test, target, unproven, {}:)",
                        KNOWN.join(":, ")
                    ));
                }
            }
        }
        Ok(())
    }

    fn test(&mut self, words: &str) -> Result<(), String> {
        for word in words.split([',', ' ', '|']).filter(|w| !w.is_empty()) {
            if word == "precise" {
                let Some(&stage) = self.stages.last().filter(|s| s.has_output()) else {
                    return Err("`precise` follows print, opt, lower or emit".into());
                };
                self.precise = Some(stage);
            } else {
                let stage = Stage::ALL.iter().copied().find(|s| s.word() == word);
                self.stages.push(stage.ok_or_else(|| {
                    format!("`{word}` is no stage; known are {}", Stage::ALL.iter().map(|s| s.word()).collect::<Vec<_>>().join(", "))
                })?);
            }
        }
        Ok(())
    }

    fn consistent(&self) -> Result<(), String> {
        let outputs = self.stages.iter().filter(|s| s.has_output()).count();
        let runs = self.stages.iter().any(|s| matches!(s, Stage::Interp | Stage::Run));
        if self.stages.is_empty() {
            Err("the file has no `; test …` directive".into())
        } else if outputs > 1 {
            Err("a file has one stage with output, because checks look at it; split the file".into())
        } else if outputs == 0 && !self.checks.is_empty() {
            Err("there are checks, but no stage with output; add `; test print`, `lower` or `emit`".into())
        } else if self.precise.is_none() && self.output_line.is_some() {
            Err("there is an expected output, but no stage is `precise`".into())
        } else if runs && self.runs.is_empty() && self.errors.is_empty() {
            Err("`test run` or `test interp` needs a `; run:` line".into())
        } else if !runs && !self.runs.is_empty() {
            Err("there is a `; run:` line, but no `; test run` or `; test interp`".into())
        } else {
            Ok(())
        }
    }

    /// The stage whose output checks look at.
    pub fn output_stage(&self) -> Option<Stage> {
        self.stages.iter().copied().find(|s| s.has_output())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_collected() {
        let d = parse("; test print, run\n; target sm_80, sm_90a\n; free text\n; run: @k(grid=1)\nadd ; error: V0401 words here\n; error: P0301\nlast\n; check: a b\n; check-next: c\n; check-not: d\n").unwrap();
        assert_eq!(d.stages, [Stage::Print, Stage::Run]);
        assert_eq!(d.targets, ["sm_80", "sm_90a"]);
        assert_eq!(d.runs[0].line, 4);
        assert_eq!(d.errors[0], ExpectedError { line: 5, code: "V0401".into(), part: "words here".into() });
        assert_eq!(d.errors[1].line, 7);
        assert_eq!(d.checks.iter().map(|c| c.kind).collect::<Vec<_>>(), [CheckKind::Later, CheckKind::Next, CheckKind::Not]);
        let p = parse("; test emit precise\nx\n;> line 1\n;>\n;>   line 3\n").unwrap();
        assert_eq!(p.precise, Some(Stage::Emit));
        assert_eq!(p.output, ["line 1", "", "  line 3"]);
        assert_eq!(p.output_line, Some(3));
    }

    #[test]
    fn places_in_run_lines_are_columns_of_the_file() {
        let line = "yield ; ü run lines: none\n    ; run: @k(grid=1, v0=blue:1[2])  ";
        let e = parse(line).unwrap_err().remove(0);
        let column = line.lines().nth(1).unwrap().find("blue").unwrap() + 1;
        assert_eq!(e.line, 2);
        assert!(e.message.contains(&format!("character {column}: ")), "{e}");
    }

    #[test]
    fn prose_may_begin_with_a_word_and_a_colon() {
        let d = parse("; test verify\n    ; x: one row a token\n; columns: 64\n; note: nothing").unwrap();
        assert!(d.runs.is_empty() && d.checks.is_empty() && d.errors.is_empty());
    }

    #[test]
    fn senseless_directives_are_refused() {
        for (text, part) in [
            ("", "no `; test"),
            ("; test wibble", "no stage"),
            ("; test verify\n; chek: x", "did you mean `check:`"),
            ("; test verify\n; runs: @k(grid=1)", "did you mean `run:`"),
            ("; test verify\n; eror: V0401", "did you mean `error:`"),
            ("; test verify\n; check: x", "no stage with output"),
            ("; test print, emit", "split the file"),
            ("; test run", "needs a `; run:`"),
            ("; test verify\n; run: @k(grid=1)", "no `; test run`"),
            ("; test verify precise", "follows print"),
            ("; test print\n;> x", "no stage is `precise`"),
            ("; test run\n; run: k", "run line"),
            ("; test verify\n; error:", "followed by a code"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.iter().any(|e| e.message.contains(part)), "{text}: {e:?}");
            // What follows from a mistake is none.
            assert_eq!(e.len(), 1, "{text}: {e:?}");
        }
    }
}
