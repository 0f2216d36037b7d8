//! The readers of Elements against a recorded chain, the node's own words, and the `elements` crate.

mod recorded;
