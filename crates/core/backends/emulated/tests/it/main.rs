//! Tests of the public interface of `overside-backend-emulated`: one program, so that it is linked
//! once.

mod card;
mod common;
mod conformance;
mod timing;
mod virtual_time;
