//! landfall-rail-near
