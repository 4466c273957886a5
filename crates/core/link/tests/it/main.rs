//! Tests of the public interface of `overside-link`: one program, so that it is linked once.

mod agent_wire;
mod hostile;
mod network_processes;
mod peer_process;
mod processes;
mod shm;
mod ucx;
