//! landfall-sim
