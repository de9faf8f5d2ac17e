//! landfall-conformance
