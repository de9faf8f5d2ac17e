//! landfall-queue-ring
