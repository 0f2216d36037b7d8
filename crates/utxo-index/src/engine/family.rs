//! Column families: which rows lie together on disk.

use crate::rows::{Db, RowKind};

/// A column family of one of the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    /// `txstore`: `B X M D t V F`.
    Blocks,
    /// `txstore`: `T`.
    Txs,
    /// `txstore`: `C`.
    Confs,
    /// `txstore`: `O`.
    Outs,
    /// `history`: `H`.
    Hist,
    /// `history`: `S`.
    Edges,
    /// `history`: `a`.
    Addrs,
    /// `history`: `i I J` (Elements).
    Assets,
    /// `history`: `D V F`.
    Marks,
    /// `cache`: all rows.
    Cache,
}

impl Family {
    /// All families.
    pub(crate) const ALL: [Family; 10] = [
        Family::Blocks,
        Family::Txs,
        Family::Confs,
        Family::Outs,
        Family::Hist,
        Family::Edges,
        Family::Addrs,
        Family::Assets,
        Family::Marks,
        Family::Cache,
    ];

    /// The database it belongs to.
    pub(crate) const fn db(self) -> Db {
        match self {
            Family::Blocks | Family::Txs | Family::Confs | Family::Outs => Db::Txstore,
            Family::Hist | Family::Edges | Family::Addrs | Family::Assets | Family::Marks => {
                Db::History
            }
            Family::Cache => Db::Cache,
        }
    }

    /// Its name in RocksDB. Every database must have a family `default`; the small bookkeeping family takes that
    /// place, so that none is empty.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Family::Blocks | Family::Marks | Family::Cache => "default",
            Family::Txs => "txs",
            Family::Confs => "conf",
            Family::Outs => "outs",
            Family::Hist => "hist",
            Family::Edges => "edge",
            Family::Addrs => "addr",
            Family::Assets => "asset",
        }
    }

    /// Where rows of a kind live.
    pub(crate) const fn of(kind: RowKind) -> Family {
        use RowKind::*;
        match kind {
            Header | Txids | Meta | Added | Tip | TxstoreVersion | TxstoreLoaded => Family::Blocks,
            Tx => Family::Txs,
            Confirmed => Family::Confs,
            Output => Family::Outs,
            History => Family::Hist,
            Edge => Family::Edges,
            Address => Family::Addrs,
            Issued | Asset | Supply => Family::Assets,
            Indexed | HistoryVersion | HistoryLoaded => Family::Marks,
            Stats | Utxos | AssetStats | CacheVersion => Family::Cache,
        }
    }

    /// The families of a database.
    pub(crate) fn of_db(db: Db) -> impl Iterator<Item = Family> {
        Family::ALL
            .into_iter()
            .filter(move |family| family.db() == db)
    }
}
