//! The `V` rows: written when an index is made, compared whenever it is opened.

use crate::engine::{Durability, Family, Store, Stores};
use crate::index::{IndexConfig, IndexError};
use crate::rows::{CACHE_VERSION, Db, Features, LAYOUT_VERSION, RowKind, VERSION_KEY, Version};

/// The version row that this program writes for an index of this configuration.
fn row(db: Db, config: &IndexConfig) -> Version {
    Version {
        layout: if db == Db::Cache {
            CACHE_VERSION
        } else {
            LAYOUT_VERSION
        },
        features: config.features(),
        genesis: config.network.genesis_hash(),
    }
}

/// Compares the version rows with the configuration; writes them into new databases.
///
/// A `cache` of another version is emptied: it can be computed again. For the other two a difference is an error that
/// names both sides.
pub(crate) fn check(stores: &Stores, config: &IndexConfig) -> Result<(), IndexError> {
    for db in Db::ALL {
        let store = stores.of(db);
        let wanted = row(db, config);
        let found = store
            .get(family(db), &VERSION_KEY)?
            .map(|value| Version::decode(&value))
            .transpose()?;
        match found {
            Some(found) if found == wanted => {}
            Some(found) if db == Db::Cache => {
                tracing::info!(
                    found = found.layout,
                    wanted = wanted.layout,
                    "the cache was made by another version or for another index: emptying it"
                );
                store.clear(&VERSION_KEY, &wanted.encode())?;
            }
            Some(found) => return Err(mismatch(store, &found, &wanted, config)),
            None if db != Db::Cache && store.has_rows()? => {
                return Err(IndexError::Mismatch(format!(
                    "{} holds rows but no version row: it is not an index of this program; configure another folder, \
                     or delete it to build the index anew",
                    store.path().display()
                )));
            }
            None => write(store, &wanted)?,
        }
    }
    Ok(())
}

/// Empties the databases, if they hold anything, but for their version rows.
pub(crate) fn discard_rows(stores: &Stores, config: &IndexConfig) -> Result<(), IndexError> {
    if !stores.has_rows()? {
        return Ok(());
    }
    tracing::info!("the first load was interrupted where it cannot go on: starting it again");
    for db in Db::ALL {
        stores
            .of(db)
            .clear(&VERSION_KEY, &row(db, config).encode())?;
    }
    Ok(())
}

fn family(db: Db) -> Family {
    Family::of(match db {
        Db::Txstore => RowKind::TxstoreVersion,
        Db::History => RowKind::HistoryVersion,
        Db::Cache => RowKind::CacheVersion,
    })
}

fn write(store: &Store, version: &Version) -> Result<(), IndexError> {
    let mut batch = store.batch();
    batch.put(family(store.kind()), &VERSION_KEY, &version.encode());
    Ok(store.write(batch, Durability::Synced)?)
}

fn mismatch(store: &Store, found: &Version, wanted: &Version, config: &IndexConfig) -> IndexError {
    let place = store.path().display();
    let text = if found.genesis != wanted.genesis {
        format!(
            "the index in {place} is of the chain with genesis block {}, but the configuration says {} (genesis block \
             {}); configure the matching network or another folder",
            found.genesis, config.network, wanted.genesis
        )
    } else if found.layout != wanted.layout {
        format!(
            "the index in {place} has layout {}, this program reads and writes layout {}; use the program that made \
             it, or delete the folder to build the index anew",
            found.layout, wanted.layout
        )
    } else {
        format!(
            "the index in {place} was made with {}, but the configuration says {}; these options are fixed when an index \
             is made: change the configuration back, or delete the folder to build the index anew",
            describe(found.features),
            describe(wanted.features)
        )
    };
    IndexError::Mismatch(text)
}

fn describe(features: Features) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    format!(
        "light mode {}, address search {}, index unspendables {}, Elements {}",
        word(features.light_mode),
        word(features.address_search),
        word(features.index_unspendables),
        word(features.elements)
    )
}
