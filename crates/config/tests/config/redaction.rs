//! No secret is ever printed, whatever the way it came in and whatever else is wrong.

use cairn_config::{ConfigError, Loaded};
use proptest::prelude::*;

use crate::{chain, load_with};

/// Everything that can be printed of a result.
fn printed(result: &Result<Loaded, ConfigError>) -> String {
    match result {
        Ok(loaded) => {
            let settings: Vec<String> = loaded
                .settings
                .iter()
                .map(|setting| format!("{} = {} # {}", setting.path, setting.value, setting.place))
                .collect();
            format!(
                "{loaded:?}\n{:#?}\n{}\n{:?}",
                loaded.config,
                settings.join("\n"),
                loaded.warnings
            )
        }
        Err(error) => format!("{error}\n{error:?}"),
    }
}

/// As TOML writes it between quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Text that occurs in no message by chance.
fn secret() -> impl Strategy<Value = String> {
    "[ -~]{4,20}".prop_map(|tail| format!("zQ9{tail}9Qz"))
}

proptest! {
    #[test]
    fn secrets_stay_hidden(secret in secret(), way in 0_usize..8, broken in 0_usize..4, allow in any::<bool>()) {
        // The password of a URL must not end its own part of it.
        let for_url: String = secret.chars().map(|c| if "@/?#%: \"\\$".contains(c) { 'x' } else { c }).collect();
        let user = "rpc_user = \"bob\"";
        let url = "rpc_url = \"http://h:1\"";
        let (keys, environment, overrides) = match way {
            0 => (format!("{url}\n{user}\nrpc_password = {}", quoted(&secret)), vec![], vec![]),
            1 => (format!("{url}\n{user}\nrpc_password = \"${{PW}}\""), vec![("PW", secret.as_str())], vec![]),
            2 => (format!("{url}\n{user}"), vec![("CAIRN_CHAIN__0__RPC_PASSWORD", secret.as_str())], vec![]),
            3 => (format!("{url}\n{user}"), vec![], vec![("chain.a.rpc_password", secret.as_str())]),
            4 => (format!("rpc_url = \"http://bob:{for_url}@h:1\""), vec![], vec![]),
            5 => ("rpc_url = \"http://bob:${PW}@h:1\"".to_owned(), vec![("PW", for_url.as_str())], vec![]),
            6 => ("rpc_url = \"ftp://bob:${PW}@h:1\"".to_owned(), vec![("PW", for_url.as_str())], vec![]),
            _ => ("rpc_url = \"http://bob:${PW}@h:99999 9\"".to_owned(), vec![("PW", for_url.as_str())], vec![]),
        };
        let broken = match broken {
            0 => "",
            1 => "\nthreads = -1",
            2 => "\nrpc_cookie_file = \"/c\"\nrpc_pasword = 1",
            _ => "\nlight_mode = = true",
        };
        let text = format!("allow_inline_secrets = {allow}\n{}", chain(&format!("{keys}{broken}")));
        let output = printed(&load_with(&text, &environment, &overrides));
        prop_assert!(!output.contains(&secret), "{output}");
        prop_assert!(!output.contains(&for_url), "{output}");
        prop_assert!(!output.contains("zQ9"), "{output}");
    }

    /// Whatever the text, loading it ends with a value or with problems.
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*", value in "\\PC*") {
        let _ = load_with(&text, &[("CAIRN_CHAIN__0__ID", &value)], &[(&text, &value), ("chain.0.rpc_url", &value)]);
        let _ = load_with(&chain(&format!("rpc_url = {}", quoted(&value))), &[], &[]);
    }
}
