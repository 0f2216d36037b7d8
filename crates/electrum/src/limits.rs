//! What one client may cost, remembered for its group of addresses across reconnects.
//!
//! Each request has a cost that depends on what it was and how much came of it, not on how long it took on a busy
//! machine. Cost is forgiven with time. Above the soft limit a client waits before its next request is read, the longer
//! the higher it is; at the hard limit it is disconnected and cannot come back before enough is forgiven.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::options::Limits;

/// Groups remembered. Beyond it those without sessions are forgotten, the cheapest first.
const GROUPS_MAX: usize = 65_536;
/// Cost of opening a connection.
const COST_CONNECTION: f64 = 5.0;
/// The longest wait of a client above the soft limit.
const WAIT_MAX: Duration = Duration::from_millis(2_500);

/// Addresses that count as one client: the network an operator of clients gets at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    V4([u8; 3]),
    V6([u8; 6]),
}

impl Group {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                Self::V4([a, b, c])
            }
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, ..] = address.octets();
                Self::V6([a, b, c, d, e, f])
            }
        }
    }
}

#[derive(Debug)]
struct Account {
    sessions: usize,
    cost: f64,
    as_of: Instant,
}

impl Account {
    fn forgive(&mut self, per_second: f64, now: Instant) {
        let passed = now.saturating_duration_since(self.as_of).as_secs_f64();
        self.cost = (self.cost - passed * per_second).max(0.0);
        self.as_of = now;
    }
}

/// The accounts of all clients.
#[derive(Debug)]
pub(crate) struct Accounts {
    accounts: Mutex<HashMap<Group, Account>>,
    sessions_per_group: usize,
    soft: f64,
    hard: f64,
    refund: f64,
}

/// Why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too many sessions from there.
    Sessions,
    /// Too much was asked from there lately.
    Cost,
}

/// What to do after a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// Go on.
    Fine,
    /// Wait before the next request.
    Wait(Duration),
    /// Disconnect.
    Over,
}

impl Accounts {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            accounts: Mutex::default(),
            sessions_per_group: limits.sessions_per_group,
            soft: limits.cost_soft,
            hard: limits.cost_hard.max(limits.cost_soft),
            refund: limits.cost_refund,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Group, Account>> {
        // Every change under the lock is a single step.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session of a client; `None` is one that limits do not apply to.
    pub(crate) fn admit(
        self: &Arc<Self>,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Result<Seat, Refused> {
        let Some(client) = client else {
            return Ok(Seat { place: None });
        };
        let group = Group::of(client);
        let mut accounts = self.lock();
        if accounts.len() >= GROUPS_MAX && !accounts.contains_key(&group) {
            self.forget(&mut accounts, now);
        }
        let account = accounts.entry(group).or_insert(Account {
            sessions: 0,
            cost: 0.0,
            as_of: now,
        });
        account.forgive(self.refund, now);
        if account.cost + COST_CONNECTION >= self.hard {
            return Err(Refused::Cost);
        }
        if self.sessions_per_group > 0 && account.sessions >= self.sessions_per_group {
            return Err(Refused::Sessions);
        }
        account.cost += COST_CONNECTION;
        account.sessions += 1;
        Ok(Seat {
            place: Some((Arc::clone(self), group)),
        })
    }

    /// Makes room: first those who owe nothing, then half of all that are not connected.
    fn forget(&self, accounts: &mut HashMap<Group, Account>, now: Instant) {
        accounts.retain(|_, account| {
            account.forgive(self.refund, now);
            account.sessions > 0 || account.cost > 0.0
        });
        if accounts.len() >= GROUPS_MAX {
            let mut costs: Vec<f64> = accounts.values().map(|account| account.cost).collect();
            costs.sort_unstable_by(f64::total_cmp);
            let middle = costs[costs.len() / 2];
            accounts.retain(|_, account| account.sessions > 0 || account.cost > middle);
        }
    }
}

/// A session's place in its group; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    place: Option<(Arc<Accounts>, Group)>,
}

impl Seat {
    /// Adds a cost.
    pub(crate) fn charge(&self, cost: f64, now: Instant) -> Verdict {
        let Some((accounts, group)) = &self.place else {
            return Verdict::Fine;
        };
        let mut locked = accounts.lock();
        let Some(account) = locked.get_mut(group) else {
            return Verdict::Fine;
        };
        account.forgive(accounts.refund, now);
        account.cost += cost;
        if account.cost >= accounts.hard {
            Verdict::Over
        } else if account.cost > accounts.soft {
            let share = (account.cost - accounts.soft) / (accounts.hard - accounts.soft);
            Verdict::Wait(WAIT_MAX.mul_f64(share))
        } else {
            Verdict::Fine
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((accounts, group)) = &self.place
            && let Some(account) = accounts.lock().get_mut(group)
        {
            account.sessions = account.sessions.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Arc<Accounts> {
        Accounts::new(&Limits {
            sessions_per_group: 2,
            cost_soft: 100.0,
            cost_hard: 1_000.0,
            cost_refund: 10.0,
            ..Limits::default()
        })
    }

    fn from(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn sessions_are_counted_by_group_and_given_back() {
        let (accounts, now) = (accounts(), Instant::now());
        let first = accounts.admit(from("192.0.2.1"), now).expect("free");
        let _second = accounts.admit(from("192.0.2.200"), now).expect("free");
        assert_eq!(
            accounts.admit(from("192.0.2.3"), now).err(),
            Some(Refused::Sessions)
        );
        accounts
            .admit(from("192.0.3.1"), now)
            .expect("another group");
        accounts
            .admit(from("2001:db8::1"), now)
            .expect("another group");
        for _ in 0..10 {
            std::mem::forget(accounts.admit(None, now).expect("exempt"));
        }
        drop(first);
        accounts
            .admit(from("192.0.2.3"), now)
            .expect("a place is free again");
    }

    #[test]
    fn cost_slows_then_ends_and_is_remembered_until_forgiven() {
        let (accounts, now) = (accounts(), Instant::now());
        let seat = accounts.admit(from("192.0.2.1"), now).expect("free");
        assert_eq!(seat.charge(90.0, now), Verdict::Fine);
        let Verdict::Wait(short) = seat.charge(100.0, now) else {
            panic!("above the soft limit");
        };
        let Verdict::Wait(long) = seat.charge(500.0, now) else {
            panic!("below the hard limit");
        };
        assert!(short < long && long < WAIT_MAX, "{short:?} {long:?}");
        assert_eq!(seat.charge(400.0, now), Verdict::Over);
        drop(seat);
        assert_eq!(
            accounts.admit(from("192.0.2.9"), now).err(),
            Some(Refused::Cost)
        );
        let later = now + Duration::from_secs(105);
        let seat = accounts.admit(from("192.0.2.9"), later).expect("forgiven");
        assert_eq!(seat.charge(1.0, later), Verdict::Fine);
        assert_eq!(
            accounts.admit(None, now).expect("exempt").charge(1e9, now),
            Verdict::Fine
        );
    }

    #[test]
    fn memory_is_bounded() {
        let (accounts, now) = (accounts(), Instant::now());
        for n in 0..(GROUPS_MAX as u32 + 5_000) {
            let address = IpAddr::V4((n << 8).into());
            drop(accounts.admit(Some(address), now));
        }
        assert!(accounts.lock().len() <= GROUPS_MAX);
    }
}
