//! landfall-store-sqlite
