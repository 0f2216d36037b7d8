//! Pegs: coins that come from the parent chain, and those that go back.

use bitcoin::hashes::Hash;
use bitcoin::script::Instruction;
use bitcoin::{BlockHash, Script};

use super::AssetId;

/// A claim of coins of the parent chain: an input's peg-in witness of six items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pegin<'a> {
    /// How much, base units.
    pub amount: u64,
    /// Of which asset.
    pub asset: AssetId,
    /// The parent chain.
    pub parent_genesis: BlockHash,
    /// Who may claim.
    pub claim_script: &'a [u8],
}

impl<'a> Pegin<'a> {
    /// From the items of a peg-in witness; `None` if they do not have the form of one. What has not is no peg-in, and no
    /// damage either.
    pub fn parse(items: &[&'a [u8]]) -> Option<Self> {
        /// The proof begins with a header of the parent chain.
        const PROOF_LEN_MIN: usize = 80;
        let [amount, asset, genesis, claim_script, _transaction, proof] = items else {
            return None;
        };
        if proof.len() < PROOF_LEN_MIN {
            return None;
        }
        Some(Self {
            amount: u64::from_le_bytes((*amount).try_into().ok()?),
            asset: AssetId::from_byte_array((*asset).try_into().ok()?),
            parent_genesis: BlockHash::from_byte_array((*genesis).try_into().ok()?),
            claim_script,
        })
    }
}

/// An output that sends coins back to the parent chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pegout<'a> {
    /// The parent chain.
    pub parent_genesis: BlockHash,
    /// Where to.
    pub script_pubkey: &'a Script,
}

impl<'a> Pegout<'a> {
    /// From an output's script: `OP_RETURN`, the parent's genesis hash, a script that is not empty, and then pushes only.
    pub fn parse(script: &'a [u8]) -> Option<Self> {
        let mut items = Script::from_bytes(script).instructions();
        let Some(Ok(Instruction::Op(bitcoin::opcodes::all::OP_RETURN))) = items.next() else {
            return None;
        };
        let mut push = || match items.next()?.ok()? {
            Instruction::PushBytes(bytes) => Some(bytes.as_bytes()),
            Instruction::Op(_) => None,
        };
        let parent_genesis = BlockHash::from_byte_array(push()?.try_into().ok()?);
        let script_pubkey = push().filter(|script| !script.is_empty())?;
        let only_pushes = items.all(|item| match item {
            Ok(Instruction::PushBytes(_)) => true,
            // The numbers 0 to 16 are pushes too.
            Ok(Instruction::Op(code)) => {
                code.to_u8() <= bitcoin::opcodes::all::OP_PUSHNUM_16.to_u8()
            }
            Err(_) => false,
        });
        only_pushes.then(|| Self {
            parent_genesis,
            script_pubkey: Script::from_bytes(script_pubkey),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::ScriptBuf;
    use bitcoin::opcodes::all::{OP_CHECKSIG, OP_RETURN};
    use bitcoin::script::Builder;

    #[test]
    fn a_pegout_is_pushes_after_op_return() {
        let good = || {
            Builder::new()
                .push_opcode(OP_RETURN)
                .push_slice([7; 32])
                .push_slice([0x51; 3])
        };
        let parsed = |script: &ScriptBuf| Pegout::parse(script.as_bytes()).is_some();
        let plain = good().into_script();
        let pegout = Pegout::parse(plain.as_bytes()).expect("a peg-out");
        assert_eq!(pegout.parent_genesis, BlockHash::from_byte_array([7; 32]));
        assert_eq!(pegout.script_pubkey.as_bytes(), [0x51; 3]);
        assert!(parsed(
            &good().push_slice([1; 33]).push_int(3).into_script()
        ));
        assert!(!parsed(&good().push_opcode(OP_CHECKSIG).into_script()));
        let start = || Builder::new().push_opcode(OP_RETURN);
        assert!(!parsed(
            &start().push_slice([7; 31]).push_slice([1]).into_script()
        ));
        assert!(
            !parsed(&start().push_slice([7; 32]).into_script()),
            "no script"
        );
        assert!(!parsed(
            &start().push_slice([7; 32]).push_slice([]).into_script()
        ));
        assert!(!parsed(
            &Builder::new()
                .push_slice([7; 32])
                .push_slice([1])
                .into_script()
        ));
        let mut cut = plain.into_bytes();
        cut.pop();
        assert!(Pegout::parse(&cut).is_none(), "a push that ends early");
    }

    #[test]
    fn a_pegin_has_six_items_of_the_right_lengths() {
        let proof = [1; 100];
        let items: [&[u8]; 6] = [
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[2; 32],
            &[3; 32],
            &[0x51],
            &[4; 10],
            &proof,
        ];
        let pegin = Pegin::parse(&items).expect("a peg-in");
        assert_eq!((pegin.amount, pegin.claim_script), (1, &[0x51][..]));
        assert!(Pegin::parse(&items[..5]).is_none());
        for (at, bad) in [
            (0, &[1; 7][..]),
            (1, &[2; 31]),
            (2, &[3; 33]),
            (5, &proof[..79]),
        ] {
            let mut damaged = items;
            damaged[at] = bad;
            assert!(Pegin::parse(&damaged).is_none(), "item {at}");
        }
    }
}
