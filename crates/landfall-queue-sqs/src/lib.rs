//! Hints in AWS SQS.
