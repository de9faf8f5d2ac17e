// What clients of the examples are told.

/** What a client is told of an execution. */
export function answerTo(executed) {
  return { status: executed.status === "inflight" ? 202 : 200, body: executed };
}

/** What a client is told where nothing was executed. */
export function refusalTo(error) {
  const statuses = { conflict: 409, bad_key: 400, full: 503, halted: 503, unbuilt: 503, unsent: 503 };
  const status = statuses[error.reason] ?? 500;
  return { status, body: { error: error.reason ?? "internal", message: error.message } };
}
