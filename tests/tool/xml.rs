//! A checker of XML documents: one root, tags that close in order, quoted attributes once each, escaped text.

/// Says what is wrong with a document, and where.
///
/// # Errors
/// A sentence with what stands there.
pub fn check(text: &str) -> Result<(), String> {
    let (mut open, mut rest, mut roots): (Vec<&str>, &str, u32) = (Vec::new(), text.trim(), 0);
    while !rest.is_empty() {
        let near = || rest.chars().take(60).collect::<String>();
        if let Some(tag) = rest.strip_prefix("</") {
            let (name, behind) = tag.split_once('>').ok_or_else(|| format!("a tag without an end: {}", near()))?;
            if open.pop() != Some(name) {
                return Err(format!("closes what is not open: {}", near()));
            }
            rest = behind;
        } else if let Some(tag) = rest.strip_prefix('<') {
            let end = tag_end(tag).ok_or_else(|| format!("a tag without an end: {}", near()))?;
            let (inside, behind) = (&tag[..end], &tag[end + 1..]);
            let (inside, closed) = inside.strip_suffix('/').map_or((inside, false), |i| (i, true));
            let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == ':') {
                return Err(format!("a tag without a name: {}", near()));
            }
            checked_attributes(attributes).map_err(|e| format!("{e}: {}", near()))?;
            roots += u32::from(open.is_empty());
            if roots > 1 {
                return Err(format!("a second root: {}", near()));
            }
            if !closed {
                open.push(name);
            }
            rest = behind;
        } else {
            let end = rest.find('<').unwrap_or(rest.len());
            let (words, behind) = rest.split_at(end);
            if open.is_empty() && !words.trim().is_empty() {
                return Err(format!("text outside the root: {}", near()));
            }
            escaped(words).map_err(|e| format!("{e}: {}", near()))?;
            rest = behind;
        }
    }
    match (open.last(), roots) {
        (Some(name), _) => Err(format!("<{name}> is not closed")),
        (None, 0) => Err("there is no root".into()),
        (None, _) => Ok(()),
    }
}

/// Where a tag ends: at the first `>` outside of quotes.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quoted = false;
    tag.char_indices().find_map(|(i, c)| {
        quoted ^= c == '"';
        (c == '>' && !quoted).then_some(i)
    })
}

fn checked_attributes(text: &str) -> Result<(), String> {
    let (mut rest, mut names) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").ok_or("an attribute without a quoted value")?;
        let (value, behind) = behind.split_once('"').ok_or("an attribute without an end")?;
        if names.contains(&name) || name.contains(|c: char| c.is_whitespace() || c == '<') {
            return Err(format!("the attribute `{name}`"));
        }
        if value.contains('<') {
            return Err("an attribute with a bare `<`".into());
        }
        escaped(value)?;
        names.push(name);
        rest = behind.trim_start();
    }
    Ok(())
}

/// Text whose every `&` begins a known entity.
fn escaped(text: &str) -> Result<(), String> {
    for part in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        if !known.iter().any(|k| part.starts_with(k)) {
            return Err("a bare `&`".into());
        }
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
        return Err("a control character".into());
    }
    Ok(())
}
