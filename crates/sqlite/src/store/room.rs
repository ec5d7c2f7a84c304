//! Memory that may be missing: an allocation that fails would end the process, so each larger one is tried, and each
//! call first makes sure of what its smaller ones take.

use std::hint::black_box;

use crate::store::error::{Result, StoreError};

/// Makes sure that so many bytes can be allocated.
///
/// # Errors
/// They cannot.
pub(crate) fn ensure(bytes: usize) -> Result<()> {
    let mut tried = Vec::<u8>::new();
    tried.try_reserve_exact(bytes).map_err(|_| StoreError::Memory)?;
    // Otherwise the compiler leaves the allocation out.
    black_box(&tried);
    Ok(())
}

/// A vector of so many zeros.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn zeros(bytes: usize) -> Result<Vec<u8>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes).map_err(|_| StoreError::Memory)?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}
