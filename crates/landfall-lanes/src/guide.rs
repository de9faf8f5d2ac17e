//! How to use the lanes for transactions of your own.
#![doc = include_str!("../README.md")]
