//! The storage manager, in one program.

mod central;
mod central_crash;
mod damage;
mod lock_waits;
mod locks;
mod nv;
mod recovery;
mod toy;
