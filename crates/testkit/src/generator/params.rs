//! What kind of chain is wanted.

/// How often each form of transaction occurs, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shapes {
    /// A payment with change: one to three inputs, one or two outputs.
    pub pay: u32,
    /// Several payments at once: 3 to 12 outputs.
    pub batch: u32,
    /// A run of transactions in one block, each spending the one before.
    pub chain: u32,
    /// Many inputs, one output.
    pub consolidation: u32,
    /// One input, many outputs.
    pub fan_out: u32,
    /// A data output and change.
    pub data: u32,
    /// Rare kinds of outputs.
    pub exotic: u32,
}

/// What kind of chain to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Two chains of one seed (and otherwise equal parameters) are the same chain.
    pub seed: u64,
    /// Transactions of a block, about (half to one and a half times as many).
    pub txs_per_block: u32,
    /// Time of block 1, Unix seconds. Must be past the node's genesis and not in its future.
    pub start_time: u32,
    /// Seconds between blocks, about; single blocks may be earlier than the one before, as on a real chain.
    pub interval: u32,
    /// Forms of transactions.
    pub shapes: Shapes,
    /// Payments of 1000 that go to a script never used before; the others go to used ones, with a long tail.
    pub fresh_scripts: u32,
    /// Payments of 1000 that go to script number 0, besides those that the long tail brings it.
    pub popular: u32,
    /// Of 1000 outputs to keys, how many can be spent. A signature costs some 50 microseconds.
    pub signed: u32,
    /// Inputs of a consolidation, from and to.
    pub consolidation_inputs: (u32, u32),
    /// Outputs of a fan-out, from and to.
    pub fan_out_outputs: (u32, u32),
    /// Transactions of an in-block chain, from and to.
    pub chain_length: (u32, u32),
}

impl Params {
    /// A small chain with everything in it, signatures included: for tests against a model.
    pub fn small(seed: u64) -> Self {
        Params {
            seed,
            txs_per_block: 12,
            start_time: 1_735_689_600,
            interval: 600,
            shapes: Shapes {
                pay: 40,
                batch: 10,
                chain: 6,
                consolidation: 6,
                fan_out: 5,
                data: 8,
                exotic: 12,
            },
            fresh_scripts: 400,
            popular: 20,
            signed: 500,
            consolidation_inputs: (3, 12),
            fan_out_outputs: (10, 30),
            chain_length: (2, 6),
        }
    }

    /// A chain with the proportions of mainnet (2.2 inputs and 3.2 outputs a transaction, 245 bytes) and no signatures, for
    /// measuring: about 3,000 transactions a block from height 101 on.
    pub fn bench(seed: u64) -> Self {
        Params {
            seed,
            txs_per_block: 3_000,
            start_time: 1_700_000_000,
            interval: 600,
            shapes: Shapes {
                pay: 740,
                batch: 105,
                chain: 12,
                consolidation: 40,
                fan_out: 28,
                data: 30,
                exotic: 6,
            },
            fresh_scripts: 600,
            popular: 0,
            signed: 0,
            consolidation_inputs: (8, 40),
            fan_out_outputs: (20, 60),
            chain_length: (2, 25),
        }
    }
}

/// A wish for one block, beyond [`Params`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockPlan {
    /// Transactions besides the coinbase; `None`: as the parameters say.
    pub txs: Option<u32>,
    /// Length of one chain of spends that the block begins with; 0: none.
    pub chain: u32,
}
