//! The codes of errors, JSON-RPC's own and those of Electrum servers.

/// The text is not JSON.
pub(crate) const PARSE: i32 = -32700;
/// JSON, but not a request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// No such method, or none in the version spoken.
pub(crate) const NO_METHOD: i32 = -32601;
/// The arguments do not fit the method: too many, too few, unknown names.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// The server cannot answer now, or something is broken here.
pub(crate) const INTERNAL: i32 = -32603;
/// An argument of the wrong type or range, or something that is not there.
pub(crate) const BAD_REQUEST: i32 = 1;
/// The node reported an error.
pub(crate) const NODE: i32 = 2;
/// A limit of this server: batch, subscriptions.
pub(crate) const LIMIT: i32 = 4;
/// The history of a script is longer than what one answer may hold.
pub(crate) const HISTORY_TOO_LARGE: i32 = 10_001;
/// Too much work for one client; the connection is closed.
pub(crate) const EXCESSIVE: i32 = -101;
/// The server is busy or the answer took too long.
pub(crate) const BUSY: i32 = -102;
