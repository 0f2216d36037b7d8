//! What issuers say about their assets: names, tickers, precisions. Somebody else's words, shown as they are.
//!
//! A folder with subfolders named by the first two digits of the asset id, each with `<asset id>.json`; or one JSON object
//! that has such an object for each asset id (the form in which public registries publish all at once). A file that cannot be
//! read is left out and told of; the others stay.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use cairn_utxo_chain::AssetId;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Largest file of one asset, bytes: a contract is some hundred.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Most assets of a registry.
const ASSETS_MAX: usize = 200_000;
/// Most digits after the point.
const PRECISION_MAX: u8 = 8;

/// What a registry says of one asset.
#[derive(Debug, Clone, Deserialize)]
pub struct RegisteredAsset {
    /// The contract, whose hash is part of the issuance; as it stands.
    pub contract: Box<RawValue>,
    /// Who vouches for it: a domain; as it stands.
    pub entity: Box<RawValue>,
    /// Digits after the point.
    #[serde(default)]
    pub precision: u8,
    /// Its name.
    pub name: String,
    /// Its ticker.
    #[serde(default)]
    pub ticker: Option<String>,
}

/// The entity, as far as it is understood.
#[derive(Deserialize)]
struct Entity {
    #[serde(default)]
    domain: Option<String>,
}

impl RegisteredAsset {
    /// The domain that vouches for it.
    pub fn domain(&self) -> Option<String> {
        serde_json::from_str::<Entity>(self.entity.get())
            .ok()?
            .domain
    }

    fn check(self) -> Result<Self, String> {
        if self.precision > PRECISION_MAX {
            return Err(format!(
                "precision {} is more than {PRECISION_MAX}",
                self.precision
            ));
        }
        Ok(self)
    }
}

/// Assets by id, at one moment.
type Assets = BTreeMap<AssetId, Arc<RegisteredAsset>>;

/// A registry that readers share and a reloader replaces. Empty until something is loaded.
#[derive(Debug, Clone, Default)]
pub struct AssetRegistry(Arc<RwLock<Arc<Assets>>>);

impl AssetRegistry {
    /// What is said of an asset.
    pub fn get(&self, asset: &AssetId) -> Option<Arc<RegisteredAsset>> {
        self.assets().get(asset).cloned()
    }

    /// Number of assets.
    pub fn len(&self) -> usize {
        self.assets().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn assets(&self) -> Arc<Assets> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, assets: Assets) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(assets);
    }

    /// Takes over one JSON object with all assets. Entries that make no sense are left out; their number is given back.
    ///
    /// # Errors
    /// A sentence if the text is no such object; then everything stays as it was.
    pub fn load_index(&self, json: &[u8]) -> Result<usize, String> {
        let entries: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(json)
            .map_err(|error| format!("not an object of assets: {error}"))?;
        let mut assets = Assets::new();
        let mut left_out = 0;
        for (id, entry) in entries.iter().take(ASSETS_MAX) {
            let asset = serde_json::from_str::<RegisteredAsset>(entry.get())
                .map_err(|error| error.to_string())
                .and_then(RegisteredAsset::check);
            match (id.parse::<AssetId>(), asset) {
                (Ok(id), Ok(asset)) => {
                    assets.insert(id, Arc::new(asset));
                }
                _ => left_out += 1,
            }
        }
        self.replace(assets);
        Ok(left_out)
    }
}

/// Reads a folder again and again, each time only what changed.
#[derive(Debug, Default)]
pub struct RegistryFolder {
    seen: BTreeMap<AssetId, (Option<SystemTime>, Option<Arc<RegisteredAsset>>)>,
}

