//! landfall-store-memory
