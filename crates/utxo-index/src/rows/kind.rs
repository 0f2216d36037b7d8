//! Which rows there are and in which database each lives.

use std::fmt;

/// One of the three databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Db {
    /// Blocks, transactions, outputs: the chain itself.
    Txstore,
    /// What happened to each script, and who spends each output.
    History,
    /// Results worth keeping; may be deleted at any time.
    Cache,
}

impl Db {
    /// All databases.
    pub const ALL: [Db; 3] = [Db::Txstore, Db::History, Db::Cache];

    /// The name of its folder and the name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Db::Txstore => "txstore",
            Db::History => "history",
            Db::Cache => "cache",
        }
    }
}

impl fmt::Display for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Db {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Db::ALL
            .into_iter()
            .find(|db| db.name() == name)
            .ok_or_else(|| format!("no database {name:?}: there are txstore, history and cache"))
    }
}

/// A kind of row: a database and a tag byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowKind {
    /// `B` blockhash → header.
    Header,
    /// `X` blockhash → txids.
    Txids,
    /// `M` blockhash → weight, size, tx count.
    Meta,
    /// `D` blockhash in `txstore`: phase 1 done.
    Added,
    /// `T` txid → transaction.
    Tx,
    /// `C` txid blockhash.
    Confirmed,
    /// `O` txid vout → script, value.
    Output,
    /// `t` → tip.
    Tip,
    /// `V` in `txstore`.
    TxstoreVersion,
    /// `F` in `txstore`: bulk load finished.
    TxstoreLoaded,
    /// `H…F` and `H…S`.
    History,
    /// `S` outpoint spender.
    Edge,
    /// `a` address.
    Address,
    /// `D` blockhash in `history`: phase 2 done.
    Indexed,
    /// `V` in `history`.
    HistoryVersion,
    /// `F` in `history`: bulk load finished.
    HistoryLoaded,
    /// `A` scripthash → statistics.
    Stats,
    /// `U` scripthash → unspent outputs.
    Utxos,
    /// `i` asset → where it was issued (Elements).
    Issued,
    /// `I…` (Elements).
    Asset,
    /// `J` asset, height, transaction (Elements).
    Supply,
    /// `z` asset → statistics (Elements).
    AssetStats,
    /// `V` in `cache`.
    CacheVersion,
}

impl RowKind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [RowKind; 23] = [
        RowKind::Header,
        RowKind::Txids,
        RowKind::Meta,
        RowKind::Added,
        RowKind::Tx,
        RowKind::Confirmed,
        RowKind::Output,
        RowKind::Tip,
        RowKind::TxstoreVersion,
        RowKind::TxstoreLoaded,
        RowKind::History,
        RowKind::Edge,
        RowKind::Address,
        RowKind::Indexed,
        RowKind::HistoryVersion,
        RowKind::HistoryLoaded,
        RowKind::Stats,
        RowKind::Utxos,
        RowKind::Issued,
        RowKind::Asset,
        RowKind::Supply,
        RowKind::AssetStats,
        RowKind::CacheVersion,
    ];

    /// The database it lives in.
    pub const fn db(self) -> Db {
        use RowKind::*;
        match self {
            Header | Txids | Meta | Added | Tx | Confirmed | Output | Tip | TxstoreVersion
            | TxstoreLoaded => Db::Txstore,
            History | Edge | Address | Issued | Asset | Supply | Indexed | HistoryVersion
            | HistoryLoaded => Db::History,
            Stats | Utxos | AssetStats | CacheVersion => Db::Cache,
        }
    }

    /// The first byte of its keys.
    pub const fn tag(self) -> u8 {
        use RowKind::*;
        match self {
            Header => b'B',
            Txids => b'X',
            Meta => b'M',
            Added | Indexed => b'D',
            Tx => b'T',
            Confirmed => b'C',
            Output => b'O',
            Tip => b't',
            TxstoreVersion | HistoryVersion | CacheVersion => b'V',
            TxstoreLoaded | HistoryLoaded => b'F',
            History => b'H',
            Edge => b'S',
            Address => b'a',
            Stats => b'A',
            Utxos => b'U',
            Issued => b'i',
            Asset => b'I',
            Supply => b'J',
            AssetStats => b'z',
        }
    }

    /// The kind of a key that begins with `tag` in `db`; `None` for a letter that database does not have.
    pub fn of(db: Db, tag: u8) -> Option<RowKind> {
        RowKind::ALL
            .into_iter()
            .find(|kind| kind.db() == db && kind.tag() == tag)
    }
}
