//! What is wrong with a text, and where.

use std::fmt;

use crate::yaml::At;

/// Something in a text that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub struct Problem {
    /// The name of the file, as the caller gave it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The path of the field, such as `services.web.deploy.replicas`; empty when it is the text as a whole.
    pub field: String,
    /// What is wrong and what to do, in lower case without a full stop.
    pub message: String,
}

/// Something in a text that is accepted and yet worth a word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// The name of the file, as the caller gave it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The path of the field.
    pub field: String,
    /// What is worth knowing.
    pub message: String,
}

fn show(
    f: &mut fmt::Formatter<'_>,
    file: &str,
    line: u32,
    column: u32,
    field: &str,
    message: &str,
) -> fmt::Result {
    write!(f, "{file}:{line}:{column}: ")?;
    if !field.is_empty() {
        write!(f, "{field}: ")?;
    }
    f.write_str(message)
}

impl fmt::Display for Problem {
    /// As `file:line:column: field: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.file, self.line, self.column, &self.field, &self.message)
    }
}

impl fmt::Display for Warning {
    /// As `file:line:column: field: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.file, self.line, self.column, &self.field, &self.message)
    }
}

/// What has been found while a text is read: goes on after a problem, so that several are reported at once.
#[derive(Debug)]
pub(crate) struct Findings {
    file: String,
    /// The problems so far.
    pub problems: Vec<Problem>,
    /// The warnings so far.
    pub warnings: Vec<Warning>,
}

/// More problems than this are not told one by one.
const PROBLEMS_TOLD: usize = 50;

impl Findings {
    /// Nothing found yet in the file of this name.
    pub fn new(file: &str) -> Self {
        Self { file: file.to_owned(), problems: Vec::new(), warnings: Vec::new() }
    }

    /// Adds a problem.
    pub fn refuse(&mut self, at: At, field: impl Into<String>, message: impl Into<String>) {
        if self.problems.len() >= PROBLEMS_TOLD {
            return;
        }
        let (field, message) = (field.into(), message.into());
        let problem = Problem { file: self.file.clone(), line: at.line, column: at.column, field, message };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// True when something under this path stands against the text.
    pub fn touch(&self, path: &str) -> bool {
        let below = |p: &Problem| p.field.strip_prefix(path).is_some_and(|r| !r.starts_with(|c| c != '.'));
        self.problems.iter().any(below)
    }

    /// Adds a warning.
    pub fn warn(&mut self, at: At, field: impl Into<String>, message: impl Into<String>) {
        let (field, message) = (field.into(), message.into());
        let warning = Warning { file: self.file.clone(), line: at.line, column: at.column, field, message };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// What was read, or everything that stands against it, in the order of the text.
    pub fn finish<T>(mut self, read: Option<T>) -> Result<(T, Vec<Warning>), Vec<Problem>> {
        match read {
            Some(value) if self.problems.is_empty() => Ok((value, self.warnings)),
            _ => {
                self.problems.sort_by_key(|p| (p.line, p.column));
                Err(self.problems)
            }
        }
    }
}
