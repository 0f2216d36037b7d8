//! One connection: reads requests, runs them, writes answers and notifications, and ends what goes too far.

mod answer;
mod news;
mod outbox;
mod run;
mod state;

pub(crate) use news::{Topic, Wake};
pub(crate) use run::{End, run};
pub(crate) use state::{Session, Spoken, ToldTip};
