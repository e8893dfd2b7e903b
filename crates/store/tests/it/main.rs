//! Tests of the stores: one conformance suite, archives and older versions of the files.

mod archive;
mod buffered;
mod conformance;
mod replica;
mod versions;
