//! Says where a worker is.

/// Where a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerUrl {
    /// Whether it is spoken to through TLS.
    pub tls: bool,
    /// Its name or address, an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What `Host` says.
    pub authority: String,
    /// What stands before every path, without a slash at its end.
    pub path_prefix: String,
}

impl std::fmt::Display for WorkerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path_prefix)
    }
}
