//! Checks on a stage's output: `; check:` lines, and the precise block at the end of a file.

use super::directive::{Check, CheckKind, Directives, OUTPUT_PREFIX};

/// The first check that fails, with its line.
pub(super) fn checks(checks: &[Check], output: &str) -> Option<(u32, String)> {
    let lines: Vec<&str> = output.lines().collect();
    let mut next = 0;
    // Forbidden texts wait for the next positive check, which ends the range they look at.
    let mut forbidden: Vec<&Check> = Vec::new();
    for check in checks {
        let found = match check.kind {
            CheckKind::Not => {
                forbidden.push(check);
                continue;
            }
            CheckKind::Later => (next..lines.len()).find(|&i| lines[i].contains(&check.text)),
            CheckKind::Next => Some(next).filter(|&i| lines.get(i).is_some_and(|l| l.contains(&check.text))),
        };
        let Some(found) = found else {
            let place = lines.get(next).map_or("the end of the output".to_owned(), |l| format!("`{}`", l.trim()));
            let said = format!("`{}` is not found at or behind output line {}: {place}{}", check.text, next + 1, behind(&lines, next));
            return Some((check.line, said));
        };
        if let Some(failure) = absent(&forbidden, &lines[next..found], next) {
            return Some(failure);
        }
        forbidden.clear();
        next = found + 1;
    }
    absent(&forbidden, &lines[next.min(lines.len())..], next)
}

/// Lines of output that a failed check shows.
const SHOWN: usize = 24;

/// The output from a line on, as far as somebody reads it.
fn behind(lines: &[&str], from: usize) -> String {
    let rest = lines.get(from..).unwrap_or(&[]);
    let mut said: String = rest.iter().take(SHOWN).flat_map(|l| ["\n", l]).collect();
    if rest.len() > SHOWN {
        said += &format!("\n… and {} lines more", rest.len() - SHOWN);
    }
    said
}

fn absent(forbidden: &[&Check], lines: &[&str], first: usize) -> Option<(u32, String)> {
    forbidden.iter().find_map(|c| {
        let at = lines.iter().position(|l| l.contains(&c.text))?;
        Some((c.line, format!("`{}` must not appear, but does in output line {}: `{}`", c.text, first + at + 1, lines[at].trim())))
    })
}

/// The first difference between the precise block and the output, with its line in the file.
pub(super) fn precise(directives: &Directives, output: &str) -> Option<(u32, String)> {
    let want = &directives.output;
    let got: Vec<&str> = output.trim_end().lines().map(str::trim_end).collect();
    let first = (0..want.len().max(got.len())).find(|&i| want.get(i).map(|w| w.trim_end()) != got.get(i).copied())?;
    let show = |l: Option<&str>| l.map_or("nothing".to_owned(), |l| format!("`{l}`"));
    Some((
        directives.output_line.unwrap_or(1) + first as u32,
        format!(
            "the output differs: {} instead of {} (TILELIFT_BLESS=1 accepts the new output)",
            show(got.get(first).copied()),
            show(want.get(first).map(String::as_str))
        ),
    ))
}

/// The text with its precise block replaced by the output.
pub(super) fn bless(text: &str, output: &str) -> String {
    let kept: Vec<&str> = text.lines().filter(|l| !l.starts_with(OUTPUT_PREFIX)).collect();
    let mut blessed = kept.join("\n").trim_end().to_owned();
    blessed.push_str("\n\n");
    for line in output.trim_end().lines() {
        blessed.push_str(OUTPUT_PREFIX);
        if !line.trim_end().is_empty() {
            blessed.push(' ');
            blessed.push_str(line.trim_end());
        }
        blessed.push('\n');
    }
    blessed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filetest::directive;

    fn check(text: &str, output: &str) -> Option<(u32, String)> {
        checks(&directive::parse(&format!("; test print\n{text}")).expect("directives").checks, output)
    }

    #[test]
    fn checks_look_forward() {
        let output = "a\nb\nc\nd\n";
        assert_eq!(check("; check: b\n; check-next: c\n; check: d\n", output), None);
        assert_eq!(check("; check: c\n; check: b\n", output).map(|f| f.0), Some(3));
        assert_eq!(check("; check: a\n; check-next: c\n", output).map(|f| f.0), Some(3));
        assert_eq!(check("; check: a\n; check-not: c\n; check: d\n", output).map(|f| f.0), Some(3));
        assert_eq!(check("; check: a\n; check-not: c\n; check: b\n", output), None);
        assert_eq!(check("; check: b\n; check-not: d\n", output).map(|f| f.0), Some(3));
        assert_eq!(check("; check-not: x\n", output), None);
    }

    #[test]
    fn a_failed_check_shows_what_somebody_reads() {
        let output: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let (_, said) = check("; check: line 9\n; check: nowhere\n", &output).expect("it is not there");
        assert!(said.contains("\nline 10\n") && said.ends_with("\nline 33\n… and 966 lines more"), "{said}");
    }

    #[test]
    fn a_blessed_file_is_precise() {
        let text = "; test print precise\ncode\n\n;> old\n;> older\n";
        let output = "new\n\n  indented\n";
        let d = directive::parse(text).unwrap();
        assert_eq!(precise(&d, output).map(|f| f.0), Some(4));
        let blessed = bless(text, output);
        assert_eq!(blessed, "; test print precise\ncode\n\n;> new\n;>\n;>   indented\n");
        assert_eq!(precise(&directive::parse(&blessed).unwrap(), output), None);
        assert_eq!(bless(&blessed, output), blessed);
    }
}
