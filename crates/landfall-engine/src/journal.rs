//! One line of the log for each step of a transfer, for those who search logs by a transfer's id.
//!
//! `action` is `message_received`, `processing`, `success` or `failure`. Written at the level debug
//! under a target of its own, so that it costs nothing until `log.level` asks for it.
//! Not here: the trail, which is complete and in the store.

use landfall_core::Transfer;

/// A client's transfer is stored.
pub fn received(transfer: &Transfer) {
    tracing::debug!(
        target: "landfall::transfers",
        action = "message_received",
        rail = %transfer.payload.rail(),
        transactionId = %transfer.key,
        messageId = %transfer.id,
    );
}

/// It is handed to a lane, which signs for it if it can.
pub fn processing(transfer: &Transfer) {
    tracing::debug!(
        target: "landfall::transfers",
        action = "processing",
        rail = %transfer.payload.rail(),
        transactionId = %transfer.key,
        messageId = %transfer.id,
    );
}

/// It is final.
pub fn ended(transfer: &Transfer) {
    let action = if transfer.state.is_completed() { "success" } else { "failure" };
    tracing::debug!(
        target: "landfall::transfers",
        action,
        rail = %transfer.payload.rail(),
        transactionId = %transfer.key,
        messageId = %transfer.id,
        duration_ms = transfer.updated_ms.saturating_sub(transfer.created_ms),
        error = transfer.error.as_ref().map(|error| error.message.as_str()),
    );
}
