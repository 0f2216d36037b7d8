//! The index against a model that shares no code with it.

mod answers;
mod cases;
mod elements;
mod golden;
mod mempool;
mod options;
mod property;
mod support;
mod verifying;
