//! Certificates, made for a test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, IsCa, Issuer, KeyPair, date_time_ymd,
};

use crate::failure::{Failure, Outcome};

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub certificate: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A new one, which nobody knows.
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub fn new() -> Outcome<Self> {
        let made = || {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new([])?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            // Not that of what it signs: Envoy would take such a certificate for one signed by itself.
            params.distinguished_name.push(DnType::CommonName, "authority");
            let certificate = pem("CERTIFICATE", params.self_signed(&key)?.der());
            Ok(Self { issuer: Issuer::new(params, key), certificate })
        };
        made().map_err(|error: Error| Failure::new(format!("no certificate: {error}")))
    }

    /// A certificate for a DNS name.
    ///
    /// # Errors
    ///
    /// If it is no name.
    pub fn issue(&self, name: &str) -> Outcome<Pair> {
        self.issue_with(name, |_| ())
    }

    /// One that was good until the end of 2024.
    ///
    /// # Errors
    ///
    /// As [`Authority::issue`].
    pub fn issue_expired(&self, name: &str) -> Outcome<Pair> {
        self.issue_with(name, |params| params.not_after = date_time_ymd(2024, 12, 31))
    }

    fn issue_with(&self, name: &str, edit: impl FnOnce(&mut CertificateParams)) -> Outcome<Pair> {
        let made = || {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new([name.to_owned()])?;
            edit(&mut params);
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Pair {
                certificate: pem("CERTIFICATE", certificate.der()),
                key: pem("PRIVATE KEY", &key.serialize_der()),
            })
        };
        made().map_err(|error: Error| Failure::new(format!("no certificate: {error}")))
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
