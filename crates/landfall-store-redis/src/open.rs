//! Opening: which server, which environment, whose data.

use landfall_core::store::StoreError;
use rand::RngCore;
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo, TlsCertificates};

use crate::RedisOptions;
use crate::answer::{self, Fields};
use crate::fault::Done;
use crate::keys::Keys;
use crate::link::Link;
use crate::script::SCRIPTS;
use crate::server::{ACCEPTABLE, Refusal};

/// The layout of keys that this build reads and writes (`keys`).
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// Attempts brought into the new layout at a time: a few milliseconds of the server's.
const MIGRATED_TOGETHER: usize = 1_000;

/// Why a store cannot be opened, each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the server at {place} cannot be the store: {refusal}")]
    Refused { place: String, refusal: Refusal },
    #[error(
        "the URL of the store cannot be used ({cause}); give redis://[user:password@]host:port"
    )]
    BadUrl { cause: String },
    #[error("{name} cannot be {value:?}: {rule}")]
    BadOption { name: &'static str, value: String, rule: String },
    #[error(
        "environment {environment} at {place} was written by a newer Landfall (schema {found}, \
         this one knows {known}); run the newer version, or restore a backup made before the \
         upgrade"
    )]
    Newer { place: String, environment: String, found: u32, known: u32 },
    #[error(
        "environment {environment} at {place} is damaged ({cause}); restore a backup, and adopt \
         the lanes that halt"
    )]
    Damaged { place: String, environment: String, cause: String },
    #[error("the store at {place} is unavailable: {cause}")]
    Unavailable { place: String, cause: String },
}

/// A link to the environment, which is made if it is new.
pub(crate) async fn link(options: &RedisOptions) -> Result<Link, OpenError> {
    check_options(options)?;
    let link = Link::new(
        client(options)?,
        Keys::new(&options.prefix, &options.environment),
        options.call_timeout,
        options.accept_durability.clone(),
    );
    link.connect().await?;
    let (identity, found) = identity(&link, options).await?;
    link.tie(identity);
    if found < SCHEMA_VERSION {
        migrate(&link).await.map_err(|error| failed(&link, options, error))?;
    }
    Ok(link)
}

/// A server that was found fit to be the truth, for keys that are none of the store's.
pub struct FitServer(Link);

impl FitServer {
    /// Connects, and checks what the server promises, as of the store; again after every loss of
    /// the connection.
    pub async fn connect(options: &RedisOptions) -> Result<FitServer, OpenError> {
        check_options(options)?;
        let link = Link::new(
            client(options)?,
            Keys::new(&options.prefix, &options.environment),
            options.call_timeout,
            options.accept_durability.clone(),
        );
        link.connect().await?;
        Ok(FitServer(link))
    }

    /// Runs commands in one round trip; one answer each. One whose answer is lost may have been
    /// done.
    pub async fn pipeline(&self, pipeline: &redis::Pipeline) -> Done<Vec<redis::Value>> {
        self.0.pipeline(pipeline).await
    }
}

/// Brings the layout up to date, or goes on where somebody was cut off.
async fn migrate(link: &Link) -> Done<()> {
    let together = || vec![MIGRATED_TOGETHER.to_string().into_bytes()];
    while !answer::yes(link.run(&SCRIPTS.migrate, together()).await?)? {}
    Ok(())
}

fn check_options(options: &RedisOptions) -> Result<(), OpenError> {
    for (name, value) in [("prefix", &options.prefix), ("environment", &options.environment)] {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if value.is_empty() || !value.bytes().all(plain) {
            let rule = "letters, digits and -_.: only, and at least one".to_owned();
            return Err(OpenError::BadOption { name, value: value.clone(), rule });
        }
    }
    let unknown = |name: &&String| !ACCEPTABLE.contains(&name.as_str());
    match options.accept_durability.iter().find(unknown) {
        Some(value) => Err(OpenError::BadOption {
            name: "accept_durability",
            value: value.clone(),
            rule: format!("one of {}", ACCEPTABLE.join(", ")),
        }),
        None => Ok(()),
    }
}

fn client(options: &RedisOptions) -> Result<Client, OpenError> {
    // The parser's own words name no part of the URL, so no password.
    let bad = |error: redis::RedisError| OpenError::BadUrl { cause: error.category().to_owned() };
    let info = options.url.as_str().into_connection_info().map_err(bad)?;
    // Otherwise the end of a large batch waits for the server to acknowledge its beginning: 40 ms.
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    if !matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        return Client::open(info).map_err(bad);
    }
    // Where several are linked in, none is the default by itself. Another one's choice stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root_cert = options.root_certificate.clone();
    let certificates = TlsCertificates { client_tls: None, root_cert };
    Client::build_with_tls(info, certificates).map_err(bad)
}

fn failed(link: &Link, options: &RedisOptions, error: StoreError) -> OpenError {
    let place = link.place.clone();
    match error {
        StoreError::Unavailable(cause) => OpenError::Unavailable { place, cause },
        StoreError::Corrupt(cause) => {
            OpenError::Damaged { place, environment: options.environment.clone(), cause }
        }
    }
}

/// The store's identity, and the schema that it has.
async fn identity(link: &Link, options: &RedisOptions) -> Result<(String, u32), OpenError> {
    let failed = |error| failed(link, options, error);
    let args = [drawn().into_bytes(), SCHEMA_VERSION.to_string().into_bytes()];
    let answer = link.run_untied(&SCRIPTS.create, &args).await.map_err(failed)?;
    let read = || {
        let mut fields = Fields::of(answer)?;
        Ok((fields.text()?, fields.parsed::<u32>()?))
    };
    let (Some(identity), Some(found)) = read().map_err(failed)? else {
        let why = "it has records but neither an identity nor a schema";
        return Err(failed(StoreError::Corrupt(why.into())));
    };
    if found > SCHEMA_VERSION {
        let (place, known) = (link.place.clone(), SCHEMA_VERSION);
        let environment = options.environment.clone();
        return Err(OpenError::Newer { place, environment, found, known });
    }
    Ok((identity, found))
}

/// An identity that no other store has.
fn drawn() -> String {
    let mut bytes = [0; 16];
    rand::rng().fill_bytes(&mut bytes);
    hex::encode(bytes)
}
