//! Every setting: its type, its default, its limits and its reason. `docs/configuration.md` is
//! made from this list.

use std::net::SocketAddr;
use std::path::PathBuf;

use landfall_core::evm::Address;
use landfall_core::internal::Asset;
use landfall_rail_evm::Finality;
use landfall_rpc::Url;
use near_account_id::AccountId;

use super::chains::{ChainSpec, Executor, RelayerSpec};
use super::kinds::{ApiKey, Auth, CacheUrl, LogFormat, Metrics, QueueUrl, StoreUrl};
use super::pools::SolanaAddress;
use super::secret::{SigningKeys, SigningKeysFile};
use super::services::ServiceSpec;
use super::table::{group, settings};

settings! {
    /// The HTTP API.
    api: Api {
        /// Where to listen. Loopback, so that nothing is open to a network by accident; a port
        /// alone listens on all interfaces.
        listen: SocketAddr = "127.0.0.1:3000", seed "SERVER_PORT";
        /// Who may call: "keys" wants one of `api.keys` from every caller, "off" lets anybody pay
        /// out who can reach the port.
        auth: Auth = "keys";
        /// The callers, each with a key, a tenant (the scope of its idempotency keys) and scopes
        /// ("submit", "read"; "operate" sees all of `/health`, and `/metrics`). A key may be given
        /// as `sha256:` and its digest in hexadecimal, so that the file does not hold it. In a
        /// variable: a JSON array.
        keys: Vec<ApiKey> = "";
        /// Who may read `/metrics`: "key" wants one with the scope "operate" (where `api.auth` is
        /// "keys"), "open" lets everybody.
        metrics: Metrics = "key";
        /// A second address that serves `/metrics` alone, without keys, for a network that only
        /// Prometheus reaches.
        metrics_listen: Option<SocketAddr> = "";
        /// Largest body of `POST /transfer`. A payout takes a few hundred bytes.
        body_limit_bytes: u64 = "65536", in 1024..=16777216;
        /// Largest body of `POST /transfers`. A thousand payouts with long memos fit.
        many_limit_bytes: u64 = "4194304", in 1024..=67108864;
        /// Most payouts in one `POST /transfers`: one commit, so nobody waits long behind it.
        many_max: u64 = "1000", in 1..=10000;
        /// Requests a second that each key may make, each payout of `POST /transfers` counting as
        /// one; 0 is without limit.
        rate_limit_per_s: u64 = "0", in 0..=1000000;
        /// Most clients that wait (`?wait=`) for a transfer to become final; one more is answered
        /// at once, with the transfer as it is.
        waits_max: u64 = "10000", in 0..=1000000;
        /// Most connections at once; fewer where the process may not have so many file descriptors
        /// (of which some are kept for the store and the ledgers). When all are taken, a newcomer
        /// gets the place of whoever has been waiting without a request for longest.
        connections_max: u64 = "10000", in 8..=1000000;
        /// How long a client may take over a request's head, from the connection's beginning or
        /// the head's first byte on; then the connection is closed.
        head_timeout_ms: u64 = "10000", in 100..=600000;
        /// How long a request's body may take to arrive, then it is refused with 408. Four
        /// mebibytes need no more than a megabit a second.
        body_timeout_ms: u64 = "30000", in 100..=600000;
        /// How long a connection is kept open without a request; longer than the minute for which
        /// load balancers keep theirs, so that it is they who close.
        idle_timeout_ms: u64 = "75000", in 100..=3600000;
    }
    /// The truth: where transfers and attempts are kept.
    store: Store {
        /// `sqlite:PATH` for one machine; `redis://…`, `postgres://…` or `mysql://…` for several;
        /// `memory:` for trials (it forgets everything on exit). Without it, `landfall.db` in the
        /// data folder. With both variables, `DATABASE_URL` is the store and `REDIS_URL` the
        /// queue and the cache.
        url: Option<StoreUrl> = "", seed "REDIS_URL" "DATABASE_URL";
        /// Connections to a database server. Batches share them, so few are enough.
        connections: u64 = "8", in 2..=1000;
        /// Patience for one call to a database server; then the store counts as unavailable.
        timeout_ms: u64 = "5000", in 100..=120000;
        /// Whether a start brings the schema of a database up to date. If not, `landfall migrate`
        /// has to.
        migrate: bool = "true";
        /// Whether MySQL is reached by TLS. For PostgreSQL and Redis the URL says so
        /// (`?sslmode=verify-full`, `rediss://`).
        tls: bool = "false";
        /// A file of authorities (PEM) to check MySQL's certificate with, beside those that
        /// browsers know.
        tls_ca: Option<PathBuf> = "";
        /// Separates what several relays keep in one Redis.
        environment: String = "main";
        /// Settings of a database server that can forget what was acknowledged and are taken all
        /// the same, by the names that the refusal gives: "everysec" of Redis, say, or
        /// "synchronous_commit" of PostgreSQL. A relay whose store forgot halts its lanes.
        accept_durability: Vec<String> = "";
    }
    /// Hints of what to do next. Losing them costs time, never a transfer.
    queue: Queue {
        /// `ring:`, in process; `store:`, by claiming what is due in the store; `redis://…`, Redis
        /// Streams; `sqs:QUEUE`, AWS SQS. Without it, what fits the store: the ring for one
        /// process, Redis Streams on Redis, the store on a database.
        url: Option<QueueUrl> = "", seed "REDIS_URL";
        /// Hints the ring holds; what does not fit is found by the sweeper.
        capacity: u64 = "10000", in 1..=10000000;
    }
    /// What is kept at hand before the store. Losing it costs time, never an answer.
    cache: Cache {
        /// `redis://…` for final statuses of calls on EVM chains, ten minutes each, so that reading
        /// them again costs the store nothing. Without it, all reads are the store's.
        url: Option<CacheUrl> = "", seed "REDIS_URL";
    }
    /// The NEAR rail: token payouts.
    near: Near {
        /// Nodes to ask. With several, none is believed alone: whatever decides about a payment is
        /// the word of a quorum of them, so that with three one may fail or lie. With one, that
        /// node is trusted. In a variable: separated by commas.
        rpc_urls: Vec<Url> = "", seed "NEAR_RPC_URL";
        /// The chain id that every node must show ("mainnet", "testnet"). Without it, whatever
        /// the nodes show when the relay first reaches them.
        network: Option<String> = "", seed "NEAR_NETWORK";
        /// The contract of the token that is paid out.
        token: Option<AccountId> = "", seed "FT_TOKEN_ADDRESS";
        /// The account that pays.
        relay_account: Option<AccountId> = "", seed "RELAY_ACCOUNT_ID";
        /// Full-access keys of that account, `ed25519:…`. Each is a lane of its own: more keys,
        /// more transactions in flight. In a variable: a JSON array.
        access_keys: SigningKeys = "", seed "RELAY_ACCESS_KEYS";
        /// A file with the keys instead: one to a line, or a JSON array.
        access_keys_file: Option<SigningKeysFile> = "";
        /// Gas for one `ft_transfer`. The standard contract takes 1.7 alone and 1.6 in a batch.
        gas_per_transfer_tgas: u64 = "3", in 1..=300;
        /// Gas for one `storage_deposit`. The standard contract takes 1.5.
        gas_per_registration_tgas: u64 = "3", in 1..=300;
        /// The most that is attached to register a receiver, in thousandths of a NEAR, whatever
        /// the contract asks for. The standard contract asks for 1.25.
        deposit_max_millinear: u64 = "50", in 1..=1000000;
        /// Gas of a whole transaction. 300 is every protocol's limit; 1000 since protocol 83.
        gas_per_transaction_tgas: u64 = "300", in 1..=1000;
        /// Payouts in one transaction. 100 actions are the protocol's limit.
        batch_max: u64 = "100", in 1..=100;
        /// How long a payout waits for others to share its transaction.
        linger_ms: u64 = "20", in 0..=10000;
        /// Transactions of one key that may be on their way at once. With more than one they leave
        /// in the order of their nonces, through one node, and one of which nothing is known holds
        /// up the rest.
        window: u64 = "1", in 1..=64;
        .. retries: Retries;
        .. nodes: Nodes;
    }
    /// The internal rail: users' funds move between services. Off without services.
    internal: Internal {
        /// The services, at least two: `{name, url, freezes, dedupe_window_s}`, where the window is
        /// the seconds for which it remembers request ids, or "forever". Also `auth_header`,
        /// `auth`, `timeout_ms`, `commits` (false for one that does not freeze and has no commit)
        /// and, where they differ from the contract, `withdraw_path`, `deposit_path`,
        /// `commit_path`, `rollback_path`, `query_path`. In a variable: a JSON array.
        services: Vec<ServiceSpec> = "";
        /// What can be moved: `{id, symbol, decimals}`. In a variable: a JSON array.
        assets: Vec<Asset> = "";
        /// Whether every request must bring an `Idempotency-Key`. Without one a client that
        /// repeats a request whose answer was lost moves the funds twice.
        key_required: bool = "false";
        /// How long a request waits for its transfer to be final before it is "pending".
        process_now_ms: u64 = "500", in 0..=30000;
        /// Transfers driven at once: each is a call to a service in flight.
        concurrency: u64 = "256", in 1..=100000;
        /// Retries of one step from which operators are told. Nothing is ever given up.
        alert_after_retries: u64 = "10", in 1..=1000000;
        /// Age of a transfer that is being retried from which operators are told.
        alert_after_s: u64 = "300", in 1..=31536000;
        .. retries: Retries;
    }
    /// The EVM rail: calls on one chain, and on others by name. Off without nodes.
    evm: Evm {
        /// Nodes to ask, as `near.rpc_urls`: with several, none is believed alone. In a variable:
        /// separated by commas.
        rpc_urls: Vec<Url> = "";
        /// The chain's name: a request that names no chain is for this one.
        name: String = "main";
        /// The number that every node must show (1 is Ethereum). Without it, whatever a quorum of
        /// the nodes shows at the start.
        chain_id: Option<u64> = "";
        /// Secret keys in hexadecimal. Each is a lane of its own, and pays for its own calls. In a
        /// variable: a JSON array.
        signers: SigningKeys = "";
        /// A file with the keys instead: one to a line, or a JSON array.
        signers_file: Option<SigningKeysFile> = "";
        /// A key in an encrypted file, as geth and cast write it, beside the others.
        keystore: Option<SigningKeysFile> = "";
        /// The file with its password.
        keystore_password_file: Option<SigningKeysFile> = "";
        /// The contract (ERC-2771, as OpenZeppelin has it) that users' requests are for. Without it
        /// none are taken.
        forwarder: Option<Address> = "";
        /// When a call is final: "finalized" and "safe" as the nodes say, or a number of
        /// confirmations, with that of its own block.
        finality: Finality = "finalized";
        /// Calls of one signer that may be on their way at once: nodes hold 64 of an account.
        window: u64 = "64", in 1..=1024;
        /// The most that is offered for a unit of gas, in thousand-millionths of the chain's coin.
        fee_max_gwei: u64 = "500", in 1..=1000000000;
        /// The most of it that is a tip.
        tip_max_gwei: u64 = "50", in 0..=1000000000;
        /// Added to the gas that nodes estimate: a call may take more when it is mined.
        gas_margin_percent: u64 = "25", in 0..=1000;
        /// Whether a call that would fail now, by the word of a quorum, is refused before it is
        /// signed.
        preflight: bool = "true";
        /// How long a call may be in no block before more is offered for it.
        replace_after_ms: u64 = "30000", in 100..=86400000;
        /// How often nodes are asked for new blocks while a call is on its way.
        pulse_ms: u64 = "500", in 20..=60000;
        /// Who signs and sends: "native", this relay; or "openzeppelin", the OpenZeppelin Relayers
        /// of `evm.relayers`, to which calls on the first chain are handed over.
        executor: Executor = "native";
        /// `{url, id}` of each relayer, with `name`, `api_key`, `address` (from which it signs,
        /// where it does not tell), `routes` ("openzeppelin" or, for a service in front of one,
        /// "bare") and `timeout_ms` (30000). A name must stay that of the same relayer. In a
        /// variable: a JSON array.
        relayers: Vec<RelayerSpec> = "";
        /// Other chains, in the file as `[[evm.chains]]`: `{name, rpc_urls, chain_id, signers,
        /// signers_file, forwarder, finality, window}`; what one does not say is as above. In a
        /// variable: a JSON array.
        chains: Vec<ChainSpec> = "";
        .. retries: Retries;
        .. nodes: Nodes;
    }
    /// The Solana rail: private withdraws from a shield pool. Off without nodes.
    solana: Solana {
        /// Nodes to ask, as `near.rpc_urls`: with several, none is believed alone. In a variable:
        /// separated by commas.
        rpc_urls: Vec<Url> = "", seed "SOLANA_RPC_URL";
        /// "mainnet-beta", "devnet" or "testnet", which every node must serve; or a name of your
        /// own. It must stay the same. Without it, what the nodes' first block tells.
        network: Option<String> = "";
        /// The shield pool's program.
        program: SolanaAddress = "c1oak6tetxYnNfvXKFkpn1d98FxtK7B68vBQLYQpWKp";
        /// A fee payer's keypair, as solana-keygen writes it, or a folder of such files. Each is a
        /// lane of its own, and pays for its own transactions.
        keypair_path: Option<SigningKeysFile> = "", seed "RELAY_KEYPAIR_PATH";
        /// Keypairs in base58 instead, or beside it. In a variable: a JSON array.
        keypairs: SigningKeys = "";
        /// Withdraws of one fee payer that may be on their way at once.
        window: u64 = "64", in 1..=4096, seed "WORKER_MAX_CONCURRENT_JOBS";
        /// How often a withdraw is tried again that the pool refuses for now.
        retries: u64 = "3", in 0..=1000, seed "WORKER_MAX_RETRIES";
        /// First pause before that; doubles, with jitter.
        retry_ms: u64 = "30000", in 10..=3600000;
        /// The most that is offered for a unit of a transaction's 400,000, in millionths of a
        /// lamport: at 2,500,000 a SOL pays for a thousand transactions.
        price_max: u64 = "2500000", in 0..=1000000000;
        /// The least that is offered.
        price_min: u64 = "0", in 0..=1000000000;
        /// Whether a withdraw is refused at the door whose root the pool does not know.
        screen_roots: bool = "true";
        /// How often the same bytes are sent again, to all nodes: they forget what they forwarded.
        rebroadcast_ms: u64 = "2000", in 50..=60000;
        /// How often nodes are asked about all that is on its way.
        pulse_ms: u64 = "400", in 20..=60000;
        .. nodes: Nodes;
    }
    /// How transfers are driven.
    engine: Engine {
        /// How long a lane is held without renewal: after a crash another process may take it
        /// then.
        lease_ms: u64 = "10000", in 1000..=600000;
        /// How often leases are renewed; three chances within a lease. Half a second, in which a
        /// failed question is repeated, is the least.
        renew_ms: u64 = "3000", in 500..=200000;
        /// How long an attempt may be adrift before a fence is sent to decide it.
        fence_after_ms: u64 = "60000", in 1000..=86400000;
        /// First pause before the same bytes are sent again; doubles.
        rebroadcast_ms: u64 = "1000", in 10..=600000;
        /// Where the doubling ends.
        rebroadcast_max_ms: u64 = "30000", in 10..=3600000;
        /// How often the store is searched for what a lost hint left behind.
        sweep_ms: u64 = "1000", in 10..=600000, seed "WORKER_POLL_INTERVAL_MS";
        /// Failures charged to a transfer while its receiver is registered, before it is a dead
        /// letter.
        registration_retries: u64 = "10", in 0..=1000, seed "MAX_RETRIES";
        /// Failures charged to a transfer while it is paid.
        transfer_retries: u64 = "10", in 0..=1000, seed "MAX_RETRIES";
        /// Failures charged to a transfer while its payment is verified.
        verification_retries: u64 = "20", in 0..=1000, seed "MAX_VERIFICATION_RETRIES";
        /// First pause before a failed step is tried again; doubles, with jitter. Of rails that
        /// have no `retry_ms` of their own.
        retry_ms: u64 = "500", in 10..=600000;
        /// Where the doubling ends, of rails that have no `retry_max_ms` of their own.
        retry_max_ms: u64 = "60000", in 10..=3600000;
        /// Where the pauses of a rail that can pay nobody end, which begin with 2 s and double:
        /// the contract is paused, say, or the relay is out of funds. After each it looks or
        /// tries again, with one payout.
        pause_max_ms: u64 = "60000", in 2000..=3600000;
        /// Where the waits of a payout end that fails also alone while others are paid, which
        /// begin with 5 s and double.
        aside_max_ms: u64 = "300000", in 5000..=86400000;
        /// Unfinished transfers above which new ones are refused with 503: what is taken must
        /// also be paid in reasonable time.
        backlog_max: u64 = "1000000", in 1..=100000000;
        /// How long a shutdown may take before the process leaves anyway.
        grace_ms: u64 = "30000", in 0..=600000;
    }
    /// This process.
    instance: Instance {
        /// The name under which lanes are held: a process that restarts under its name takes its
        /// lanes back at once. Without it, the one kept in the data folder.
        name: Option<String> = "";
        /// Folder for what this instance must remember: its name, how far its store had come,
        /// and, by default, the store itself.
        data: PathBuf = "landfall-data";
    }
    /// What is written to standard error.
    log: Log {
        /// "json" for machines, "pretty" for people.
        format: LogFormat = "json";
        /// error, warn, info, debug or trace; or directives such as "info,landfall_engine=debug".
        level: String = "info";
    }
}

