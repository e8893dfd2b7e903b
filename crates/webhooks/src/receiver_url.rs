//! The URL of a receiver, http or https. It is configured by an owner of the server and contains no input from machines.

use std::fmt;

use http::Uri;
use http::uri::Scheme;

use super::URL_BYTES_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverUrl {
    text: String,
    pub scheme: ReceiverScheme,
    /// Host name or address without brackets.
    pub host: String,
    pub port: u16,
    /// Value of the `Host` header.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverScheme {
    Plain,
    Tls,
}

impl ReceiverUrl {
    pub fn parse(text: &str) -> Result<ReceiverUrl, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("the URL is longer than {URL_BYTES_MAX} bytes"));
        }
        let invalid = || "use a URL such as https://example.org/hook".to_owned();
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let scheme = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => ReceiverScheme::Plain,
            Some(scheme) if *scheme == Scheme::HTTPS => ReceiverScheme::Tls,
            Some(_) | None => return Err(invalid()),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        if authority.as_str().contains('@') {
            return Err("the URL contains a password, which every reader of the webhook would see. \
                        Remove it and verify the signatures of deliveries instead"
                .into());
        }
        let port = match (uri.port_u16(), scheme) {
            (Some(0), _) => return Err("port 0 is not valid".into()),
            (Some(port), _) => port,
            (None, _) if authority.as_str() != authority.host() => return Err(invalid()),
            (None, ReceiverScheme::Plain) => 80,
            (None, ReceiverScheme::Tls) => 443,
        };
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(invalid());
        }
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        Ok(ReceiverUrl { text: text.into(), scheme, host: host.into(), port, authority: authority.to_string(), path })
    }
}

impl fmt::Display for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, scheme: ReceiverScheme, host: &str, port: u16, path: &str) {
        let target = ReceiverUrl::parse(text).unwrap();
        assert_eq!((target.scheme, target.host.as_str(), target.port), (scheme, host, port));
        assert_eq!((target.path.as_str(), target.to_string().as_str()), (path, text));
    }

    #[test]
    fn urls_are_parsed() {
        check("http://example.org", ReceiverScheme::Plain, "example.org", 80, "/");
        check("https://example.org/a/b?c=d", ReceiverScheme::Tls, "example.org", 443, "/a/b?c=d");
        check("http://[::1]:8080/x", ReceiverScheme::Plain, "::1", 8080, "/x");
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in
            ["", "/x", "example.org", "ftp://example.org", "http://", "http://a:0/", "http://a:99999/", "http://a b"]
        {
            assert!(ReceiverUrl::parse(text).is_err(), "{text}");
        }
        assert!(ReceiverUrl::parse(&format!("http://a/{}", "x".repeat(URL_BYTES_MAX))).is_err());
        let error = ReceiverUrl::parse("https://me:secret@example.org/").unwrap_err();
        assert!(error.contains("password") && !error.contains("secret"), "{error}");
    }
}
