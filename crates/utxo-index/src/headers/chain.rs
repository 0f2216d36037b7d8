//! The best chain of one view.

use std::sync::Arc;

use super::NodeId;

/// Heights per chunk: what one new block copies, times four bytes.
const CHUNK: usize = 1024;

/// For each height from genesis to the tip, the node of the best-chain block. Cloning shares all chunks.
#[derive(Clone, Default)]
pub(crate) struct Chain {
    chunks: Vec<Arc<Vec<NodeId>>>,
    len: usize,
}

impl Chain {
    /// Number of blocks: the tip's height + 1, or 0.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The node at a height.
    pub(crate) fn get(&self, height: u32) -> Option<NodeId> {
        let height = height as usize;
        (height < self.len).then(|| self.chunks[height / CHUNK][height % CHUNK])
    }

    /// The tip's node.
    pub(crate) fn tip(&self) -> Option<NodeId> {
        self.len
            .checked_sub(1)
            .and_then(|height| self.get(height as u32))
    }

    /// Adds a block on top.
    pub(crate) fn push(&mut self, node: NodeId) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).push(node),
            None => self.chunks.push(Arc::new(vec![node])),
        }
        self.len += 1;
    }

    /// Takes the tip off.
    pub(crate) fn pop(&mut self) -> Option<NodeId> {
        let chunk = self.chunks.last_mut()?;
        let node = Arc::make_mut(chunk).pop()?;
        if chunk.is_empty() {
            self.chunks.pop();
        }
        self.len -= 1;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_not_changed_by_pushes_and_pops() {
        let mut chain = Chain::default();
        assert_eq!(chain.tip(), None);
        for n in 0..(CHUNK as u32 * 2 + 3) {
            chain.push(NodeId(n));
        }
        let frozen = chain.clone();
        for _ in 0..CHUNK + 10 {
            chain.pop();
        }
        chain.push(NodeId(7));
        assert_eq!(frozen.len(), CHUNK * 2 + 3);
        assert!((0..frozen.len() as u32).all(|h| frozen.get(h) == Some(NodeId(h))));
        assert_eq!(frozen.get(frozen.len() as u32), None);
        assert_eq!(chain.len(), CHUNK - 6);
        assert_eq!(chain.tip(), Some(NodeId(7)));
        while chain.pop().is_some() {}
        assert_eq!((chain.len(), chain.tip()), (0, None));
    }
}
