//! Prints the events of a chain when they were handled (fencing value, entry, event id), and goes on where it was after a
//! restart:
//! `cargo run --release --example subscriber -- redis://127.0.0.1:6379 eos-mainnet my-app --start first`
//!
//! Start it several times: one works, the others stand by. `--fail-ending 007` refuses events whose id ends so, to see them
//! in the dead letters (`cairn list-dead-letters --sub-id my-app`).

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cairn_redis::{Redis, Target};
use cairn_stream::subscription::{
    EventSource, LockTimes, Origin, Received, SubId, Subscription, SubscriptionOptions,
};
use cairn_stream::{ChainLabel, Filters};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Settings {
    url: String,
    source: EventSource,
    options: SubscriptionOptions,
    fail_ending: Option<String>,
    work: Duration,
}

fn settings(args: &[String]) -> Outcome<Settings> {
    let [url, chain, sub_id, rest @ ..] = args else {
        return Err(
            "usage: subscriber REDIS_URL CHAIN SUB_ID [--start PLACE] [--filters JSON] \
             [--fail-ending TEXT] [--work-ms MS] [--ttl-ms MS]"
                .into(),
        );
    };
    let chain = ChainLabel::new(chain)?;
    let mut settings = Settings {
        url: url.clone(),
        source: EventSource::live(&chain),
        options: SubscriptionOptions::new(SubId::new(sub_id)?),
        fail_ending: None,
        work: Duration::ZERO,
    };
    for pair in rest.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} needs a value", pair[0]).into());
        };
        match name.as_str() {
            "--start" => settings.options.start_from = value.parse()?,
            "--filters" => settings.options.filters = Filters::parse(value)?,
            "--fail-ending" => settings.fail_ending = Some(value.clone()),
            "--work-ms" => settings.work = Duration::from_millis(value.parse()?),
            // A short lock shows a takeover sooner. Ten seconds are right for work.
            "--ttl-ms" => {
                let ttl = Duration::from_millis(value.parse()?);
                settings.options.lock = LockTimes {
                    ttl,
                    heartbeat: ttl / 4,
                    poll: ttl / 20,
                };
                settings.options.retry_pauses = vec![ttl / 100];
            }
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(settings)
}

async fn run(settings: Settings) -> Outcome<()> {
    let redis = Redis::connect_lazily(&Target::parse(&settings.url)?)?;
    let subscription = Subscription::start(redis, settings.source, settings.options);
    let (fail_ending, work) = (settings.fail_ending, settings.work);
    let handler = move |event: Arc<Received>| {
        let refused = fail_ending
            .as_deref()
            .is_some_and(|ending| event.id().ends_with(ending));
        async move {
            if !work.is_zero() {
                tokio::time::sleep(work).await;
            }
            if refused {
                return Err("refused, as asked");
            }
            // Here the work is done: in one step with whatever remembers that it was done.
            let place = match event.origin() {
                Origin::Stream(entry) => entry.to_string(),
                Origin::DeadLetter { letter, .. } => format!("replay:{letter}"),
            };
            println!("{} {place} {}", event.epoch(), event.id());
            Ok(())
        }
    };
    let stop = async {
        // Without signals it runs until it is killed.
        let _ = tokio::signal::ctrl_c().await;
    };
    subscription.run(handler, stop).await?;
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ran = match settings(&args) {
        Ok(settings) => run(settings).await,
        Err(error) => Err(error),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
