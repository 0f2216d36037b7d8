//! Every order in which two instances can take the lock, lose it, read, handle, acknowledge and crash, looked at one by one.
//!
//! The model has the steps that are atomic in Redis, and nothing of the code: it says that the rules are right. An instance may
//! rest between any two of its steps for any time, which is what a pause is. Leaving out either rule of the mark makes the
//! search find what goes wrong.

use std::collections::{HashMap, HashSet, VecDeque};

/// Entries of the stream.
const ENTRIES: u8 = 3;
/// Most numbers that are given out.
const EPOCHS: u8 = 4;

/// A set of entries, a bit for each.
type Set = u8;

/// Which rules are kept.
#[derive(Clone, Copy)]
struct Rules {
    /// A step on the group looks for the own mark.
    steps_look: bool,
    /// Leaving a mark is refused when a newer one is there.
    newer_wins: bool,
}

const ALL_RULES: Rules = Rules {
    steps_look: true,
    newer_wins: true,
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Instance {
    Idle,
    /// It was given the lock.
    Locked,
    /// It was given a number.
    Numbered(u8),
    Active {
        epoch: u8,
        /// Pending entries up to here were read; `None` when all were and new ones are read.
        read_pending: Option<u8>,
        /// Read and not handled.
        held: Set,
        /// Handled and not acknowledged.
        done: Set,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    lock: Option<u8>,
    counter: u8,
    /// The mark in the group.
    mark: u8,
    /// Entries given out so far: the first so many.
    delivered: u8,
    pending: Set,
    acked: Set,
    handled: Set,
    instances: [Instance; 2],
}

const START: State = State {
    lock: None,
    counter: 0,
    mark: 0,
    delivered: 0,
    pending: 0,
    acked: 0,
    handled: 0,
    instances: [Instance::Idle; 2],
};

fn bit(entry: u8) -> Set {
    1 << entry
}

/// The first entry of a set.
fn first(set: Set) -> Option<u8> {
    (set != 0).then(|| u8::try_from(set.trailing_zeros()).expect("few"))
}

/// All states that one step of anybody leads to.
fn steps(state: &State, rules: Rules) -> Vec<State> {
    let mut next = Vec::new();
    if state.lock.is_some() {
        // It expires, whatever its holder believes.
        next.push(State {
            lock: None,
            ..*state
        });
    }
    for (at, instance) in state.instances.iter().enumerate() {
        let own = u8::try_from(at).expect("two");
        let with = |instance: Instance, state: State| {
            let mut state = state;
            state.instances[at] = instance;
            state
        };
        if *instance != Instance::Idle {
            // It crashes, or its heartbeat finds that the lock is not its own.
            next.push(with(Instance::Idle, *state));
        }
        match *instance {
            Instance::Idle if state.lock.is_none() => {
                next.push(with(
                    Instance::Locked,
                    State {
                        lock: Some(own),
                        ..*state
                    },
                ));
            }
            Instance::Idle => {}
            Instance::Locked if state.counter < EPOCHS => {
                let counter = state.counter + 1;
                next.push(with(
                    Instance::Numbered(counter),
                    State { counter, ..*state },
                ));
            }
            Instance::Locked => {}
            Instance::Numbered(epoch) => {
                if rules.newer_wins && state.mark > epoch {
                    next.push(with(Instance::Idle, *state));
                } else {
                    let active = Instance::Active {
                        epoch,
                        read_pending: Some(0),
                        held: 0,
                        done: 0,
                    };
                    next.push(with(
                        active,
                        State {
                            mark: epoch,
                            ..*state
                        },
                    ));
                }
            }
            Instance::Active {
                epoch,
                read_pending,
                held,
                done,
            } => {
                let may = !rules.steps_look || state.mark == epoch;
                // A step that acknowledges and reads.
                if !may {
                    next.push(with(Instance::Idle, *state));
                } else if done != 0 {
                    let acked = Instance::Active {
                        epoch,
                        read_pending,
                        held,
                        done: 0,
                    };
                    next.push(with(
                        acked,
                        State {
                            acked: state.acked | done,
                            pending: state.pending & !done,
                            ..*state
                        },
                    ));
                }
                if may && let Some(from) = read_pending {
                    let later = state.pending & !(bit(from) - 1);
                    let read = match first(later) {
                        Some(entry) => Instance::Active {
                            epoch,
                            read_pending: Some(entry + 1),
                            held: held | bit(entry),
                            done,
                        },
                        None => Instance::Active {
                            epoch,
                            read_pending: None,
                            held,
                            done,
                        },
                    };
                    next.push(with(read, *state));
                } else if may && state.delivered < ENTRIES {
                    let entry = state.delivered;
                    let read = Instance::Active {
                        epoch,
                        read_pending,
                        held: held | bit(entry),
                        done,
                    };
                    next.push(with(
                        read,
                        State {
                            delivered: entry + 1,
                            pending: state.pending | bit(entry),
                            ..*state
                        },
                    ));
                }
                if let Some(entry) = first(held) {
                    let handled = Instance::Active {
                        epoch,
                        read_pending,
                        held: held & !bit(entry),
                        done: done | bit(entry),
                    };
                    next.push(with(
                        handled,
                        State {
                            handled: state.handled | bit(entry),
                            ..*state
                        },
                    ));
                }
            }
        }
    }
    next
}

/// What is wrong with a state.
fn breach(state: &State) -> Option<&'static str> {
    if state.acked & !state.handled != 0 {
        return Some("acknowledged and not handled");
    }
    let given = bit(state.delivered) - 1;
    if given & !(state.pending | state.acked) != 0 {
        return Some("given out, and neither pending nor acknowledged");
    }
    for instance in state.instances {
        let Instance::Active {
            epoch,
            read_pending,
            held,
            done,
        } = instance
        else {
            continue;
        };
        if let Some(next) = first(held)
            && (bit(next) - 1) & !state.handled != 0
        {
            return Some("handled before an older one");
        }
        if state.mark == epoch && read_pending.is_none() && state.pending & !(held | done) != 0 {
            return Some("pending, and the active instance does not know of it");
        }
    }
    None
}

/// Looks at every state there is; what is wrong with the first bad one, and how one gets there.
fn search(rules: Rules) -> Result<HashMap<State, Vec<State>>, String> {
    let mut graph: HashMap<State, Vec<State>> = HashMap::new();
    let mut came_from: HashMap<State, State> = HashMap::new();
    let mut queue = VecDeque::from([START]);
    let mut seen = HashSet::from([START]);
    while let Some(state) = queue.pop_front() {
        if let Some(what) = breach(&state) {
            let mut way = vec![state];
            while let Some(before) = came_from.get(way.last().expect("not empty")) {
                way.push(*before);
            }
            way.reverse();
            return Err(format!("{what} after {} steps: {way:#?}", way.len() - 1));
        }
        let next = steps(&state, rules);
        for after in &next {
            if seen.insert(*after) {
                came_from.insert(*after, state);
                queue.push_back(*after);
            }
        }
        graph.insert(state, next);
    }
    Ok(graph)
}

#[test]
fn no_order_of_steps_loses_an_event() {
    let graph = search(ALL_RULES).unwrap_or_else(|what| panic!("{what}"));
    assert!(graph.len() > 10_000, "{} states", graph.len());
    // And from wherever one is, as long as numbers are left, everything can still be handled and acknowledged.
    let all = bit(ENTRIES) - 1;
    let mut back: HashMap<State, Vec<State>> = HashMap::new();
    for (state, next) in &graph {
        for after in next {
            back.entry(*after).or_default().push(*state);
        }
    }
    let mut queue: VecDeque<State> = graph
        .keys()
        .filter(|state| state.acked == all)
        .copied()
        .collect();
    let mut can_end: HashSet<State> = queue.iter().copied().collect();
    assert!(!can_end.is_empty());
    while let Some(state) = queue.pop_front() {
        for before in back.get(&state).into_iter().flatten() {
            if can_end.insert(*before) {
                queue.push_back(*before);
            }
        }
    }
    let stuck = graph
        .keys()
        .find(|state| state.counter < EPOCHS && !can_end.contains(state));
    assert_eq!(stuck, None);
}

#[test]
fn each_rule_is_needed() {
    for (rules, expected) in [
        (
            Rules {
                steps_look: false,
                ..ALL_RULES
            },
            "the active instance does not know of it",
        ),
        (
            Rules {
                newer_wins: false,
                ..ALL_RULES
            },
            "",
        ),
    ] {
        match search(rules) {
            Err(what) => assert!(what.contains(expected), "{what}"),
            Ok(graph) => {
                // Without the order of numbers an older instance can put the newer one out again: nothing is lost, but two
                // can do that to each other, so the mark may go back.
                let goes_back = graph
                    .iter()
                    .any(|(state, next)| next.iter().any(|after| after.mark < state.mark));
                assert!(expected.is_empty() && goes_back);
            }
        }
    }
    let graph = search(ALL_RULES).unwrap_or_else(|what| panic!("{what}"));
    let goes_back = graph
        .iter()
        .any(|(state, next)| next.iter().any(|after| after.mark < state.mark));
    assert!(
        !goes_back,
        "a newer holder is never put out by an older one"
    );
}
