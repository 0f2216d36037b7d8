//! The definition of an ABI, as it is written: binary (what `setabi` carries) and JSON.
//!
//! Only what decoding needs is kept. Ricardian texts, error messages and extensions are read over.

use serde::Deserialize;

use crate::error::{AbiError, DecodeError};
use crate::reader::Reader;

/// The largest ABI that is looked at, in bytes. A transaction that brings one to a chain is far smaller.
pub const ABI_BYTES_MAX: usize = 8 * 1024 * 1024;

const VERSION_PREFIX: &str = "eosio::abi/1.";

/// An ABI as written, with type names not resolved yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AbiDef {
    /// `eosio::abi/1.x`.
    pub version: String,
    /// Other names of types.
    #[serde(default)]
    pub types: Vec<TypeDef>,
    /// Structures.
    #[serde(default)]
    pub structs: Vec<StructDef>,
    /// Which type the data of an action has.
    #[serde(default)]
    pub actions: Vec<ActionDef>,
    /// Which type the rows of a table have.
    #[serde(default)]
    pub tables: Vec<TableDef>,
    /// Types that hold one of several.
    #[serde(default)]
    pub variants: Vec<VariantDef>,
    /// Which type an action returns.
    #[serde(default)]
    pub action_results: Vec<ActionResultDef>,
}

/// Another name of a type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TypeDef {
    /// The new name.
    pub new_type_name: String,
    /// What it stands for, which may carry `[]`, `?` and `$`.
    pub r#type: String,
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StructDef {
    /// Its name.
    pub name: String,
    /// The structure whose fields come first, or nothing.
    #[serde(default)]
    pub base: String,
    /// Its own fields.
    #[serde(default)]
    pub fields: Vec<FieldDef>,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FieldDef {
    /// Its name, which becomes the key in JSON.
    pub name: String,
    /// Its type.
    pub r#type: String,
}

/// An action and the type of its data.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ActionDef {
    /// The action's name.
    pub name: String,
    /// The type of its data; often called differently.
    pub r#type: String,
}

/// A table and the type of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TableDef {
    /// The table's name.
    pub name: String,
    /// The type of its rows; called differently in nearly every contract.
    pub r#type: String,
    /// The fields that make its key. Contracts leave this empty; the ABI of the State History protocol does not.
    #[serde(default)]
    pub key_names: Vec<String>,
}

/// A type that holds one of several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VariantDef {
    /// Its name.
    pub name: String,
    /// What it can hold, in the order of the indices on the wire.
    pub types: Vec<String>,
}

/// An action and the type of what it returns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ActionResultDef {
    /// The action's name.
    pub name: String,
    /// The type of the returned value.
    pub result_type: String,
}

impl AbiDef {
    /// Reads the binary form. Bytes behind the known parts belong to newer versions and are left alone.
    ///
    /// # Errors
    /// When the bytes end too early, the version is not understood, or the whole is larger than [`ABI_BYTES_MAX`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AbiError> {
        if bytes.len() > ABI_BYTES_MAX {
            return Err(AbiError::TooLarge(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        let version = text(&mut reader).map_err(AbiError::Binary)?;
        check_version(&version)?;
        Self::body(&mut reader, version).map_err(AbiError::Binary)
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// When the text is not such a JSON object, the version is not understood, or the whole is larger than
    /// [`ABI_BYTES_MAX`].
    pub fn from_json(json: &str) -> Result<Self, AbiError> {
        if json.len() > ABI_BYTES_MAX {
            return Err(AbiError::TooLarge(json.len()));
        }
        let def: Self = serde_json::from_str(json).map_err(|e| AbiError::Json(e.to_string()))?;
        check_version(&def.version)?;
        Ok(def)
    }

    fn body(r: &mut Reader<'_>, version: String) -> Result<Self, DecodeError> {
        let types = list(r, 2, |r| {
            Ok(TypeDef {
                new_type_name: text(r)?,
                r#type: text(r)?,
            })
        })?;
        let structs = list(r, 3, |r| {
            Ok(StructDef {
                name: text(r)?,
                base: text(r)?,
                fields: list(r, 2, |r| {
                    Ok(FieldDef {
                        name: text(r)?,
                        r#type: text(r)?,
                    })
                })?,
            })
        })?;
        let actions = list(r, 10, |r| {
            let name = r.name()?.to_string();
            let r#type = text(r)?;
            r.bytes()?;
            Ok(ActionDef { name, r#type })
        })?;
        let tables = list(r, 12, |r| {
            let name = r.name()?.to_string();
            r.bytes()?;
            let key_names = list(r, 1, text)?;
            list(r, 1, |r| r.bytes().map(drop))?;
            Ok(TableDef {
                name,
                r#type: text(r)?,
                key_names,
            })
        })?;
        let mut def = Self {
            version,
            types,
            structs,
            actions,
            tables,
            variants: Vec::new(),
            action_results: Vec::new(),
        };
        // Old writers stop anywhere from here on.
        let ends_here = |r: &Reader<'_>| r.is_empty();
        if ends_here(r) {
            return Ok(def);
        }
        list(r, 2, |r| {
            r.bytes()?;
            r.bytes().map(drop)
        })?;
        if ends_here(r) {
            return Ok(def);
        }
        list(r, 9, |r| {
            r.u64()?;
            r.bytes().map(drop)
        })?;
        if ends_here(r) {
            return Ok(def);
        }
        list(r, 3, |r| {
            r.u16()?;
            r.bytes().map(drop)
        })?;
        if ends_here(r) {
            return Ok(def);
        }
        def.variants = list(r, 2, |r| {
            Ok(VariantDef {
                name: text(r)?,
                types: list(r, 1, text)?,
            })
        })?;
        if ends_here(r) {
            return Ok(def);
        }
        def.action_results = list(r, 9, |r| {
            Ok(ActionResultDef {
                name: r.name()?.to_string(),
                result_type: text(r)?,
            })
        })?;
        Ok(def)
    }
}

fn check_version(version: &str) -> Result<(), AbiError> {
    if version.starts_with(VERSION_PREFIX) {
        Ok(())
    } else {
        Err(AbiError::Version(version.chars().take(64).collect()))
    }
}

fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    Ok(String::from_utf8_lossy(reader.bytes()?).into_owned())
}

fn list<T>(
    reader: &mut Reader<'_>,
    item_bytes_min: usize,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.count(item_bytes_min)?;
    (0..count).map(|_| item(reader)).collect()
}