group! {
    /// How the nodes of a ledger are called, and how far they are believed.
    Nodes {
        /// Patience for one call to a node. Nodes themselves give up after 10 s.
        rpc_timeout_ms: u64 = "10000", in 100..=120000;
        /// Distinct nodes that must say the same before it counts: that a payment was made, or
        /// never was, that a key was used by somebody else. Without it, a majority of them.
        quorum: Option<u64> = "";
        /// Failures in a row after which a node is left alone.
        breaker_failures: u64 = "10", in 1..=1000;
        /// How long it is left alone the first time; each further time doubles it.
        breaker_open_ms: u64 = "30000", in 100..=3600000;
        /// Where the doubling ends.
        breaker_open_max_ms: u64 = "300000", in 100..=86400000;
        /// Successes after which it is trusted again.
        breaker_successes: u64 = "3", in 1..=100;
    }
}

group! {
    /// How long a rail's failed steps wait.
    Retries {
        /// First pause before a failed step on this rail is tried again; doubles, with jitter.
        /// Without it, `engine.retry_ms`.
        retry_ms: Option<u64> = "", in 10..=600000;
        /// Where the doubling ends on this rail. Without it, `engine.retry_max_ms`.
        retry_max_ms: Option<u64> = "", in 10..=3600000;
    }
}
