//! Files of environment variables: docker's `--env-file`, and the `.env` beside a stack file.

/// A line of such a file: a name, with its value where it has one.
pub type Line = (String, Option<String>);

/// Reads docker's format: `NAME=value` with the value as it stands, `NAME` alone for the value of the caller's own
/// environment, `#` at the beginning for a comment.
///
/// # Errors
/// The number of the line and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (line.trim_end(), None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            let clipped: String = name.chars().take(40).collect();
            return Err(format!("line {}: {clipped:?} is not the name of a variable", number + 1));
        }
        lines.push((name.to_owned(), value));
    }
    Ok(lines)
}

/// As [`parse`], with one pair of quotes around a value taken off, as compose reads `.env`.
///
/// # Errors
/// The number of the line and what is wrong with it.
pub fn parse_dotenv(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = parse(text)?;
    for (_, value) in &mut lines {
        let Some(text) = value else { continue };
        let trimmed = text.trim();
        let inside = ['"', '\''].iter().find_map(|q| trimmed.strip_prefix(*q)?.strip_suffix(*q));
        *value = Some(inside.unwrap_or(trimmed).to_owned());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[Line]) -> String {
        let show = |(n, v): &Line| v.as_ref().map_or(n.clone(), |v| format!("{n}={v}"));
        lines.iter().map(show).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn as_docker_reads_them() {
        let text = "\u{feff}# comment\n\nA=1\n  B= two words \r\nC\nD=\nE=\"q\"\nF=a=b # not a comment\n";
        assert_eq!(shown(&parse(text).unwrap()), "A=1|B= two words |C|D=|E=\"q\"|F=a=b # not a comment");
        assert_eq!(parse("A=1\nb c=2\n").unwrap_err(), "line 2: \"b c\" is not the name of a variable");
        assert_eq!(parse("=2\n").unwrap_err(), "line 1: \"\" is not the name of a variable");
    }

    #[test]
    fn as_compose_reads_them() {
        let text = "A=\"q r\"\nB='x'\nC= y \nD=\"\nE\n";
        assert_eq!(shown(&parse_dotenv(text).unwrap()), "A=q r|B=x|C=y|D=\"|E");
    }
}
