//! Bytes to JSON text along a compiled ABI, and past values that nobody wants.

use crate::asset::{Asset, Symbol, SymbolCode};
use crate::compile::{Abi, Builtin, Node, TypeId};
use crate::error::{DecodeError, Reason};
use crate::json;
use crate::keys::{public_key_text, signature_text};
use crate::reader::Reader;
use crate::time::{self, BlockTimestamp, Fraction};

/// How deep values may be nested, as in nodes.
pub const DEPTH_MAX: usize = 32;
/// The text of a decoded value may have this many bytes, plus [`OUTPUT_BYTES_PER_INPUT_BYTE`] for each byte decoded: an
/// array of empty structures expands without end otherwise.
pub const OUTPUT_BYTES_BASE: usize = 64 * 1024;
/// See [`OUTPUT_BYTES_BASE`]. Long field names over small numbers stay well below it.
pub const OUTPUT_BYTES_PER_INPUT_BYTE: usize = 128;

/// How values are printed: the same bytes look different in different programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As `@wharfkit/antelope` prints them, which consumers of the existing streams were written for. Repaired where that
    /// loses information: `float32` in its shortest form, `time_point` with microseconds when there are some, bad UTF-8 as
    /// U+FFFD, a `bool` of any byte but 0 as true.
    #[default]
    Wharfkit,
    /// As the chain API of a node prints them.
    Nodeos,
    /// As programs based on `abieos` print them.
    Abieos,
}

/// What a successful decoding leaves to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes behind the value. Nodes accept them.
    pub trailing: usize,
}

/// The largest whole number that every program prints as a JSON number.
const SMALL_MAX: u64 = 0xffff_ffff;

impl Abi {
    /// Decodes `bytes` as a value of type `ty` and appends its JSON text to `out`, keys in the order of the ABI. On an
    /// error `out` is as before.
    ///
    /// # Errors
    /// When the bytes do not fit the type, the type makes no sense, or a bound is passed.
    pub fn decode(
        &self,
        ty: TypeId,
        bytes: &[u8],
        profile: Profile,
        out: &mut Vec<u8>,
    ) -> Result<Decoded, DecodeError> {
        let start = out.len();
        let bound = OUTPUT_BYTES_BASE
            .saturating_add(bytes.len().saturating_mul(OUTPUT_BYTES_PER_INPUT_BYTE));
        let mut decoder = Decoder {
            abi: self,
            reader: Reader::new(bytes),
            profile,
            end: start.saturating_add(bound),
            bound,
        };
        match decoder.value(ty, out, 0) {
            Ok(()) => Ok(Decoded {
                trailing: decoder.reader.remaining(),
            }),
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    /// Moves `reader` past a value of type `ty`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn skip(&self, ty: TypeId, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.skip_at(ty, reader, 0)
    }

    fn skip_at(
        &self,
        ty: TypeId,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if depth > DEPTH_MAX {
            return Err(reader.error(Reason::TooDeep(DEPTH_MAX)));
        }
        let depth = depth + 1;
        match &self.nodes[ty.index()] {
            Node::Builtin(builtin) => skip_builtin(*builtin, reader),
            Node::Struct { base, fields, .. } => {
                if let Some(base) = base {
                    self.skip_at(*base, reader, depth)?;
                }
                fields
                    .iter()
                    .try_for_each(|field| self.skip_at(field.ty, reader, depth))
            }
            Node::Variant(types) => {
                let index = reader.varuint32()?;
                let Some(chosen) = types.get(index as usize) else {
                    return Err(reader.error(Reason::VariantIndex {
                        index,
                        count: types.len(),
                    }));
                };
                self.skip_at(chosen.ty, reader, depth)
            }
            Node::Optional(inner) => {
                if reader.bool()? {
                    self.skip_at(*inner, reader, depth)?;
                }
                Ok(())
            }
            Node::Array(inner) => {
                let count = reader.varuint32()?;
                self.skip_items(*inner, count, reader, depth)
            }
            Node::Fixed(inner, count) => self.skip_items(*inner, *count, reader, depth),
            Node::Extension(inner) => {
                if reader.is_empty() {
                    return Ok(());
                }
                self.skip_at(*inner, reader, depth)
            }
            Node::Broken(why) => Err(reader.error(Reason::Type(why.to_string()))),
        }
    }

    fn skip_items(
        &self,
        inner: TypeId,
        count: u32,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        for _ in 0..count {
            let before = reader.position();
            self.skip_at(inner, reader, depth)?;
            if reader.position() == before {
                // An item without bytes: so are all the others, however many the count promises.
                break;
            }
        }
        Ok(())
    }
}

fn skip_builtin(builtin: Builtin, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let width = match builtin {
        Builtin::Bool | Builtin::I8 | Builtin::U8 => 1,
        Builtin::I16 | Builtin::U16 => 2,
        Builtin::I32
        | Builtin::U32
        | Builtin::F32
        | Builtin::TimePointSec
        | Builtin::BlockTimestamp => 4,
        Builtin::I64
        | Builtin::U64
        | Builtin::F64
        | Builtin::TimePoint
        | Builtin::Name
        | Builtin::Symbol
        | Builtin::SymbolCode => 8,
        Builtin::I128 | Builtin::U128 | Builtin::F128 | Builtin::Asset => 16,
        Builtin::Checksum160 => 20,
        Builtin::ExtendedAsset => 24,
        Builtin::Checksum256 => 32,
        Builtin::Checksum512 => 64,
        Builtin::VarI32 | Builtin::VarU32 => return reader.varuint32().map(drop),
        Builtin::Bytes | Builtin::String => return reader.bytes().map(drop),
        Builtin::Bitset => {
            let bits = reader.varuint32()?;
            return reader.take((bits as usize).div_ceil(8)).map(drop);
        }
        Builtin::PublicKey => match reader.u8()? {
            2 => {
                reader.take(34)?;
                return reader.bytes().map(drop);
            }
            _ => 33,
        },
        Builtin::Signature => match reader.u8()? {
            2 => {
                reader.take(65)?;
                reader.bytes()?;
                return reader.bytes().map(drop);
            }
            _ => 65,
        },
    };
    reader.take(width).map(drop)
}

struct Decoder<'a> {
    abi: &'a Abi,
    reader: Reader<'a>,
    profile: Profile,
    /// Where `out` must not go beyond.
    end: usize,
    bound: usize,
}

