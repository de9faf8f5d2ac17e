//! Hints in Redis Streams.
