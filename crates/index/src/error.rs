//! Errors of an index.

use heap::HeapError;
use pm::Bad;
use pm::Escaped;

/// A change of a tree failed; nothing that a reader could see has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The key is in the tree already.
    #[error("the key is there already")]
    Duplicate {
        /// The value that the tree has for it.
        value: u64,
    },
    /// No room for a node, or a damaged allocator.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A damaged node.
    #[error(transparent)]
    Bad(#[from] Bad),
    /// The file of a page store failed.
    #[error("the file of the pages: {text}", text = Escaped(.0))]
    Io(#[from] std::io::Error),
    /// A change of a copy-on-write tree needed more pages than were reserved for it.
    #[error("more pages were needed than reserved; the transaction can only be aborted")]
    NotReserved,
    /// The node size cannot hold enough keys of this width.
    #[error("nodes of {node_bytes} bytes cannot hold keys of {key_bytes} bytes")]
    NodeSize {
        /// Bytes of a node.
        node_bytes: u32,
        /// Bytes of a key.
        key_bytes: u32,
    },
    /// Too few pages of this size fit into an extent of the heap's chunks.
    #[error(
        "tree nodes of {page_bytes} bytes are too large for chunks of {chunk_bytes} bytes: choose smaller nodes or larger chunks"
    )]
    ChunkSize {
        /// Bytes of a page.
        page_bytes: u32,
        /// Bytes of a chunk of the heap.
        chunk_bytes: u64,
    },
}
