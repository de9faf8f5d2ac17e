// One total order per signing key, and each idempotency key executed once, over the lane contract.

export { Gatekeeper, WINDOW_MS, importSecret, sha256, sign } from "./auth.js";
export * from "./contract.js";
export { laneOf } from "./ledger.js";
export type { Attempt, LaneKey, Ledger, Look, Refusal, Signed } from "./ledger.js";
export { DEFAULTS, NotExecuted, TxManager, workerUrl } from "./manager.js";
export type {
  BuildAndSend, Executed, ManagerOptions, Settings, Turn, Watch,
} from "./manager.js";
