//! An ABI made ready for decoding: every type name resolved once, so that decoding follows numbers.

use std::collections::HashMap;

use crate::decode::DEPTH_MAX;
use crate::def::{AbiDef, StructDef};
use crate::error::AbiError;
use crate::json;
use crate::name::Name;

/// A type of one particular [`Abi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(u32);

impl TypeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One version of a contract's ABI, ready to decode with. Cheap to share between threads, never changed.
#[derive(Debug)]
pub struct Abi {
    pub(crate) nodes: Vec<Node>,
    names: HashMap<Box<str>, TypeId>,
    actions: HashMap<Name, TypeId>,
    tables: HashMap<Name, TypeId>,
    results: HashMap<Name, TypeId>,
    weight: usize,
}

#[derive(Debug)]
pub(crate) enum Node {
    Builtin(Builtin),
    Struct {
        name: Box<str>,
        base: Option<TypeId>,
        fields: Box<[Field]>,
    },
    Variant(Box<[Alternative]>),
    Optional(TypeId),
    Array(TypeId),
    Fixed(TypeId, u32),
    Extension(TypeId),
    /// Cannot be decoded, and why. An error where it is used.
    Broken(Box<str>),
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    /// `"name":`
    pub(crate) key: Box<[u8]>,
    pub(crate) ty: TypeId,
}

#[derive(Debug)]
pub(crate) struct Alternative {
    pub(crate) name: Box<str>,
    /// `["name",`
    pub(crate) head: Box<[u8]>,
    pub(crate) ty: TypeId,
}

