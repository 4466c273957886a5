//! Tests of the public interface of `overside-backend-dpdk`: one program, so that it is linked
//! once.

mod buffers;
mod cards;
mod common;
mod conformance;
mod ethernet;
mod regex;