impl RegistryFolder {
    /// Brings a registry to what the folder holds now.
    ///
    /// # Errors
    /// A sentence if the folder itself cannot be listed; then everything stays as it was.
    pub fn reload(&mut self, folder: &Path, registry: &AssetRegistry) -> Result<(), String> {
        let listed = |path: &Path| {
            fs::read_dir(path).map_err(|error| format!("cannot list {}: {error}", path.display()))
        };
        let mut now = BTreeMap::new();
        for sub in listed(folder)?.filter_map(Result::ok) {
            let name = sub.file_name();
            let is_prefix = name.len() == 2 && sub.path().is_dir();
            if !is_prefix {
                continue;
            }
            for file in listed(&sub.path())?.filter_map(Result::ok) {
                let path = file.path();
                let id = path.file_stem().and_then(|stem| stem.to_str());
                let Some(id) = id.and_then(|id| id.parse::<AssetId>().ok()) else {
                    continue;
                };
                let is_json = path.extension().is_some_and(|end| end == "json");
                if !is_json || now.len() == ASSETS_MAX {
                    continue;
                }
                let modified = file.metadata().and_then(|meta| meta.modified()).ok();
                let entry = match self.seen.get(&id) {
                    Some((before, entry)) if modified.is_some() && *before == modified => {
                        entry.clone()
                    }
                    _ => read(&path)
                        .inspect_err(|why| {
                            tracing::warn!(file = %path.display(), why, "an asset of the registry is left out");
                        })
                        .ok()
                        .map(Arc::new),
                };
                now.insert(id, (modified, entry));
            }
        }
        let entries = now
            .iter()
            .filter_map(|(id, (_, entry))| Some((*id, entry.clone()?)));
        registry.replace(entries.collect());
        self.seen = now;
        Ok(())
    }
}

fn read(path: &Path) -> Result<RegisteredAsset, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("{length} bytes are more than {FILE_BYTES_MAX}"));
    }
    let text = fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice::<RegisteredAsset>(&text)
        .map_err(|error| error.to_string())?
        .check()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8eebf6109bca0331fe559f0cbd1ef846a2bbb6812f3ae3d8b0b610170cc21a4e";
    const OTHER: &str = "dcd60818d863b5c026c40b2bc3ba6fdaf5018bcc8606c18adf7db4da0bcd8533";
    const ENTRY: &str = r#"{"contract":{"name":"Example"},"entity":{"domain":"example.org"},"precision":8,"name":"Example","ticker":"EXMP"}"#;

    fn id(text: &str) -> AssetId {
        text.parse().expect("an asset id")
    }

    #[test]
    fn a_folder_is_read_again_when_it_changes() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |id: &str| dir.path().join(&id[..2]).join(format!("{id}.json"));
        let (registry, mut folder) = (AssetRegistry::default(), RegistryFolder::default());
        for id in [ID, OTHER] {
            fs::create_dir_all(file(id).parent().expect("a folder")).expect("created");
            fs::write(file(id), ENTRY).expect("written");
        }
        fs::write(dir.path().join("README"), "no asset").expect("written");
        folder.reload(dir.path(), &registry).expect("readable");
        assert_eq!(registry.len(), 2);
        let asset = registry.get(&id(ID)).expect("registered");
        assert_eq!((asset.name.as_str(), asset.precision), ("Example", 8));
        assert_eq!(asset.domain().as_deref(), Some("example.org"));
        assert_eq!(asset.contract.get(), r#"{"name":"Example"}"#);
        // A file that breaks is left out, one that goes disappears, and the other ones stay.
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        fs::write(file(OTHER), "{").expect("written");
        fs::File::options()
            .write(true)
            .open(file(OTHER))
            .and_then(|file| file.set_modified(later))
            .expect("touched");
        folder.reload(dir.path(), &registry).expect("readable");
        assert!(registry.get(&id(OTHER)).is_none() && registry.len() == 1);
        fs::remove_file(file(ID)).expect("removed");
        folder.reload(dir.path(), &registry).expect("readable");
        assert!(registry.is_empty());
        let gone = dir.path().join("nowhere");
        let error = folder.reload(&gone, &registry).expect_err("there is none");
        assert!(error.contains("nowhere"), "{error}");
    }

    #[test]
    fn an_index_is_one_object_and_bad_entries_are_counted() {
        let registry = AssetRegistry::default();
        let high = ENTRY.replace(":8,", ":9,");
        let json = format!(r#"{{"{ID}":{ENTRY},"{OTHER}":{high},"x":{ENTRY}}}"#);
        assert_eq!(registry.load_index(json.as_bytes()), Ok(2));
        assert_eq!(registry.len(), 1);
        registry.load_index(b"[]").expect_err("not an object");
        assert_eq!(registry.len(), 1, "what was there stays");
    }
}