/// What a type is made of, for readers that look for particular fields.
#[derive(Clone, Debug)]
pub enum Shape<'a> {
    /// A built-in type, by its name in ABIs.
    Builtin(&'static str),
    /// A structure: its base and its own fields, by name.
    Struct {
        /// Its name.
        name: &'a str,
        /// The structure whose fields come first.
        base: Option<TypeId>,
        /// Its fields in the order of the wire.
        fields: Vec<(&'a str, TypeId)>,
    },
    /// One of several types, by their names, in the order of the indices.
    Variant(Vec<(&'a str, TypeId)>),
    /// `T?`
    Optional(TypeId),
    /// `T[]`
    Array(TypeId),
    /// `T[N]`
    Fixed(TypeId, u32),
    /// `T$`
    Extension(TypeId),
    /// A type that cannot be decoded, and why.
    Broken(&'a str),
}

macro_rules! builtins {
    ($($variant:ident $($name:literal)+,)+) => {
        /// The types that every ABI has without saying so.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Builtin { $($variant,)+ }

        impl Builtin {
            fn find(name: &str) -> Option<Self> {
                match name {
                    $($($name)|+ => Some(Self::$variant),)+
                    _ => None,
                }
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => builtins!(@first $($name)+),)+
                }
            }
        }
    };
    (@first $first:literal $($rest:literal)*) => { $first };
}

builtins! {
    Bool "bool",
    I8 "int8",
    U8 "uint8",
    I16 "int16",
    U16 "uint16",
    I32 "int32",
    U32 "uint32",
    I64 "int64",
    U64 "uint64",
    I128 "int128",
    U128 "uint128",
    VarI32 "varint32",
    VarU32 "varuint32",
    F32 "float32",
    F64 "float64",
    F128 "float128",
    TimePoint "time_point",
    TimePointSec "time_point_sec",
    BlockTimestamp "block_timestamp_type" "block_timestamp",
    Name "name",
    Bytes "bytes",
    String "string",
    Checksum160 "checksum160",
    Checksum256 "checksum256",
    Checksum512 "checksum512",
    PublicKey "public_key",
    Signature "signature",
    Symbol "symbol",
    SymbolCode "symbol_code",
    Asset "asset",
    ExtendedAsset "extended_asset",
    Bitset "bitset",
}

impl Abi {
    /// Compiles the binary form of an ABI.
    ///
    /// # Errors
    /// When the bytes are no ABI. A type that makes no sense is not an error here but where it is used.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AbiError> {
        Ok(Self::from_def(&AbiDef::from_bytes(bytes)?))
    }

    /// Compiles the JSON form of an ABI.
    ///
    /// # Errors
    /// When the text is no ABI.
    pub fn from_json(json: &str) -> Result<Self, AbiError> {
        Ok(Self::from_def(&AbiDef::from_json(json)?))
    }

    /// Compiles an ABI.
    #[must_use]
    pub fn from_def(def: &AbiDef) -> Self {
        Compiler::new(def).run(def)
    }

    /// The type of this name: a structure, variant, other name or built-in type, or one with `[]`, `?` or `$` that the
    /// ABI itself mentions.
    #[must_use]
    pub fn type_id(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    /// The type of an action's data.
    #[must_use]
    pub fn action_type(&self, action: Name) -> Option<TypeId> {
        self.actions.get(&action).copied()
    }

    /// The type of a table's rows.
    #[must_use]
    pub fn table_type(&self, table: Name) -> Option<TypeId> {
        self.tables.get(&table).copied()
    }

    /// The type of what an action returns.
    #[must_use]
    pub fn result_type(&self, action: Name) -> Option<TypeId> {
        self.results.get(&action).copied()
    }

    /// What a type is made of.
    #[must_use]
    pub fn shape(&self, ty: TypeId) -> Shape<'_> {
        match &self.nodes[ty.index()] {
            Node::Builtin(builtin) => Shape::Builtin(builtin.name()),
            Node::Struct { name, base, fields } => Shape::Struct {
                name,
                base: *base,
                fields: fields.iter().map(|f| (&*f.name, f.ty)).collect(),
            },
            Node::Variant(types) => {
                Shape::Variant(types.iter().map(|a| (&*a.name, a.ty)).collect())
            }
            Node::Optional(inner) => Shape::Optional(*inner),
            Node::Array(inner) => Shape::Array(*inner),
            Node::Fixed(inner, count) => Shape::Fixed(*inner, *count),
            Node::Extension(inner) => Shape::Extension(*inner),
            Node::Broken(why) => Shape::Broken(why),
        }
    }

    /// About how many bytes of memory this takes, for caches.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }
}

struct Compiler<'a> {
    structs: HashMap<&'a str, &'a StructDef>,
    aliases: HashMap<&'a str, &'a str>,
    variants: HashMap<&'a str, &'a [String]>,
    nodes: Vec<Node>,
    names: HashMap<Box<str>, TypeId>,
    // Structures and variants whose parts are still to be resolved: a queue, because an ABI may chain more of them than
    // a stack holds.
    pending: Vec<(TypeId, &'a str)>,
    weight: usize,
}

impl<'a> Compiler<'a> {
    fn new(def: &'a AbiDef) -> Self {
        // The first definition of a name counts.
        let mut compiler = Self {
            structs: HashMap::new(),
            aliases: HashMap::new(),
            variants: HashMap::new(),
            nodes: Vec::new(),
            names: HashMap::new(),
            pending: Vec::new(),
            weight: size_of::<Abi>(),
        };
        for item in &def.structs {
            compiler.structs.entry(&item.name).or_insert(item);
        }
        for item in &def.types {
            compiler
                .aliases
                .entry(&item.new_type_name)
                .or_insert(&item.r#type);
        }
        for item in &def.variants {
            compiler.variants.entry(&item.name).or_insert(&item.types);
        }
        compiler
    }

    fn run(mut self, def: &'a AbiDef) -> Abi {
        for item in &def.structs {
            self.resolve(&item.name, 0);
        }
        for item in &def.types {
            self.resolve(&item.new_type_name, 0);
        }
        for item in &def.variants {
            self.resolve(&item.name, 0);
        }
        let actions = self.entries(def.actions.iter().map(|i| (&*i.name, &*i.r#type)));
        let tables = self.entries(def.tables.iter().map(|i| (&*i.name, &*i.r#type)));
        let results = self.entries(
            def.action_results
                .iter()
                .map(|i| (&*i.name, &*i.result_type)),
        );
        while let Some((id, name)) = self.pending.pop() {
            self.fill(id, name);
        }
        Abi {
            weight: self.weight + 64 * (actions.len() + tables.len() + results.len()),
            nodes: self.nodes,
            names: self.names,
            actions,
            tables,
            results,
        }
    }

    fn entries(
        &mut self,
        items: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> HashMap<Name, TypeId> {
        let mut entries = HashMap::new();
        for (name, ty) in items {
            let ty = self.resolve(ty, 0);
            // The tables of a State History ABI have names that are no Antelope names; nobody looks them up by one.
            if let Ok(name) = Name::parse(name) {
                entries.entry(name).or_insert(ty);
            }
        }
        entries
    }

    fn push(&mut self, node: Node) -> TypeId {
        let id = TypeId(
            u32::try_from(self.nodes.len())
                .expect("an ABI within its bound has fewer types than a u32 counts"),
        );
        self.nodes.push(node);
        self.weight += size_of::<Node>();
        id
    }

    fn remember(&mut self, name: &str, id: TypeId) -> TypeId {
        self.weight += name.len() + 48;
        self.names.insert(name.into(), id);
        id
    }

    fn broken(&mut self, name: &str, why: &str) -> TypeId {
        let shown: String = name.chars().take(64).collect();
        let id = self.push(Node::Broken(format!("type {shown:?}: {why}").into()));
        self.remember(name, id)
    }

    /// `depth` counts suffixes and other names on the way, so that neither a circle of names nor a pile of brackets
    /// goes on for ever.
    fn resolve(&mut self, name: &'a str, depth: usize) -> TypeId {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        if depth > DEPTH_MAX {
            return self.broken(name, "its names lead in a circle, or it is nested too deep");
        }
        if let Some(builtin) = Builtin::find(name) {
            let id = self.push(Node::Builtin(builtin));
            return self.remember(name, id);
        }
        if let Some(&target) = self.aliases.get(name) {
            let id = self.resolve(target, depth + 1);
            return self.remember(name, id);
        }
        if self.structs.contains_key(name) || self.variants.contains_key(name) {
            let id = self.push(Node::Broken("not resolved yet".into()));
            self.remember(name, id);
            // The definition's own copy of the name lives as long as the definition.
            self.pending.push((id, name));
            return id;
        }
        if let Some(inner) = name.strip_suffix('?') {
            let inner = self.resolve(inner, depth + 1);
            let id = self.push(Node::Optional(inner));
            return self.remember(name, id);
        }
        if let Some(inner) = name.strip_suffix('$') {
            let inner = self.resolve(inner, depth + 1);
            let id = self.push(Node::Extension(inner));
            return self.remember(name, id);
        }
        if let Some((inner, count)) = name
            .strip_suffix(']')
            .and_then(|rest| rest.rsplit_once('['))
        {
            let node: fn(TypeId, u32) -> Node = if count.is_empty() {
                |inner, _| Node::Array(inner)
            } else {
                Node::Fixed
            };
            let Ok(count) = (if count.is_empty() {
                Ok(0)
            } else {
                count.parse()
            }) else {
                return self.broken(name, "the number of items is not one");
            };
            let inner = self.resolve(inner, depth + 1);
            let id = self.push(node(inner, count));
            return self.remember(name, id);
        }
        self.broken(name, "not in the ABI")
    }

    fn fill(&mut self, id: TypeId, name: &'a str) {
        let node = if let Some(&def) = self.structs.get(name) {
            let base = (!def.base.is_empty()).then(|| self.resolve(&def.base, 0));
            let fields = def
                .fields
                .iter()
                .map(|field| {
                    let mut key = Vec::with_capacity(field.name.len() + 3);
                    json::string(&mut key, &field.name);
                    key.push(b':');
                    self.weight += size_of::<Field>() + 2 * key.len();
                    Field {
                        name: field.name.as_str().into(),
                        key: key.into(),
                        ty: self.resolve(&field.r#type, 0),
                    }
                })
                .collect();
            Node::Struct {
                name: name.into(),
                base,
                fields,
            }
        } else {
            let types: &'a [String] = self.variants.get(name).copied().unwrap_or_default();
            Node::Variant(
                types
                    .iter()
                    .map(|ty| {
                        // A variant names what it holds without the marks of an extension.
                        let mut head = vec![b'['];
                        json::string(&mut head, ty);
                        head.push(b',');
                        self.weight += size_of::<Alternative>() + 2 * head.len();
                        Alternative {
                            name: ty.as_str().into(),
                            head: head.into(),
                            ty: self.resolve(ty, 0),
                        }
                    })
                    .collect(),
            )
        };
        self.nodes[id.index()] = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(json: &str) -> Abi {
        Abi::from_json(json).expect("a well-formed ABI")
    }

    #[test]
    fn names_suffixes_and_circles() {
        let abi = compile(
            r#"{"version":"eosio::abi/1.2",
                "types":[{"new_type_name":"list","type":"float64[]"},{"new_type_name":"a","type":"b"},{"new_type_name":"b","type":"a"}],
                "structs":[{"name":"s","base":"","fields":[{"name":"x","type":"list?$"},{"name":"y","type":"uint8[3]"},
                    {"name":"z","type":"nothing[]"},{"name":"w","type":"a"},{"name":"v","type":"uint8[x]"}]}],
                "actions":[{"name":"go","type":"list","ricardian_contract":""}],"tables":[],"variants":[]}"#,
        );
        let s = abi.type_id("s").expect("defined");
        let Shape::Struct { fields, .. } = abi.shape(s) else {
            panic!("s is a structure")
        };
        let shape = |index: usize| abi.shape(fields[index].1);
        let Shape::Extension(inner) = shape(0) else {
            panic!("{:?}", shape(0))
        };
        let Shape::Optional(inner) = abi.shape(inner) else {
            panic!("an optional")
        };
        assert!(matches!(abi.shape(inner), Shape::Array(_)));
        assert!(matches!(shape(1), Shape::Fixed(_, 3)));
        let Shape::Array(unknown) = shape(2) else {
            panic!("{:?}", shape(2))
        };
        for broken in [unknown, fields[3].1, fields[4].1] {
            assert!(matches!(abi.shape(broken), Shape::Broken(_)));
        }
        let go = abi
            .action_type(Name::parse("go").expect("a name"))
            .expect("declared");
        assert!(matches!(abi.shape(go), Shape::Array(_)));
        assert_eq!(abi.action_type(Name::parse("stop").expect("a name")), None);
    }

    #[test]
    fn long_chains_do_not_use_the_stack() {
        use std::fmt::Write as _;
        let mut structs = String::new();
        for i in 0..50_000 {
            let _ = write!(
                structs,
                r#"{{"name":"s{i}","base":"","fields":[{{"name":"f","type":"s{}"}}]}},"#,
                i + 1
            );
        }
        structs.push_str(r#"{"name":"s50000","base":"","fields":[]}"#);
        let abi = compile(&format!(
            r#"{{"version":"eosio::abi/1.0","structs":[{structs}]}}"#
        ));
        assert!(abi.type_id("s0").is_some());
        let piled = format!(
            r#"{{"version":"eosio::abi/1.0","structs":[{{"name":"s","fields":[{{"name":"f","type":"uint8{}"}}]}}]}}"#,
            "[]".repeat(100_000)
        );
        compile(&piled);
    }
}