impl Decoder<'_> {
    fn value(&mut self, ty: TypeId, out: &mut Vec<u8>, depth: usize) -> Result<(), DecodeError> {
        let abi = self.abi;
        let node = &abi.nodes[ty.index()];
        if let Node::Builtin(builtin) = node {
            return self.builtin(*builtin, out);
        }
        if depth > DEPTH_MAX {
            return Err(self.reader.error(Reason::TooDeep(DEPTH_MAX)));
        }
        self.check_size(out)?;
        match node {
            Node::Builtin(builtin) => self.builtin(*builtin, out),
            Node::Struct { .. } => {
                out.push(b'{');
                let mut first = true;
                self.fields(ty, &mut first, out, depth)?;
                out.push(b'}');
                Ok(())
            }
            Node::Variant(types) => {
                let index = self.reader.varuint32()?;
                let Some(chosen) = types.get(index as usize) else {
                    return Err(self.reader.error(Reason::VariantIndex {
                        index,
                        count: types.len(),
                    }));
                };
                out.extend_from_slice(&chosen.head);
                self.value(chosen.ty, out, depth + 1)
                    .map_err(|e| e.inside(&chosen.name))?;
                out.push(b']');
                Ok(())
            }
            Node::Optional(inner) => {
                if self.reader.bool()? {
                    self.value(*inner, out, depth + 1)
                } else {
                    out.extend_from_slice(b"null");
                    Ok(())
                }
            }
            Node::Array(inner) => {
                let count = self.reader.varuint32()?;
                self.items(*inner, count, out, depth)
            }
            Node::Fixed(inner, count) => self.items(*inner, *count, out, depth),
            Node::Extension(inner) => {
                if self.reader.is_empty() {
                    out.extend_from_slice(b"null");
                    Ok(())
                } else {
                    self.value(*inner, out, depth + 1)
                }
            }
            Node::Broken(why) => Err(self.reader.error(Reason::Type(why.to_string()))),
        }
    }

    /// The fields of a structure, its base's first, without the braces.
    fn fields(
        &mut self,
        ty: TypeId,
        first: &mut bool,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if depth > DEPTH_MAX {
            return Err(self.reader.error(Reason::TooDeep(DEPTH_MAX)));
        }
        let abi = self.abi;
        let Node::Struct { name, base, fields } = &abi.nodes[ty.index()] else {
            let why = match &abi.nodes[ty.index()] {
                Node::Broken(why) => why.to_string(),
                _ => "the base of a structure is no structure".to_owned(),
            };
            return Err(self.reader.error(Reason::Type(why)));
        };
        if let Some(base) = base {
            self.fields(*base, first, out, depth + 1)?;
        }
        for field in fields {
            let absent =
                self.reader.is_empty() && matches!(abi.nodes[field.ty.index()], Node::Extension(_));
            if absent && self.profile != Profile::Wharfkit {
                continue;
            }
            if !std::mem::take(first) {
                out.push(b',');
            }
            out.extend_from_slice(&field.key);
            self.value(field.ty, out, depth + 1)
                .map_err(|e| e.inside(&format!("{name}.{}", field.name)))?;
        }
        Ok(())
    }

    fn items(
        &mut self,
        inner: TypeId,
        count: u32,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        out.push(b'[');
        for index in 0..count {
            if index > 0 {
                out.push(b',');
            }
            self.check_size(out)?;
            self.value(inner, out, depth + 1)?;
        }
        out.push(b']');
        Ok(())
    }

    fn check_size(&self, out: &[u8]) -> Result<(), DecodeError> {
        if out.len() > self.end {
            return Err(self.reader.error(Reason::TooLarge(self.bound)));
        }
        Ok(())
    }

    fn builtin(&mut self, builtin: Builtin, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let profile = self.profile;
        let reader = &mut self.reader;
        match builtin {
            Builtin::Bool => {
                let byte = reader.u8()?;
                match profile {
                    Profile::Nodeos => json::u64(out, u64::from(byte)),
                    _ if byte == 0 => out.extend_from_slice(b"false"),
                    _ => out.extend_from_slice(b"true"),
                }
            }
            Builtin::I8 => json::i64(out, i64::from(reader.u8()?.cast_signed())),
            Builtin::U8 => json::u64(out, u64::from(reader.u8()?)),
            Builtin::I16 => json::i64(out, i64::from(reader.u16()?.cast_signed())),
            Builtin::U16 => json::u64(out, u64::from(reader.u16()?)),
            Builtin::I32 => json::i64(out, i64::from(reader.u32()?.cast_signed())),
            Builtin::U32 => json::u64(out, u64::from(reader.u32()?)),
            Builtin::I64 => {
                let value = reader.i64()?;
                quoted_if(
                    out,
                    profile == Profile::Abieos || value.unsigned_abs() > SMALL_MAX,
                    |out| {
                        json::i64(out, value);
                    },
                );
            }
            Builtin::U64 => {
                let value = reader.u64()?;
                quoted_if(
                    out,
                    profile == Profile::Abieos || value > SMALL_MAX,
                    |out| json::u64(out, value),
                );
            }
            Builtin::I128 => {
                let value = i128::from_le_bytes(reader.array()?);
                let quoted =
                    profile != Profile::Wharfkit || value.unsigned_abs() > u128::from(SMALL_MAX);
                quoted_if(out, quoted, |out| {
                    out.extend_from_slice(value.to_string().as_bytes())
                });
            }
            Builtin::U128 => {
                let value = u128::from_le_bytes(reader.array()?);
                let quoted = profile != Profile::Wharfkit || value > u128::from(SMALL_MAX);
                quoted_if(out, quoted, |out| {
                    out.extend_from_slice(value.to_string().as_bytes())
                });
            }
            Builtin::VarI32 => json::i64(out, i64::from(reader.varint32()?)),
            Builtin::VarU32 => json::u64(out, u64::from(reader.varuint32()?)),
            Builtin::F32 => {
                let value = f32::from_bits(reader.u32()?);
                // abieos and nodes widen first; the shortest digits of the narrow number are what it was written as.
                match profile {
                    Profile::Wharfkit if value.is_finite() => {
                        quoted_if(out, true, |out| {
                            json::shortest(out, &format!("{value:e}"), false)
                        });
                    }
                    _ => float(out, f64::from(value), profile),
                }
            }
            Builtin::F64 => float(out, f64::from_bits(reader.u64()?), profile),
            Builtin::F128 => {
                let bytes = reader.array::<16>()?;
                out.push(b'"');
                if profile == Profile::Abieos {
                    json::hex_upper(out, &bytes);
                } else {
                    out.extend_from_slice(b"0x");
                    json::hex(out, &bytes);
                }
                out.push(b'"');
            }
            Builtin::TimePoint => {
                let micros = reader.i64()?;
                quoted_if(out, true, |out| match profile {
                    Profile::Wharfkit => time::write_micros(out, micros, Fraction::Exact),
                    Profile::Nodeos if micros < 0 => time::write_negative_duration(out, micros),
                    _ => time::write_micros(out, micros, Fraction::Millis),
                });
            }
            Builtin::TimePointSec => {
                let seconds = i64::from(reader.u32()?);
                let fraction = if profile == Profile::Abieos {
                    Fraction::Millis
                } else {
                    Fraction::None
                };
                quoted_if(out, true, |out| {
                    time::write_micros(out, seconds * 1_000_000, fraction)
                });
            }
            Builtin::BlockTimestamp => {
                let slot = BlockTimestamp(reader.u32()?);
                quoted_if(out, true, |out| slot.write_to(out));
            }
            Builtin::Name => {
                let name = reader.name()?;
                quoted_if(out, true, |out| name.write_to(out));
            }
            Builtin::Bytes => hex(out, reader.bytes()?, profile),
            Builtin::String => {
                let bytes = reader.bytes()?;
                match profile {
                    Profile::Wharfkit => json::lossy_string(out, bytes),
                    Profile::Nodeos => json::pruned_string(out, bytes),
                    Profile::Abieos => json::abieos_string(out, bytes),
                }
            }
            Builtin::Checksum160 => hex(out, reader.take(20)?, profile),
            Builtin::Checksum256 => hex(out, reader.take(32)?, profile),
            Builtin::Checksum512 => hex(out, reader.take(64)?, profile),
            Builtin::PublicKey => {
                let text = public_key_text(reader, profile == Profile::Nodeos)?;
                quoted_if(out, true, |out| out.extend_from_slice(text.as_bytes()));
            }
            Builtin::Signature => {
                let text = signature_text(reader)?;
                quoted_if(out, true, |out| out.extend_from_slice(text.as_bytes()));
            }
            Builtin::Symbol => {
                let symbol = Symbol(reader.u64()?);
                quoted_if(out, true, |out| symbol.write_to(out));
            }
            Builtin::SymbolCode => {
                let code = SymbolCode(reader.u64()?);
                quoted_if(out, true, |out| code.write_to(out));
            }
            Builtin::Asset => {
                let asset = read_asset(reader)?;
                quoted_if(out, true, |out| asset.write_to(out));
            }
            Builtin::ExtendedAsset => {
                let asset = read_asset(reader)?;
                let contract = reader.name()?;
                out.extend_from_slice(b"{\"quantity\":\"");
                asset.write_to(out);
                out.extend_from_slice(b"\",\"contract\":\"");
                contract.write_to(out);
                out.extend_from_slice(b"\"}");
            }
            Builtin::Bitset => {
                let bits = reader.varuint32()? as usize;
                let bytes = reader.take(bits.div_ceil(8))?;
                // The highest bit first, as a number is written.
                quoted_if(out, true, |out| {
                    out.extend(
                        (0..bits)
                            .rev()
                            .map(|bit| b'0' + (bytes[bit / 8] >> (bit % 8) & 1)),
                    );
                });
            }
        }
        Ok(())
    }
}

