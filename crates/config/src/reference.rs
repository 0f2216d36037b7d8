//! The example file and the manual page, made from the table of keys.

use std::fmt::Write as _;

use crate::keys::{Example, KEYS, Key, Scope, Section};

/// Width at which comments are broken.
const COMMENT_WIDTH: usize = 116;

const EXAMPLE_HEAD: &str = "\
The whole configuration of Cairn with its defaults. Keys that are left out have them.

Used with `cairn start --config FILE`; without --config, cairn.toml in the working directory is read if it exists.
Precedence: command line > environment > this file > defaults. The environment's names are CAIRN_ + the path in upper
case with two underscores between its parts: CAIRN_HTTP__LISTEN, CAIRN_CHAIN__0__RPC_URL.
\"${NAME}\" in a string stands for an environment variable. Secrets are given that way or by a key ending in _file.
`cairn check-config` checks the file and shows where each value comes from.";

/// The text of `cairn.example.toml`.
pub fn example_file() -> String {
    let mut out = String::new();
    for line in EXAMPLE_HEAD.lines() {
        push_line(&mut out, format!("# {line}").trim_end());
    }
    for section in Section::ALL {
        for scope in scopes(section) {
            out.push('\n');
            if !section.header().is_empty() {
                push_line(&mut out, &format!("# {}", section_doc(section, scope)));
                push_line(&mut out, section.header());
            }
            for key in keys_of(section, scope) {
                push_comment(&mut out, key.doc);
                push_line(&mut out, &example_line(key, scope));
            }
        }
    }
    out
}

/// The kinds of chains that a section is written out for, one after the other.
fn scopes(section: Section) -> &'static [Scope] {
    match section {
        Section::Chain => &[Scope::Utxo, Scope::Liquid, Scope::Antelope],
        _ => &[Scope::Every],
    }
}

fn keys_of(section: Section, scope: &Scope) -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
        .filter(move |key| key.section == section && scope.has_keys_of(key.scope))
}

fn section_doc(section: Section, scope: &Scope) -> String {
    match scope.kind() {
        None => section.doc().to_owned(),
        Some(kind) => format!("A chain of kind \"{kind}\". {}", section.doc()),
    }
}

/// What the example says of keys whose value depends on the kind.
fn example_value(key: &Key, scope: &Scope) -> Option<&'static str> {
    match (key.section, key.name, scope) {
        (Section::Chain, "id", Scope::Liquid) => Some("\"liquid\""),
        (Section::Chain, "kind", Scope::Liquid) => Some("\"liquid\""),
        (Section::Chain, "network", Scope::Liquid) => Some("\"liquid\""),
        (Section::Chain, "rpc_url", Scope::Liquid) => Some("\"http://127.0.0.1:7041\""),
        (Section::Chain, "electrum_listen", Scope::Liquid) => Some("[\"127.0.0.1:51001\"]"),
        (Section::Chain, "id", Scope::Antelope) => Some("\"eos-mainnet\""),
        (Section::Chain, "kind", Scope::Antelope) => Some("\"antelope\""),
        _ => None,
    }
}

fn example_line(key: &Key, scope: &Scope) -> String {
    let name = key.name;
    if let Some(value) = example_value(key, scope) {
        return format!("{name} = {value}");
    }
    match key.example {
        Example::Default => format!("{name} = {}", key.default.unwrap_or("\"\"")),
        Example::Value(value) => format!("{name} = {value}"),
        Example::Commented(value) => format!("# {name} = {value}"),
    }
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn push_comment(out: &mut String, text: &str) {
    let mut line = "#".to_owned();
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > COMMENT_WIDTH {
            push_line(out, &line);
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    push_line(out, &line);
}

const MANUAL_HEAD: &str = "\
# Configuration

One TOML file, given with `--config FILE`; without it `cairn.toml` in the working directory is read if it exists.
[`cairn.example.toml`](../cairn.example.toml) is the whole configuration with its defaults, ready to be edited. This
page and that file are made from the same table in the code, and a test compares them.

## Where values come from

From the strongest to the weakest:

1. the command line: `--set http.listen=0.0.0.0:3000`, `--set chain.0.rpc_url=…`, `--set chain.bitcoin-main.rpc_url=…`
   (a chain by its number in the file, from 0, or by its id), and the shorthands `--data-dir` and `--listen`;
2. the environment: `CAIRN_` + the path in upper case with two underscores between its parts. A chain is named by its
   number or by its id with `_` for `-` and `.`: `CAIRN_CHAIN__0__RPC_URL`, `CAIRN_CHAIN__BITCOIN_MAIN__RPC_URL`. The
   number after the last one makes a new chain. Lists are separated by commas;
3. the file;
4. the defaults below.

`cairn check-config` lists every value in force with the place it comes from, and all problems at once, each with its
path and line. A key that is not in this page is an error that names the nearest one that is. Exit codes: 0 valid,
1 invalid, 2 a secret is written out. `--json` gives the same for programs.

## Secrets

A string in the file may contain `${NAME}`, which stands for an environment variable; an unset variable is an error.
`$${` is a literal `${`. A password that is written out in the file or on the command line is refused, the one inside
a URL too, unless `allow_inline_secrets = true`; use `${NAME}`, a variable, or the key that ends in `_file`. Nothing that
Cairn prints contains a secret.
";

/// The text of `docs/configuration.md`.
pub fn manual() -> String {
    let mut out = MANUAL_HEAD.to_owned();
    for section in Section::ALL {
        for scope in scopes(section) {
            let title = match (section, scope.kind()) {
                (Section::Root, _) => "Before the first section".to_owned(),
                (section, None) => format!("`{}`", section.header()),
                (section, Some(kind)) => format!("`{}` of kind `{kind}`", section.header()),
            };
            let _ = write!(out, "\n## {title}\n\n");
            if !section.doc().is_empty() {
                let _ = write!(out, "{}\n\n", section.doc());
            }
            out.push_str("| key | type | default | what it does |\n| --- | --- | --- | --- |\n");
            for key in keys_of(section, scope) {
                let default = key
                    .default
                    .map_or("required".to_owned(), |default| format!("`{default}`"));
                let doc = key.doc.replace('|', "\\|");
                let _ = writeln!(
                    out,
                    "| `{}` | {} | {default} | {doc} |",
                    key.name,
                    key.kind.describe()
                );
            }
        }
    }
    out
}
