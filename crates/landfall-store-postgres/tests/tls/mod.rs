//! Encryption, as the address asks for it.

use landfall_core::store::LaneStore;
use landfall_servers::{Postgres, PostgresOptions as ServerOptions};
use landfall_store_postgres::{OpenError, PostgresOptions, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// An authority of our own, and a server with its certificate for `localhost`.
struct Encrypted {
    server: Postgres,
    folder: tempfile::TempDir,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(parameters, key).expect("an authority")
}

fn start() -> Encrypted {
    let authority = authority();
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = parameters.signed_by(&key, &authority).expect("signed");
    let tls = Some((certificate.pem(), key.serialize_pem()));
    let server = Postgres::start_with(ServerOptions { settings: Vec::new(), tls });
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("ours.pem"), authority.pem()).expect("written");
    std::fs::write(folder.path().join("other.pem"), self::authority().pem()).expect("written");
    Encrypted { server: server.expect("PostgreSQL starts"), folder }
}

impl Encrypted {
    async fn open(&self, host: &str, mode: &str, roots: &str) -> Result<PostgresStore, OpenError> {
        let (port, folder) = (self.server.port(), self.folder.path().display());
        let mut url = format!("postgres://postgres@{host}:{port}/postgres?sslmode={mode}");
        if !roots.is_empty() {
            url.push_str(&format!("&sslrootcert={folder}/{roots}"));
        }
        PostgresStore::open(&url, PostgresOptions::default()).await
    }

    fn encrypted_sessions(&self) -> String {
        let sql = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
            WHERE s.ssl AND a.application_name = 'landfall'";
        let psql = std::process::Command::new("psql")
            .args([self.server.url(), "-Atc", sql])
            .output()
            .expect("psql runs");
        String::from_utf8_lossy(&psql.stdout).trim().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_decides_who_is_trusted() {
    let server = start();
    let cases = [
        ("localhost", "verify-full", "ours.pem", true),
        // The certificate is for another name.
        ("127.0.0.1", "verify-full", "ours.pem", false),
        ("127.0.0.1", "verify-ca", "ours.pem", true),
        // Of another authority.
        ("localhost", "verify-full", "other.pem", false),
        ("localhost", "verify-ca", "other.pem", false),
        // Of none of the public ones.
        ("localhost", "verify-full", "", false),
        ("localhost", "verify-full", "none.pem", false),
        ("127.0.0.1", "require", "", true),
        ("127.0.0.1", "prefer", "", true),
    ];
    for (host, mode, roots, opens) in cases {
        let opened = server.open(host, mode, roots).await;
        let error = opened.as_ref().err().map(ToString::to_string);
        assert_eq!(opened.is_ok(), opens, "{host} {mode} {roots}: {error:?}");
        if let Ok(store) = opened {
            store.identity().await.expect("it answers");
            assert_eq!(server.encrypted_sessions(), "1", "{mode}");
        }
    }
    let plain = server.open("127.0.0.1", "disable", "").await.expect("without encryption");
    plain.identity().await.expect("it answers");
    assert_eq!(server.encrypted_sessions(), "0");
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_where_it_is_required() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let url = format!("{}?sslmode=require", server.url());
    let refused = PostgresStore::open(&url, PostgresOptions::default()).await.err();
    assert!(matches!(refused, Some(OpenError::Unreachable { .. })), "{refused:?}");
}
