//! The storage manager, in one program.

mod central;
mod central_crash;
mod central_space;
mod damage;
mod lock_waits;
mod locks;
mod long;
mod nv;
mod nv_crash;
mod pages;
mod recovery;
mod store;
mod toy;
