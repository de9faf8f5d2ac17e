//! The rail over real sockets, against the built-in account service.

mod built_in;
mod ground;
