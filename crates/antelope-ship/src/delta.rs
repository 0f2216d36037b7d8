//! Rows that a block changed.

use cairn_antelope_abi::{DecodeError, Name, Reader, Reason};

use crate::layout::{Layouts, Plan, ProtocolError, choose};
use crate::protocol::Protocol;

/// The rows of one table that a block changed. Borrows from the message.
#[derive(Clone, Debug)]
pub struct TableDelta<'a> {
    /// The table: `contract_row` for rows of contracts, others for the chain's own tables.
    pub name: &'a str,
    /// Its rows, in no useful order.
    pub rows: Vec<DeltaRow<'a>>,
}

/// One row: its state after the block, or its last state when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaRow<'a> {
    /// Whether the row is there after the block.
    pub present: bool,
    /// The packed row, a variant.
    pub data: &'a [u8],
}

/// A row of a contract's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractRow<'a> {
    /// The contract.
    pub code: Name,
    /// The scope.
    pub scope: Name,
    /// The table.
    pub table: Name,
    /// The primary key.
    pub primary_key: u64,
    /// Who pays for it.
    pub payer: Name,
    /// The row as the contract packed it.
    pub value: &'a [u8],
}

/// What matters here of a row of `account`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRow<'a> {
    /// The account.
    pub name: Name,
    /// Its ABI; empty when it has none.
    pub abi: &'a [u8],
}

pub(crate) struct DeltaLayout {
    deltas: Vec<Plan<DeltaField>>,
    row: Plan<RowField>,
    contract_rows: Vec<Plan<ContractField>>,
    accounts: Vec<Plan<AccountField>>,
}

#[derive(Clone, Copy)]
enum DeltaField {
    Name,
    Rows,
}

#[derive(Clone, Copy)]
enum RowField {
    Present,
    Data,
}

#[derive(Clone, Copy)]
enum ContractField {
    Code,
    Scope,
    Table,
    PrimaryKey,
    Payer,
    Value,
}

#[derive(Clone, Copy)]
enum AccountField {
    Name,
    Abi,
}

const DELTA_BYTES_MIN: usize = 3;
const ROW_BYTES_MIN: usize = 2;

impl DeltaLayout {
    pub(crate) fn new(layouts: &Layouts<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            deltas: layouts.plans(
                "table_delta",
                &[
                    ("name", "string", DeltaField::Name),
                    ("rows", "row[]", DeltaField::Rows),
                ],
                &[],
            )?,
            row: layouts.plan(
                "row",
                &[
                    ("present", "bool", RowField::Present),
                    // EOSIO 2.1: 0 removed, 1 changed, 2 created.
                    ("present", "uint8", RowField::Present),
                    ("data", "bytes", RowField::Data),
                ],
                &[],
            )?,
            contract_rows: layouts.plans(
                "contract_row",
                &[
                    ("code", "name", ContractField::Code),
                    ("scope", "name", ContractField::Scope),
                    ("table", "name", ContractField::Table),
                    ("primary_key", "uint64", ContractField::PrimaryKey),
                    ("payer", "name", ContractField::Payer),
                    ("value", "bytes", ContractField::Value),
                ],
                &[],
            )?,
            accounts: layouts.plans(
                "account",
                &[
                    ("name", "name", AccountField::Name),
                    ("abi", "bytes", AccountField::Abi),
                ],
                &[],
            )?,
        })
    }
}

impl Protocol {
    /// Reads the changed rows of a block, table by table in the order of the wire.
    ///
    /// # Errors
    /// When the bytes do not fit the protocol.
    pub fn read_deltas<'a>(&self, bytes: &'a [u8]) -> Result<Vec<TableDelta<'a>>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let count = reader.count(DELTA_BYTES_MIN)?;
        (0..count).map(|_| self.delta(&mut reader)).collect()
    }

    fn delta<'a>(&self, reader: &mut Reader<'a>) -> Result<TableDelta<'a>, DecodeError> {
        let plan = choose(&self.deltas.deltas, reader)?;
        let mut delta = TableDelta {
            name: "",
            rows: Vec::new(),
        };
        plan.read(&self.abi, reader, |field, r| {
            match field {
                DeltaField::Name => {
                    delta.name = std::str::from_utf8(r.bytes()?).map_err(|_| {
                        r.error(Reason::Type("the name of a table is not UTF-8".to_owned()))
                    })?;
                }
                DeltaField::Rows => {
                    let count = r.count(ROW_BYTES_MIN)?;
                    delta.rows = (0..count).map(|_| self.row(r)).collect::<Result<_, _>>()?;
                }
            }
            Ok(())
        })?;
        Ok(delta)
    }

    fn row<'a>(&self, reader: &mut Reader<'a>) -> Result<DeltaRow<'a>, DecodeError> {
        let mut row = DeltaRow {
            present: false,
            data: &[],
        };
        self.deltas.row.read(&self.abi, reader, |field, r| {
            match field {
                RowField::Present => row.present = r.bool()?,
                RowField::Data => row.data = r.bytes()?,
            }
            Ok(())
        })?;
        Ok(row)
    }

    /// Reads the data of a row of `contract_row`.
    ///
    /// # Errors
    /// When the bytes do not fit the protocol.
    pub fn read_contract_row<'a>(&self, data: &'a [u8]) -> Result<ContractRow<'a>, DecodeError> {
        let mut reader = Reader::new(data);
        let plan = choose(&self.deltas.contract_rows, &mut reader)?;
        let mut row = ContractRow {
            code: Name(0),
            scope: Name(0),
            table: Name(0),
            primary_key: 0,
            payer: Name(0),
            value: &[],
        };
        plan.read(&self.abi, &mut reader, |field, r| {
            match field {
                ContractField::Code => row.code = r.name()?,
                ContractField::Scope => row.scope = r.name()?,
                ContractField::Table => row.table = r.name()?,
                ContractField::PrimaryKey => row.primary_key = r.u64()?,
                ContractField::Payer => row.payer = r.name()?,
                ContractField::Value => row.value = r.bytes()?,
            }
            Ok(())
        })?;
        Ok(row)
    }

    /// Reads the data of a row of `account`.
    ///
    /// # Errors
    /// When the bytes do not fit the protocol.
    pub fn read_account<'a>(&self, data: &'a [u8]) -> Result<AccountRow<'a>, DecodeError> {
        let mut reader = Reader::new(data);
        let plan = choose(&self.deltas.accounts, &mut reader)?;
        let mut row = AccountRow {
            name: Name(0),
            abi: &[],
        };
        plan.read(&self.abi, &mut reader, |field, r| {
            match field {
                AccountField::Name => row.name = r.name()?,
                AccountField::Abi => row.abi = r.bytes()?,
            }
            Ok(())
        })?;
        Ok(row)
    }
}
