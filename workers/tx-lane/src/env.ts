// What the Worker is deployed with (wrangler.toml).

export interface Env {
  TX_LANE: DurableObjectNamespace;
  /** What whoever asks must sign with; two, separated by a comma, while one is changed. A secret. */
  LANES_SECRET: string;
  /** Whose transactions these are, so that alarms can look and send again: `near` or `evm`. */
  LEDGER?: string;
  /** A node of it. */
  LEDGER_RPC?: string;
  /** How long an attempt may be open before an alarm looks after it; 30 seconds. */
  STUCK_MS?: string;
}
