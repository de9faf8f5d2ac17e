//! `landfall serve`: the relay as configured, until it is told to leave.
//!
//! SIGTERM or SIGINT stops intake, lets attempts in flight be stored and lanes be released, and
//! leaves within `engine.grace_ms`. A second signal leaves at once. `kill -9` is just a slower
//! shutdown: everything that was answered is in the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use landfall_api::Api;
use landfall_core::Clock;
use landfall_engine::Role;
use landfall_lanes::supervise;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli::{ConfigArguments, RoleArgument};
use crate::config::{self, Auth, Config, Need, QueueUrl, Sources};
use crate::doors::{Doors, Patience};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::wire::{self, Relay};

/// Connections to the listener of the metrics: several Prometheus servers, with room to spare.
const METRICS_CONNECTIONS: u64 = 32;

pub async fn run(arguments: &ConfigArguments) -> Result<()> {
    let data = arguments.data.as_ref().map(|path| path.display().to_string());
    let sources = Sources::surroundings(arguments.config.clone())
        .with_flag("api.listen", "--listen", arguments.listen.clone())
        .with_flag("instance.data", "--data", data);
    let need = match arguments.role {
        RoleArgument::Api => Need::Take,
        RoleArgument::Both | RoleArgument::Worker => Need::Serve,
    };
    let config = config::load(&sources, need)?;
    let role = role(&config, arguments.role)?;
    wire::start_log(&config);
    let mut leave = Leave::new()?;
    let folder = Folder::take(&config.instance.data)?;
    let listener = listen(config.api.listen).await?;
    let clock = wire::clock();
    let relay = tokio::select! {
        started = wire::start(&config, role, &folder, clock.clone()) => started?,
        () = leave.asked() => return Ok(()),
    };
    announce(&config, role, &listener, &relay);
    until_told(relay, listener, &config, clock, leave).await
}

/// One process must do both where nobody else can see what it took.
fn role(config: &Config, role: RoleArgument) -> Result<Role> {
    let role = match role {
        RoleArgument::Both => return Ok(Role::Both),
        RoleArgument::Api => Role::Api,
        RoleArgument::Worker => Role::Worker,
    };
    if !config.store_url().is_shared() {
        return Err(Failure::Mistaken(
            "--role parts the work between processes, and this store belongs to one process; \
             leave --role out, or name a shared store: store.url = \"redis://…\", \
             \"postgres://…\" or \"mysql://…\""
                .into(),
        ));
    }
    if config.queue_url() == QueueUrl::Ring {
        tracing::warn!("queue.url is ring:, which other processes do not hear; the sweeper will");
    }
    Ok(role)
}

fn announce(config: &Config, role: Role, listener: &TcpListener, relay: &Relay) {
    if config.api.auth == Auth::Off && !config.api.listen.ip().is_loopback() {
        tracing::warn!("api.auth is off: whoever reaches the port can pay out");
    }
    tracing::info!(
        listen = %listener.local_addr().unwrap_or(config.api.listen),
        role = ?role,
        network = relay.network.as_deref().unwrap_or("-"),
        data = %config.instance.data.display(),
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
}

pub async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Unable(format!(
            "cannot listen on {address} ({error}); stop what listens there, or name another \
             address by --listen"
        ))
    })
}

/// Signals that ask the process to leave.
pub struct Leave {
    terminate: Signal,
    interrupt: Signal,
}

impl Leave {
    pub fn new() -> Result<Leave> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Leave { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves until a signal, then leaves within the grace.
pub async fn until_told(
    relay: Relay,
    listener: TcpListener,
    config: &Config,
    clock: Arc<dyn Clock>,
    mut leave: Leave,
) -> Result<()> {
    let grace = Duration::from_millis(config.engine.grace_ms);
    let (stop, stopped) = watch::channel(false);
    let (head_ms, idle_ms) = (config.api.head_timeout_ms, config.api.idle_timeout_ms);
    let patience = Patience { head_ms, body_ms: None, idle_ms };
    let doors = Doors::new(clock.clone(), patience, config.api.connections_max);
    let Api { router, metrics, pulse } = relay.api;
    // It ends with this function, and is begun again if it dies.
    let mut watching = JoinSet::new();
    let beating = clock.clone();
    watching
        .spawn(async move { supervise(&*beating, "pulse", || (), || pulse.clone().beat()).await });
    if let Some(address) = config.api.metrics_listen {
        let listener = listen(address).await?;
        tracing::info!(listen = %listener.local_addr().unwrap_or(address), "serving /metrics");
        let doors = Doors::new(clock.clone(), patience, METRICS_CONNECTIONS);
        watching.spawn(doors.serve(listener, metrics, stopped.clone()));
    }
    let mut serving = tokio::spawn(doors.serve(listener, router, stopped));
    tokio::select! {
        ended = &mut serving => {
            let why = ended.map_or_else(|error| error.to_string(), |ended| format!("{ended:?}"));
            return Err(Failure::Unable(format!("the server ended by itself: {why}")));
        }
        () = leave.asked() => {}
    }
    tracing::info!(grace_ms = config.engine.grace_ms, "leaving");
    stop.send_replace(true);
    let orderly = async {
        relay.engine.stop(grace).await;
        // Answers under way may finish; nobody new is let in.
        let _ = serving.await;
    };
    tokio::select! {
        () = orderly => tracing::info!("left in order"),
        () = clock.sleep(grace) => tracing::warn!("left without waiting for the rest"),
        () = leave.asked() => tracing::warn!("left at once, as told twice"),
    }
    Ok(())
}