fn read_asset(reader: &mut Reader<'_>) -> Result<Asset, DecodeError> {
    Ok(Asset {
        amount: reader.i64()?,
        symbol: Symbol(reader.u64()?),
    })
}

fn quoted_if(out: &mut Vec<u8>, quoted: bool, write: impl FnOnce(&mut Vec<u8>)) {
    if quoted {
        out.push(b'"');
    }
    write(out);
    if quoted {
        out.push(b'"');
    }
}

fn hex(out: &mut Vec<u8>, bytes: &[u8], profile: Profile) {
    out.push(b'"');
    if profile == Profile::Abieos {
        json::hex_upper(out, bytes);
    } else {
        json::hex(out, bytes);
    }
    out.push(b'"');
}

fn float(out: &mut Vec<u8>, value: f64, profile: Profile) {
    if profile == Profile::Nodeos {
        let text = match (
            value.is_nan(),
            value.is_infinite(),
            value.is_sign_negative(),
        ) {
            (true, _, true) => "-nan".to_owned(),
            (true, _, false) => "nan".to_owned(),
            (_, true, true) => "-inf".to_owned(),
            (_, true, false) => "inf".to_owned(),
            _ => format!("{value:.17}"),
        };
        return quoted_if(out, true, |out| out.extend_from_slice(text.as_bytes()));
    }
    let text = if value.is_nan() {
        "\"NaN\""
    } else if value == f64::INFINITY {
        "\"Infinity\""
    } else if value == f64::NEG_INFINITY {
        "\"-Infinity\""
    } else {
        let abieos = profile == Profile::Abieos;
        return quoted_if(out, !abieos, |out| {
            json::shortest(out, &format!("{value:e}"), abieos)
        });
    };
    out.extend_from_slice(text.as_bytes());
}
