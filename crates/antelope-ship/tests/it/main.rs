//! The State History client against recorded sessions, scripted peers, real sockets and a real node.

mod hostile;
mod node;
mod recorded;
mod scripted;
mod stream;
mod versions;
mod websocket;
