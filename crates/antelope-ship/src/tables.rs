//! The chain's own tables: their rows as JSON, and their natural keys as text.

use std::collections::HashMap;

use cairn_antelope_abi::{DecodeError, Decoded, Profile, Reader, Reason, TypeId, json};

use crate::layout::{Layouts, ProtocolError, choose};
use crate::protocol::Protocol;

/// Key fields of the tables that every version has. Tables not named here take theirs from the ABI.
const KEYS: [(&str, &[&str]); 16] = [
    ("account", &["name"]),
    ("account_metadata", &["name"]),
    // The true key has the virtual machine's type and version too; no chain has ever had a second one.
    ("code", &["code_hash"]),
    ("contract_table", &["code", "scope", "table"]),
    (
        "contract_index64",
        &["code", "scope", "table", "primary_key"],
    ),
    (
        "contract_index128",
        &["code", "scope", "table", "primary_key"],
    ),
    (
        "contract_index256",
        &["code", "scope", "table", "primary_key"],
    ),
    (
        "contract_index_double",
        &["code", "scope", "table", "primary_key"],
    ),
    (
        "contract_index_long_double",
        &["code", "scope", "table", "primary_key"],
    ),
    ("generated_transaction", &["sender", "sender_id"]),
    ("permission", &["owner", "name"]),
    ("permission_link", &["account", "code", "message_type"]),
    ("resource_limits", &["owner"]),
    ("resource_usage", &["owner"]),
    ("key_value", &["database", "contract", "key"]),
    ("contract_row", &["code", "scope", "table", "primary_key"]),
];

/// One table: how each version of its rows is read.
pub(crate) struct NativeTable {
    versions: Vec<Version>,
}

struct Version {
    ty: TypeId,
    /// Fields up to the last one of the key, in the order of the wire.
    steps: Vec<(TypeId, Option<(usize, KeyKind)>)>,
    key_fields: usize,
}

#[derive(Clone, Copy)]
enum KeyKind {
    Name,
    Number { bytes: usize },
    Text,
    Hex,
}

impl NativeTable {
    pub(crate) fn all(layouts: &Layouts<'_>) -> Result<HashMap<String, Self>, ProtocolError> {
        layouts
            .def
            .tables
            .iter()
            .map(|table| {
                let known = KEYS.iter().find(|(name, _)| *name == table.name);
                let keys: Vec<&str> = match known {
                    Some((_, keys)) => keys.to_vec(),
                    None => table.key_names.iter().map(String::as_str).collect(),
                };
                Ok((
                    table.name.clone(),
                    Self::new(layouts, &table.r#type, &keys)?,
                ))
            })
            .collect()
    }

    fn new(layouts: &Layouts<'_>, ty: &str, keys: &[&str]) -> Result<Self, ProtocolError> {
        let versions = layouts
            .alternatives(ty)?
            .iter()
            .map(|name| {
                let fields = layouts.fields(name)?;
                // A version without one of the fields (EOSIO 2.1 tables differ) has a shorter key.
                let places: Vec<usize> = keys
                    .iter()
                    .filter_map(|key| fields.iter().position(|f| f.name == *key))
                    .collect();
                let end = places.iter().max().map_or(0, |last| last + 1);
                let steps = fields[..end]
                    .iter()
                    .enumerate()
                    .map(|(at, field)| {
                        let key = places.iter().position(|place| *place == at);
                        Ok((
                            layouts.type_id(&field.r#type)?,
                            key.map(|key| (key, KeyKind::of(&field.r#type))),
                        ))
                    })
                    .collect::<Result<_, ProtocolError>>()?;
                Ok(Version {
                    ty: layouts.type_id(name)?,
                    steps,
                    key_fields: places.len(),
                })
            })
            .collect::<Result<_, ProtocolError>>()?;
        Ok(Self { versions })
    }
}

impl KeyKind {
    fn of(ty: &str) -> Self {
        match ty {
            "name" => Self::Name,
            "uint8" => Self::Number { bytes: 1 },
            "uint16" => Self::Number { bytes: 2 },
            "uint32" => Self::Number { bytes: 4 },
            "uint64" => Self::Number { bytes: 8 },
            "uint128" => Self::Number { bytes: 16 },
            "string" => Self::Text,
            _ => Self::Hex,
        }
    }

    fn write(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut reader = Reader::new(bytes);
        match self {
            Self::Name => reader.name()?.write_to(out),
            Self::Number { bytes: width } => {
                let value = reader
                    .take(width)?
                    .iter()
                    .rev()
                    .fold(0u128, |value, byte| value << 8 | u128::from(*byte));
                out.extend_from_slice(value.to_string().as_bytes());
            }
            Self::Text => {
                out.extend_from_slice(String::from_utf8_lossy(reader.bytes()?).as_bytes())
            }
            Self::Hex => json::hex(out, bytes),
        }
        Ok(())
    }
}

impl Protocol {
    /// Whether the protocol describes this table.
    #[must_use]
    pub fn has_table(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The natural key of a row as text: its key fields joined by colons, the table's own name where there is one row only.
    ///
    /// # Errors
    /// When the table is unknown or the bytes do not fit it.
    pub fn native_key(&self, table: &str, data: &[u8]) -> Result<String, DecodeError> {
        let mut reader = Reader::new(data);
        let found = self.native_table(table, &reader)?;
        let version = choose(&found.versions, &mut reader)?;
        if version.key_fields == 0 {
            return Ok(table.to_owned());
        }
        let mut parts = vec![Vec::new(); version.key_fields];
        for (ty, key) in &version.steps {
            let start = reader.position();
            self.abi.skip(*ty, &mut reader)?;
            if let Some((place, kind)) = key {
                kind.write(reader.since(start), &mut parts[*place])?;
            }
        }
        Ok(String::from_utf8_lossy(&parts.join(&b':')).into_owned())
    }

    /// Appends a row as a JSON object, without the variant around it.
    ///
    /// # Errors
    /// When the table is unknown or the bytes do not fit it.
    pub fn native_json(
        &self,
        table: &str,
        data: &[u8],
        profile: Profile,
        out: &mut Vec<u8>,
    ) -> Result<Decoded, DecodeError> {
        let mut reader = Reader::new(data);
        let found = self.native_table(table, &reader)?;
        let version = choose(&found.versions, &mut reader)?;
        let start = reader.position();
        self.abi.decode(
            version.ty,
            data.get(start..).unwrap_or_default(),
            profile,
            out,
        )
    }

    fn native_table(&self, table: &str, reader: &Reader<'_>) -> Result<&NativeTable, DecodeError> {
        self.tables.get(table).ok_or_else(|| {
            let shown: String = table.chars().take(64).collect();
            reader.error(Reason::Type(format!("the protocol has no table {shown:?}")))
        })
    }
}
