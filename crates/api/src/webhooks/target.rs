//! Where deliveries go: an http or https URL that an owner of the server has given. Nothing that a machine says gets in.

use std::fmt;

use http::Uri;
use http::uri::Scheme;

use super::URL_BYTES_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    pub transport: Transport,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    /// For the header `Host`.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Plain,
    Tls,
}

impl Target {
    /// A part of what [`Target::parse`] takes, for the OpenAPI document.
    pub const PATTERN: &'static str =
        r"^https?://[A-Za-z0-9][A-Za-z0-9.-]{0,200}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~/-]*)?$";

    pub fn parse(text: &str) -> Result<Target, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("a URL may have {URL_BYTES_MAX} characters"));
        }
        let wrong = || "write a URL like https://example.org/hook".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let transport = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => Transport::Plain,
            Some(scheme) if *scheme == Scheme::HTTPS => Transport::Tls,
            Some(_) | None => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("a URL with a password in it would show it to everybody who may read. \
                        Deliveries are signed: check the signature instead"
                .into());
        }
        let port = match (uri.port_u16(), transport) {
            (Some(0), _) => return Err("there is no port 0".into()),
            (Some(port), _) => port,
            (None, _) if authority.as_str() != authority.host() => return Err(wrong()),
            (None, Transport::Plain) => 80,
            (None, Transport::Tls) => 443,
        };
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(wrong());
        }
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        Ok(Target { text: text.into(), transport, host: host.into(), port, authority: authority.to_string(), path })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, transport: Transport, host: &str, port: u16, path: &str) {
        let target = Target::parse(text).unwrap();
        assert_eq!((target.transport, target.host.as_str(), target.port), (transport, host, port));
        assert_eq!((target.path.as_str(), target.to_string().as_str()), (path, text));
    }

    #[test]
    fn urls_are_taken_apart() {
        check("http://example.org", Transport::Plain, "example.org", 80, "/");
        check("https://example.org/a/b?c=d", Transport::Tls, "example.org", 443, "/a/b?c=d");
        check("http://[::1]:8080/x", Transport::Plain, "::1", 8080, "/x");
    }

    #[test]
    fn what_is_no_url_of_a_receiver_is_refused() {
        for text in
            ["", "/x", "example.org", "ftp://example.org", "http://", "http://a:0/", "http://a:99999/", "http://a b"]
        {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        assert!(Target::parse(&format!("http://a/{}", "x".repeat(URL_BYTES_MAX))).is_err());
        let why = Target::parse("https://me:secret@example.org/").unwrap_err();
        assert!(why.contains("password") && !why.contains("secret"), "{why}");
    }
}
