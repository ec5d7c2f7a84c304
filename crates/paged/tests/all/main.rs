//! The storage manager, in one program.

mod central;
mod central_crash;
mod locks;
mod nv;
mod recovery;
mod toy;
