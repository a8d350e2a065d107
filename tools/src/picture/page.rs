//! A page of sections that stands alone: no script, nothing from elsewhere; sections fold by themselves, and lines of the source have anchors.

use super::svg::escape;
use std::fmt::Write;

/// What a section shows.
pub(crate) enum Body {
    /// A text, as it is.
    Text(String),
    /// A text whose lines are numbered, and can be pointed at.
    Source(String),
    /// A text in which places (`at 12:5`) point at lines of the source.
    Said(String),
    /// Names and values.
    Table(Vec<[String; 2]>),
    /// A picture with what is said of it.
    Picture {
        /// A heading.
        title: String,
        /// The document of a [`Canvas`](super::svg::Canvas).
        svg: String,
    },
}

/// A part of the page.
pub(crate) struct Section {
    /// Its anchor.
    pub(crate) id: &'static str,
    /// Its heading.
    pub(crate) title: String,
    /// What it is, in a sentence.
    pub(crate) about: &'static str,
    /// Unfolded at first.
    pub(crate) open: bool,
    /// What it shows.
    pub(crate) bodies: Vec<Body>,
}

const STYLE: &str = "\
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:110rem;padding:0 1.5rem;color:#222;background:#fff}
h1{font-size:1.4rem;margin:0 0 .3rem}
nav{margin:.6rem 0 1.2rem}nav a{margin-right:1rem}
a{color:#0b57a4;text-decoration:none}a:hover{text-decoration:underline}
details{border:1px solid #d4d4d4;border-radius:4px;margin:.6rem 0;padding:.2rem .8rem}
summary{cursor:pointer;font-weight:600;padding:.3rem 0}
summary small{font-weight:400;color:#666;margin-left:.6rem}
pre{font:12px/1.4 'DejaVu Sans Mono',Menlo,Consolas,monospace;overflow:auto;max-height:40rem;background:#f7f7f7;padding:.6rem;margin:.4rem 0}
pre.said{white-space:pre-wrap}
pre a.n{color:#999;display:inline-block;width:4ch;margin-right:1.2ch;text-align:right;user-select:none}
pre span:target{background:#fff0b3}
table{border-collapse:collapse;margin:.4rem 0}td{padding:.1rem 1.2rem .1rem 0;vertical-align:top}td:first-child{color:#666}
figure{margin:.6rem 0 1.2rem;overflow:auto}figcaption{font-weight:600;margin-bottom:.3rem}
";

/// The text of a page.
pub(crate) fn page(title: &str, about: &str, sections: &[Section]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{}</h1>\n<p>{}</p>\n<nav>",
        escape(title),
        escape(title),
        escape(about)
    );
    for s in sections {
        let _ = write!(out, "<a href=\"#{}\">{}</a>", escape(s.id), escape(&s.title));
    }
    out.push_str("</nav>\n");
    for s in sections {
        let open = if s.open { " open=\"open\"" } else { "" };
        let (id, title, about) = (escape(s.id), escape(&s.title), escape(s.about));
        let _ = writeln!(out, "<details id=\"{id}\"{open}>\n<summary>{title}<small>{about}</small></summary>");
        s.bodies.iter().for_each(|b| body(&mut out, b));
        out.push_str("</details>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn body(out: &mut String, body: &Body) {
    match body {
        Body::Text(text) => {
            let _ = writeln!(out, "<pre>{}</pre>", escape(text));
        }
        Body::Source(text) => {
            out.push_str("<pre>");
            for (n, line) in (1..).zip(text.lines()) {
                let _ = writeln!(out, "<span id=\"L{n}\"><a class=\"n\" href=\"#L{n}\">{n}</a>{}</span>", escape(line));
            }
            out.push_str("</pre>\n");
        }
        Body::Said(text) => {
            let _ = writeln!(out, "<pre class=\"said\">{}</pre>", pointing(&escape(text)));
        }
        Body::Table(rows) => {
            out.push_str("<table>\n");
            for [name, value] in rows {
                let _ = writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(value));
            }
            out.push_str("</table>\n");
        }
        Body::Picture { title, svg } => {
            let _ = writeln!(out, "<figure>\n<figcaption>{}</figcaption>\n{svg}</figure>", escape(title));
        }
    }
}

/// An escaped text in which `at 12:5` points at line 12.
fn pointing(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("at ") {
        let (front, behind) = rest.split_at(at + 3);
        out.push_str(front);
        rest = behind;
        let line = rest.chars().take_while(char::is_ascii_digit).count();
        let column = rest[line..].strip_prefix(':').map_or(0, |r| r.chars().take_while(char::is_ascii_digit).count());
        if line > 0 && column > 0 {
            let (place, behind) = rest.split_at(line + 1 + column);
            let _ = write!(out, "<a href=\"#L{}\">{place}</a>", &place[..line]);
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_point_at_lines_and_all_else_stays() {
        assert_eq!(pointing("`for` at 15:5: at least, at 3"), "`for` at <a href=\"#L15\">15:5</a>: at least, at 3");
    }

    #[test]
    fn pages_are_escaped_and_lines_have_anchors() {
        let bodies = vec![Body::Source("a <b>\nc".into()), Body::Table(vec![["x&y".into(), "1".into()]])];
        let made = page("t<", "about", &[Section { id: "s", title: "S".into(), about: "what", open: true, bodies }]);
        for part in [
            "<title>t&lt;</title>",
            "<span id=\"L1\"><a class=\"n\" href=\"#L1\">1</a>a &lt;b&gt;</span>",
            "x&amp;y",
            "<a href=\"#s\">S</a>",
        ] {
            assert!(made.contains(part), "{part}: {made}");
        }
        assert!(!made.contains("<script") && !made.contains("http"));
    }
}
