//! What can be wrong with a configuration, and where.

use std::fmt;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of the configuration file; lines count from 1.
    Line {
        /// The file's name as it was given.
        file: String,
        /// Line number.
        line: usize,
    },
    /// The configuration file as a whole.
    File(String),
    /// An environment variable.
    Variable(String),
    /// An option of the command line.
    CommandLine(String),
    /// Nowhere: the default.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::File(file) => f.write_str(file),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::CommandLine(option) => write!(f, "command line {option}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The class of a problem; machine readers of `check-config --json` get it as [`ProblemKind::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The file cannot be read.
    Unreadable,
    /// The file is not TOML.
    Syntax,
    /// A key that Cairn does not know.
    UnknownKey,
    /// A key or value of a feature that this version does not have.
    Unsupported,
    /// A value of the wrong type.
    WrongType,
    /// A value that cannot be used, or two that contradict each other.
    InvalidValue,
    /// A key that must be given is not.
    Missing,
    /// `${NAME}` of a variable that is not set.
    UnsetVariable,
    /// A secret written out.
    LiteralSecret,
}

impl ProblemKind {
    /// The stable name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::UnknownKey => "unknown_key",
            Self::Unsupported => "unsupported",
            Self::WrongType => "wrong_type",
            Self::InvalidValue => "invalid_value",
            Self::Missing => "missing",
            Self::UnsetVariable => "unset_variable",
            Self::LiteralSecret => "literal_secret",
        }
    }
}

/// One problem. The text never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its class.
    pub kind: ProblemKind,
    /// Where it is.
    pub place: Place,
    /// The key's path (`http.listen`, `chain[0].rpc_url`); empty when the problem is the file's.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place != Place::Default {
            write!(f, "{}: ", self.place)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// A configuration that cannot be used: all its problems, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// At least one problem, in the order of the file.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// Whether a secret is written out somewhere: `check-config` has an exit code for that.
    pub fn has_literal_secret(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.kind == ProblemKind::LiteralSecret)
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
