//! A command written as one string, cut into words as a shell does; no shell ever runs it.

/// Why a string is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A quote is opened and not closed.
    #[error("the quote {0} is not closed")]
    OpenQuote(char),
    /// A backslash at the very end.
    #[error("the backslash at the end stands before nothing")]
    TrailingBackslash,
    /// A word that only a shell understands.
    #[error(
        "no shell reads the command, so {0} means nothing here; write [sh, -c, \"...\"] for a shell, or quote it"
    )]
    ShellOperator(String),
}

/// Words that are certainly meant for a shell when they stand alone and unquoted.
const OPERATORS: [&str; 11] = ["|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1"];

/// Cuts a command into words: blanks part them, single quotes keep everything, double quotes keep all but
/// `\"`, `\\`, `\$` and `` \` ``, a backslash outside of quotes keeps the next character. Nothing is expanded.
///
/// # Errors
/// An open quote, a backslash before nothing, or an unquoted word that only a shell understands.
pub fn split_words(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(words);
        }
        let (word, quoted) = next_word(&mut chars)?;
        if !quoted && OPERATORS.contains(&word.as_str()) {
            return Err(WordsError::ShellOperator(word));
        }
        words.push(word);
    }
}

/// The word that begins here, and whether any of it was quoted.
fn next_word(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<(String, bool), WordsError> {
    let mut word = String::new();
    let mut quoted = false;
    while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
        match c {
            '\'' | '"' => {
                quoted = true;
                quoted_part(chars, c, &mut word)?;
            }
            '\\' => {
                quoted = true;
                word.push(chars.next().ok_or(WordsError::TrailingBackslash)?);
            }
            other => word.push(other),
        }
    }
    Ok((word, quoted))
}

fn quoted_part(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
    word: &mut String,
) -> Result<(), WordsError> {
    loop {
        let c = chars.next().ok_or(WordsError::OpenQuote(quote))?;
        if c == quote {
            return Ok(());
        }
        if c == '\\' && quote == '"' {
            match chars.next().ok_or(WordsError::OpenQuote(quote))? {
                escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                other => word.extend(['\\', other]),
            }
            continue;
        }
        word.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_a_shell_cuts_them() {
        let cases: [(&str, &[&str]); 12] = [
            ("", &[]),
            ("  ", &[]),
            ("sleep 5", &["sleep", "5"]),
            ("  a\t b\nc ", &["a", "b", "c"]),
            ("sh -c 'echo hi; sleep 1'", &["sh", "-c", "echo hi; sleep 1"]),
            ("a \"b c\" d", &["a", "b c", "d"]),
            (r#"a "b\"c" "\n""#, &["a", "b\"c", "\\n"]),
            (r"a\ b c", &["a b", "c"]),
            ("a''b \"\"", &["ab", ""]),
            (r"'a\b'", &[r"a\b"]),
            ("get http://x/?a=1&b=2", &["get", "http://x/?a=1&b=2"]),
            ("a '|' \\>", &["a", "|", ">"]),
        ];
        for (text, words) in cases {
            assert_eq!(split_words(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn what_is_no_command() {
        for (text, error) in [
            ("a 'b", WordsError::OpenQuote('\'')),
            ("a \"b", WordsError::OpenQuote('"')),
            ("a \"b\\", WordsError::OpenQuote('"')),
            ("a \\", WordsError::TrailingBackslash),
            ("echo a | cat", WordsError::ShellOperator("|".into())),
            ("a && b", WordsError::ShellOperator("&&".into())),
            ("a > b", WordsError::ShellOperator(">".into())),
        ] {
            assert_eq!(split_words(text), Err(error), "{text}");
        }
    }
}
