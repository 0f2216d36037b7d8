//! Error answers.

use std::borrow::Cow;

use super::code;

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// Which kind.
    pub(crate) code: i32,
    /// What a person reads.
    pub(crate) message: Cow<'static, str>,
    /// Whether the connection is closed after it.
    pub(crate) closes: bool,
}

impl RpcError {
    /// An error of a code.
    pub(crate) fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            closes: false,
        }
    }

    /// An argument of the wrong type or range, or something that is not there.
    pub(crate) fn bad(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::BAD_REQUEST, message)
    }

    /// Arguments that do not fit the method.
    pub(crate) fn params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Not a request.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// The same, and the connection is closed after it.
    pub(crate) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }
}
