//! landfall-rpc
