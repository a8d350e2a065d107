//! The tokens of Rust text, as far as imports need them: comments are gone, literals are one token each.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(String),
    /// The text of a string literal, quotes and escapes as they stand there left away.
    Text(String),
    /// `::`
    Into,
    Mark(char),
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Token::Word(w) => Some(w),
            Token::Text(_) | Token::Into | Token::Mark(_) => None,
        }
    }

    pub(crate) fn is(&self, mark: char) -> bool {
        *self == Token::Mark(mark)
    }
}

/// How many characters the comment at the start of `rest` takes.
fn comment(rest: &[char]) -> Option<usize> {
    match rest {
        ['/', '/', ..] => Some(rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => {
            let (mut at, mut depth) = (2, 1);
            while depth > 0 && at < rest.len() {
                match &rest[at..] {
                    ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
                    ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
                    _ => at += 1,
                }
            }
            Some(at)
        }
        _ => None,
    }
}

/// Where the raw string at the start of `rest` has its text and where it ends: `r"..."`, `br#"..."#`.
fn raw_string(rest: &[char]) -> Option<(usize, usize, usize)> {
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    let from = prefix + hashes + 1;
    if rest.get(from - 1) != Some(&'"') {
        return None;
    }
    let ends = |at: usize| rest[at] == '"' && rest[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    let to = (from..rest.len()).find(|&at| ends(at)).unwrap_or(rest.len());
    Some((from, to, (to + 1 + hashes).min(rest.len())))
}

/// Where the literal at the start of `rest`, which begins with the quote `rest[0]`, has its last quote.
fn closing(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != rest[0] {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let rest = &chars[at..];
        if let Some(n) = comment(rest) {
            at += n;
        } else if let Some((from, to, end)) = raw_string(rest) {
            found.push(Token::Text(rest[from..to].iter().collect()));
            at += end;
        } else if rest[0] == '"' {
            let end = closing(rest);
            found.push(Token::Text(rest[1..end].iter().collect()));
            at += end + 1;
        } else if rest[0] == '\'' {
            // A lifetime is a word behind a quote that no second quote follows.
            let literal = rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'');
            at += if literal { closing(rest) + 1 } else { 1 };
        } else if rest[0].is_alphanumeric() || rest[0] == '_' {
            let n = rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
            found.push(Token::Word(rest[..n].iter().collect()));
            at += n;
        } else if rest.starts_with(&[':', ':']) {
            found.push(Token::Into);
            at += 2;
        } else {
            if !rest[0].is_whitespace() {
                found.push(Token::Mark(rest[0]));
            }
            at += 1;
        }
    }
    found
}
