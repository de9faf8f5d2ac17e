//! Encryption, by the `sslmode` of the URL, with the meanings that PostgreSQL's own clients give
//! it.
//!
//! `disable`; `prefer` (the default) and `require` encrypt without asking who answers; `verify-ca`
//! wants a certificate of `sslrootcert` (a file of PEM; without it, of the public authorities), and
//! `verify-full` also that it is for the host.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Whom a server's certificate must come from, and whom it must be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Anybody,
    Authority,
    AuthorityAndName,
}

/// What the URL says of encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub mode: SslMode,
    pub trust: Trust,
    pub roots: Option<String>,
}

/// Takes `sslmode` and `sslrootcert` out of a URL (or of `key=value` words): the client knows but
/// three modes and no file.
pub(crate) fn split(url: &str) -> Result<(String, Wanted), String> {
    let (mut mode, mut roots) = (None, None);
    let mut keep = |word: &&str| match word.split_once('=') {
        Some(("sslmode", value)) => {
            mode = Some(value.to_owned());
            false
        }
        Some(("sslrootcert", value)) => {
            roots = Some(value.replace("%2F", "/").replace("%2f", "/"));
            false
        }
        _ => true,
    };
    let rest = match url.split_once('?') {
        Some((start, query)) => {
            let kept: Vec<&str> = query.split('&').filter(&mut keep).collect();
            if kept.is_empty() { start.to_owned() } else { format!("{start}?{}", kept.join("&")) }
        }
        None if url.contains("://") => url.to_owned(),
        None => url.split_whitespace().filter(&mut keep).collect::<Vec<_>>().join(" "),
    };
    let (mode, trust) = match mode.as_deref() {
        Some("disable") => (SslMode::Disable, Trust::Anybody),
        None | Some("prefer") => (SslMode::Prefer, Trust::Anybody),
        Some("require") => (SslMode::Require, Trust::Anybody),
        Some("verify-ca") => (SslMode::Require, Trust::Authority),
        Some("verify-full") => (SslMode::Require, Trust::AuthorityAndName),
        Some(_) => {
            let known = "disable, prefer, require, verify-ca and verify-full";
            return Err(format!("its sslmode is none of {known}"));
        }
    };
    Ok((rest, Wanted { mode, trust, roots }))
}

/// What makes encrypted connections.
pub(crate) fn connector(wanted: &Wanted) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(wanted, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    wanted: &Wanted,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if wanted.trust == Trust::Anybody {
        return Ok(Arc::new(Lenient { chain: None, provider: provider.clone() }));
    }
    let mut roots = RootCertStore::empty();
    match &wanted.roots {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unreadable = |cause: String| format!("sslrootcert {file} cannot be used: {cause}");
            let certificates = CertificateDer::pem_file_iter(Path::new(file))
                .map_err(|error| unreadable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
        }
    }
    let whole = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| format!("sslrootcert holds no certificate: {error}"))?;
    Ok(match wanted.trust {
        Trust::AuthorityAndName => whole,
        _ => Arc::new(Lenient { chain: Some(whole), provider: provider.clone() }),
    })
}

/// Verifies less than everything, as the URL asks: the chain without the name, or neither. That the
/// server has the key of the certificate it shows is verified always.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(certificate, chain, name, ocsp, now) {
            // The name is looked at last, after all that is asked for here.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, rest: &str, mode: SslMode, trust: Trust, roots: Option<&str>) {
        let wanted = Wanted { mode, trust, roots: roots.map(str::to_owned) };
        assert_eq!(split(url), Ok((rest.to_owned(), wanted)));
    }

    #[test]
    fn the_mode_is_taken_out_of_every_kind_of_address() {
        check("postgres://h/d", "postgres://h/d", SslMode::Prefer, Trust::Anybody, None);
        check(
            "postgres://h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem",
            "postgres://h/d?connect_timeout=3",
            SslMode::Require,
            Trust::AuthorityAndName,
            Some("/etc/ca.pem"),
        );
        check(
            "postgres://h/d?sslmode=require",
            "postgres://h/d",
            SslMode::Require,
            Trust::Anybody,
            None,
        );
        check(
            "host=h sslmode=verify-ca user=u",
            "host=h user=u",
            SslMode::Require,
            Trust::Authority,
            None,
        );
    }

    #[test]
    fn an_unknown_mode_is_refused_not_guessed() {
        assert!(split("postgres://h/d?sslmode=verify").is_err());
    }
}
