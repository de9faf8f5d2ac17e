//! landfall-lanes
