//! Where the fields that Cairn reads stand in the structures of one version of the protocol.
//!
//! A [`Plan`] is the list of a structure's fields in the order of the wire: those that are wanted, with what they are for, and
//! those that are passed over. It is made once for a connection, from the ABI that the node sent.

use cairn_antelope_abi::{Abi, AbiDef, AbiError, DecodeError, FieldDef, Reader, Reason, TypeId};

/// An ABI of the protocol that this program cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Not an ABI at all.
    #[error("its first message is not the ABI of the State History protocol: {0}")]
    Abi(#[from] AbiError),
    /// Something that every known version has is missing.
    #[error(
        "its State History protocol has no {0}: is this a State History endpoint, and of a known version?"
    )]
    Missing(String),
    /// A field of another type than in every known version.
    #[error(
        "in its State History protocol, {field} is {found}: a version that this program does not know"
    )]
    Field {
        /// Structure and field.
        field: String,
        /// The type found.
        found: String,
    },
}

/// Base structures may be chained this deep.
const BASES_MAX: usize = 16;

pub(crate) enum Step<S> {
    Take(S),
    Skip(TypeId),
}

pub(crate) struct Plan<S> {
    steps: Vec<Step<S>>,
}

/// A field that is wanted: its name, a type it may have, and what it is for. Several rows with one name allow several types.
pub(crate) type Wanted<S> = (&'static str, &'static str, S);

/// The definitions of one version, and the compiled form of the same ABI.
pub(crate) struct Layouts<'a> {
    pub(crate) def: &'a AbiDef,
    pub(crate) abi: &'a Abi,
}

impl Layouts<'_> {
    /// The types that a variant can hold, in the order of the indices.
    pub(crate) fn alternatives(&self, variant: &str) -> Result<&[String], ProtocolError> {
        self.def
            .variants
            .iter()
            .find(|v| v.name == variant)
            .map(|v| v.types.as_slice())
            .ok_or_else(|| ProtocolError::Missing(format!("variant {variant}")))
    }

    pub(crate) fn is_variant(&self, name: &str) -> bool {
        self.def.variants.iter().any(|v| v.name == name)
    }

    /// All fields of a structure, its bases' first.
    pub(crate) fn fields(&self, name: &str) -> Result<Vec<&FieldDef>, ProtocolError> {
        let mut chain = Vec::new();
        let mut next = name;
        while !next.is_empty() {
            let found = self
                .def
                .structs
                .iter()
                .find(|s| s.name == next)
                .filter(|_| chain.len() < BASES_MAX)
                .ok_or_else(|| ProtocolError::Missing(format!("structure {next}")))?;
            chain.push(found);
            next = &found.base;
        }
        Ok(chain.into_iter().rev().flat_map(|s| &s.fields).collect())
    }

    pub(crate) fn type_id(&self, name: &str) -> Result<TypeId, ProtocolError> {
        self.abi
            .type_id(name)
            .ok_or_else(|| ProtocolError::Missing(format!("type {name}")))
    }

    /// The plan for a structure. Every name in `wanted` must be there, except those in `optional`.
    pub(crate) fn plan<S: Copy>(
        &self,
        name: &str,
        wanted: &[Wanted<S>],
        optional: &[&str],
    ) -> Result<Plan<S>, ProtocolError> {
        let fields = self.fields(name)?;
        for (field, _, _) in wanted {
            if !optional.contains(field) && !fields.iter().any(|f| f.name == *field) {
                return Err(ProtocolError::Missing(format!("field {name}.{field}")));
            }
        }
        let steps = fields
            .into_iter()
            .map(|field| {
                let mut named = wanted
                    .iter()
                    .filter(|(name, _, _)| *name == field.name)
                    .peekable();
                if named.peek().is_none() {
                    return Ok(Step::Skip(self.type_id(&field.r#type)?));
                }
                match named.find(|(_, ty, _)| *ty == field.r#type) {
                    Some((_, _, slot)) => Ok(Step::Take(*slot)),
                    None => Err(ProtocolError::Field {
                        field: format!("{name}.{}", field.name),
                        found: field.r#type.clone(),
                    }),
                }
            })
            .collect::<Result<_, ProtocolError>>()?;
        Ok(Plan { steps })
    }

    /// A plan for each type that a variant can hold.
    pub(crate) fn plans<S: Copy>(
        &self,
        variant: &str,
        wanted: &[Wanted<S>],
        optional: &[&str],
    ) -> Result<Vec<Plan<S>>, ProtocolError> {
        self.alternatives(variant)?
            .iter()
            .map(|name| self.plan(name, wanted, optional))
            .collect()
    }

    /// Checks that a structure has exactly these fields, for code that reads it without a plan.
    pub(crate) fn exactly(
        &self,
        name: &str,
        expected: &[(&str, &str)],
    ) -> Result<(), ProtocolError> {
        let fields = self.fields(name)?;
        let same = fields.len() == expected.len()
            && fields
                .iter()
                .zip(expected)
                .all(|(f, (name, ty))| f.name == *name && f.r#type == *ty);
        same.then_some(()).ok_or_else(|| ProtocolError::Field {
            field: format!("structure {name}"),
            found: fields
                .iter()
                .map(|f| format!("{} {}", f.r#type, f.name))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Checks how a structure begins.
    pub(crate) fn begins(
        &self,
        name: &str,
        expected: &[(&str, &str)],
    ) -> Result<(), ProtocolError> {
        let fields = self.fields(name)?;
        for (index, (field, ty)) in expected.iter().enumerate() {
            if fields
                .get(index)
                .is_none_or(|f| f.name != *field || f.r#type != *ty)
            {
                return Err(ProtocolError::Missing(format!(
                    "field {name}.{field} of type {ty} at place {index}"
                )));
            }
        }
        Ok(())
    }
}

impl<S: Copy> Plan<S> {
    /// Reads a structure: `take` reads each wanted field.
    #[inline]
    pub(crate) fn read<'a>(
        &self,
        abi: &Abi,
        reader: &mut Reader<'a>,
        mut take: impl FnMut(S, &mut Reader<'a>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for step in &self.steps {
            match step {
                Step::Take(slot) => take(*slot, reader)?,
                Step::Skip(ty) => abi.skip(*ty, reader)?,
            }
        }
        Ok(())
    }
}

/// The plan that a variant's index chooses.
#[inline]
pub(crate) fn choose<'p, T>(plans: &'p [T], reader: &mut Reader<'_>) -> Result<&'p T, DecodeError> {
    let index = reader.varuint32()?;
    plans.get(index as usize).ok_or_else(|| {
        reader.error(Reason::VariantIndex {
            index,
            count: plans.len(),
        })
    })
}
