//! Services as a part of a world.

pub(crate) mod services;
