// A ledger in a few lines: a block every few milliseconds, final two blocks later. A later nonce that
// lands kills the earlier ones.

const BLOCK_MS = 20;
const FINAL_AFTER = 2;

export class Chain {
  blocks = [];
  pool = [];
  /** Broadcasts under this nonce get lost on the way. */
  lostNonce = null;
  /** Why whatever comes is refused, as a ledger's refusal. */
  refusing = null;
  /** What does this is reverted. */
  reverting = null;
  /** So many broadcasts arrive and are not answered. */
  unanswered = 0;
  isStopped = false;
  invalidNonces = 0;
  order = "overtakes";

  constructor() {
    this.timer = setInterval(() => this.blocks.push(this.fill()), BLOCK_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  /** What was done, in the order of the blocks. */
  done() {
    return this.blocks.flat().map((tx) => tx.does).filter((does) => does !== "");
  }

  static sign({ key, nonce }, does) {
    const tx = JSON.stringify({ key: key.publicKey, nonce, does });
    return { hash: `${key.publicKey}/${nonce}/${does}`, bytes: new TextEncoder().encode(tx) };
  }

  used(key, blocks = this.blocks.length) {
    const landed = this.blocks.slice(0, blocks).flat().filter((tx) => tx.key === key);
    return Math.max(0, ...landed.map((tx) => tx.nonce));
  }

  fill() {
    const block = [];
    if (this.isStopped) return block;
    for (const tx of this.pool.splice(0).sort((a, b) => a.nonce - b.nonce)) {
      const last = Math.max(this.used(tx.key), ...block.filter((one) => one.key === tx.key)
        .map((one) => one.nonce));
      if (tx.nonce > last) block.push(tx);
    }
    return block;
  }

  get finalBlocks() {
    return Math.max(0, this.blocks.length - FINAL_AFTER);
  }

  async lastNonce(key) {
    return this.used(key.publicKey, this.finalBlocks);
  }

  async send({ bytes, hash }) {
    const tx = { ...JSON.parse(new TextDecoder().decode(bytes)), hash };
    if (tx.nonce === this.lostNonce) throw new Error("lost");
    if (this.refusing && tx.does !== "") return this.refusing;
    if (tx.nonce <= this.used(tx.key)) {
      if (!this.blocks.flat().some((one) => one.hash === hash)) this.invalidNonces += 1;
      throw new Error("InvalidNonce");
    }
    if (!this.pool.some((one) => one.hash === hash)) this.pool.push(tx);
    if (this.unanswered > 0) {
      this.unanswered -= 1;
      throw new Error("no answer");
    }
  }

  async look({ hashes }) {
    const at = this.blocks.findIndex((block) => block.some((tx) => hashes.includes(tx.hash)));
    if (at < 0) return { look: "adrift" };
    if (at >= this.finalBlocks) return { look: "included" };
    const tx = this.blocks[at].find((one) => hashes.includes(one.hash));
    const failed = tx.does !== "" && tx.does === this.reverting ? { failed: "reverted" } : {};
    return { look: "landed", blockHeight: at, blockHash: `block ${at}`, ...failed };
  }

  async fence(turn) {
    return Chain.sign(turn, "");
  }

  async inquest(attempt, fence) {
    const look = await this.look(attempt);
    const used = this.used(attempt.key.publicKey, this.finalBlocks);
    if (look.look !== "adrift" || used < fence.nonce) return look;
    const summary = `passed by nonce ${used}`;
    return { look: "sunk", certificate: { kind: "nonce_passed", summary, evidence: { used } } };
  }
}
