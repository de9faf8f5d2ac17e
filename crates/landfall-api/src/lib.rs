//! landfall-api
