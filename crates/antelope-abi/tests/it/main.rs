//! Decoding against what independent programs say about the same bytes.

mod hostile;
mod oracle;
mod recorded;
